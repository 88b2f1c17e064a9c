//! `console`: the pages for people at `/console`.
//!
//! It must never know what a page looks like.

use std::time::Duration;

use super::{
    reader::Section,
    scalar::{self, Read},
    tree::Node,
};

/// What an address of a link can be filled with.
const HOLES: [&str; 3] = ["trace_id", "session_id", "agent"];

/// The pages for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Console {
    /// Whether there are any.
    pub enabled: bool,
    /// Who reads the texts of a session there.
    pub content: Content,
    /// How long a sign-in is good.
    pub sign_in: Duration,
    /// Where to look further.
    pub links: Links,
}

/// Who reads the texts of a session on its page: task, arguments, results, answers, errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// The session's own principal.
    #[default]
    Owner,
    /// Operators too.
    Operators,
    /// Nobody.
    Off,
}

/// Addresses of other programs' pages; each may hold `{trace_id}`, `{session_id}` and `{agent}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// Of a session's trace.
    pub trace: Option<String>,
    /// Of a dashboard.
    pub dashboard: Option<String>,
}

impl Content {
    /// Each, with its word in configuration.
    const ALL: [(&'static str, Self); 3] = [("owner", Self::Owner), ("operators", Self::Operators), ("off", Self::Off)];

    /// The word in configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Operators => "operators",
            Self::Off => "off",
        }
    }
}

impl Default for Console {
    fn default() -> Self {
        let sign_in = Duration::from_secs(8 * 3600);
        Self { enabled: true, content: Content::default(), sign_in, links: Links::default() }
    }
}

pub(super) fn read(section: &Section<'_>) -> Console {
    let implied = Console::default();
    let (minute, month) = (Duration::from_secs(60), Duration::from_secs(30 * 86_400));
    let links = section.section("links");
    Console {
        enabled: section.get("enabled", scalar::flag).unwrap_or(implied.enabled),
        content: section.get("content", scalar::word(&Content::ALL)).unwrap_or_default(),
        sign_in: section.get("sign_in", scalar::duration(minute, month)).unwrap_or(implied.sign_in),
        links: Links { trace: links.get("trace", address), dashboard: links.get("dashboard", address) },
    }
}

/// An address that a browser opens and that runs nothing.
fn address(node: &Node) -> Read<String> {
    let right = "must be an address that begins with http:// or https:// and may hold {trace_id}, {session_id} and \
                 {agent}";
    let text = scalar::text(node)?;
    let of_web = text.starts_with("http://") || text.starts_with("https://");
    let plain = text.chars().all(|letter| !letter.is_control() && !letter.is_whitespace());
    let filled = HOLES.iter().fold(text.clone(), |text, hole| text.replace(&format!("{{{hole}}}"), ""));
    if of_web && plain && !filled.contains(['{', '}']) { Ok(text) } else { Err(format!("{right}, not {text:?}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{reader::Reader, tree};

    fn read_yaml(yaml: &str) -> (Console, usize) {
        let tree = tree::parse(yaml, None).expect("it is YAML");
        let reader = Reader::new(tree.mistakes);
        let console = read(&reader.root(&tree.root));
        (console, reader.finish().0.len())
    }

    #[test]
    fn a_link_is_an_address_of_the_web_with_known_holes() {
        let (console, mistakes) = read_yaml("links: {trace: 'http://127.0.0.1:16686/trace/{trace_id}'}");
        assert_eq!(console.links.trace.as_deref(), Some("http://127.0.0.1:16686/trace/{trace_id}"));
        assert_eq!((console.links.dashboard, mistakes), (None, 0));
        for wrong in ["javascript:alert(1)", "/trace", "ftp://a", "http://a/{user}", "http://a/{", "'http://a b'"] {
            let (console, mistakes) = read_yaml(&format!("links: {{dashboard: \"{}\"}}", wrong.trim_matches('\'')));
            assert_eq!((console.links.dashboard, mistakes), (None, 1), "{wrong}");
        }
    }

    #[test]
    fn what_is_left_out_is_careful() {
        assert_eq!(read_yaml("{}").0, Console::default());
        assert_eq!(Console::default().content, Content::Owner);
        assert_eq!(read_yaml("content: operators").0.content, Content::Operators);
        assert_eq!(read_yaml("content: everybody").1, 1);
        assert_eq!(read_yaml("sign_in: 1s").1, 1);
    }
}
