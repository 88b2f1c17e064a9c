//! `glassbox auth`.

use clap::Subcommand;
use serde_json::json;

use super::{
    Global, exit,
    output::{say, say_json},
};
use crate::{http, runtime::SystemEntropy};

#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// Make an API key: it is printed once, the configuration gets its hash.
    NewKey {
        /// The name of the key under auth.api_keys.
        name: String,
    },
}

pub(super) fn run(global: &Global, command: &Command) -> anyhow::Result<u8> {
    let Command::NewKey { name } = command;
    let (key, hash) = http::new_api_key(&SystemEntropy);
    if global.json {
        say_json(&json!({ "name": name, "key": key.expose(), "hash": hash.to_string() }));
        return Ok(exit::OK);
    }
    say(format!("key: {}", key.expose()));
    say("# It is shown this once. Under auth.api_keys goes:");
    say(format!("{name}:\n  hash: {hash}\n  principal: {{ id: WHO, scopes: [], roles: [user] }}"));
    Ok(exit::OK)
}
