//! `glassbox check`.

use clap::Args;

use super::{Global, exit, say};

#[derive(Args, Debug)]
pub(super) struct Options {
    /// What to look at.
    #[arg(value_enum, default_value_t = What::Config)]
    what: What,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// The configuration as it takes effect, secrets hidden.
    Config,
}

pub(super) fn run(global: &Global, options: &Options) -> anyhow::Result<u8> {
    let What::Config = options.what;
    let config = global.load()?;
    say(config.effective_yaml().trim_end());
    for hint in config.hints() {
        say(format!("# hint: {hint}"));
    }
    Ok(exit::OK)
}
