//! What a configuration got wrong: every mistake, each with its place, its key and what would be
//! right.
//!
//! It must never know what the keys mean, and never holds the value of a secret.

use std::fmt;

/// Mistakes that are shown; a file with more of them is not a configuration.
const SHOWN: usize = 100;

/// Where a value or a key stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The file as a whole.
    File,
    /// In the file; both count from one.
    At {
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// In a variable of the environment.
    Env(String),
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where it stands.
    pub place: Place,
    /// The dotted path of the key; empty where there is none.
    pub key: String,
    /// What is wrong and what would be right, one phrase.
    pub wrong: String,
}

/// All mistakes of one configuration, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Report {
    file: String,
    mistakes: Vec<Mistake>,
}

impl Mistake {
    pub(super) fn new(place: Place, key: impl Into<String>, wrong: impl Into<String>) -> Self {
        Self { place, key: key.into(), wrong: wrong.into() }
    }
}

impl Report {
    pub(super) fn new(file: &str, mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort_by(|one, other| one.place.cmp(&other.place).then_with(|| one.key.cmp(&other.key)));
        Self { file: file.to_owned(), mistakes }
    }

    /// The mistakes: those of the file by line, then those of the environment.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mistake in self.mistakes.iter().take(SHOWN) {
            match &mistake.place {
                Place::File => write!(f, "{}: ", self.file)?,
                Place::At { line, column } => write!(f, "{}:{line}:{column}: ", self.file)?,
                Place::Env(name) => write!(f, "{name}: ")?,
            }
            if !mistake.key.is_empty() {
                write!(f, "{}: ", mistake.key)?;
            }
            writeln!(f, "{}", mistake.wrong)?;
        }
        match self.mistakes.len() {
            1 => write!(f, "1 mistake in the configuration"),
            count if count > SHOWN => write!(f, "{count} mistakes in the configuration, the first {SHOWN} shown"),
            count => write!(f, "{count} mistakes in the configuration"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_one_line_a_mistake_in_the_order_of_the_file_and_a_count() {
        let report = Report::new(
            "glassbox.yaml",
            vec![
                Mistake::new(Place::Env("GLASSBOX__SERVER__LISTEN".into()), "server.listen", "must be an address"),
                Mistake::new(Place::At { line: 12, column: 5 }, "agents.bank.model", "is missing"),
                Mistake::new(Place::At { line: 2, column: 9 }, "", "this is not YAML"),
            ],
        );
        assert_eq!(
            report.to_string(),
            "glassbox.yaml:2:9: this is not YAML\n\
             glassbox.yaml:12:5: agents.bank.model: is missing\n\
             GLASSBOX__SERVER__LISTEN: server.listen: must be an address\n\
             3 mistakes in the configuration"
        );
    }

    #[test]
    fn a_flood_of_mistakes_is_cut_and_counted() {
        let report = Report::new("x", vec![Mistake::new(Place::File, "", "wrong"); 250]);
        assert_eq!(report.to_string().lines().count(), 101);
        assert!(report.to_string().ends_with("250 mistakes in the configuration, the first 100 shown"));
    }
}
