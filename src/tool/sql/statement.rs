//! A statement with named parameters, `:name`, and the same with numbered ones for a database.
//!
//! What stands in quotes and comments is left alone, and so is `::`, the cast of Postgres.

/// A statement with named parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    source: String,
    /// The names in the order of their first use.
    names: Vec<String>,
    /// The text with `?1` for the first name.
    sqlite: String,
    /// The text with `$1` for the first name.
    postgres: String,
}

impl Statement {
    /// Parses a statement; one semicolon at its end is taken off.
    ///
    /// # Errors
    /// One phrase, where a quote or a comment does not end, or where there are two statements.
    pub fn parse(source: &str) -> Result<Self, String> {
        let text = source.trim().trim_end_matches(';').trim_end();
        let mut statement =
            Self { source: source.to_owned(), names: Vec::new(), sqlite: String::new(), postgres: String::new() };
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = match first {
                ':' if rest.starts_with("::") => 2,
                ':' => match name_length(&rest[1..]) {
                    0 => 1,
                    length => {
                        statement.push_name(&rest[1..=length]);
                        rest = &rest[1 + length..];
                        continue;
                    }
                },
                ';' => return Err("must be one statement".to_owned()),
                _ => token_length(rest).ok_or("holds a quote or a comment that does not end")?,
            };
            statement.push(&rest[..length]);
            rest = &rest[length..];
        }
        if statement.sqlite.trim().is_empty() { Err("must hold a statement".to_owned()) } else { Ok(statement) }
    }

    /// The statement as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The names of its parameters, in the order of their numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The text for SQLite.
    pub(super) fn sqlite(&self) -> &str {
        &self.sqlite
    }

    /// The text for Postgres.
    pub(super) fn postgres(&self) -> &str {
        &self.postgres
    }

    fn push(&mut self, text: &str) {
        self.sqlite.push_str(text);
        self.postgres.push_str(text);
    }

    fn push_name(&mut self, name: &str) {
        let known = self.names.iter().position(|known| known == name);
        let number = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        self.sqlite.push_str(&format!("?{}", number + 1));
        self.postgres.push_str(&format!("${}", number + 1));
    }
}

fn name_length(text: &str) -> usize {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    if begins { end } else { 0 }
}

/// The length of what begins here and holds no parameter; nothing if it does not end.
fn token_length(text: &str) -> Option<usize> {
    if let Some(quote @ ('\'' | '"' | '`')) = text.chars().next() {
        return text[1..].find(quote).map(|at| at + 2);
    }
    if text.starts_with("--") {
        return Some(text.find('\n').map_or(text.len(), |at| at + 1));
    }
    if text.starts_with("/*") {
        return text.find("*/").map(|at| at + 2);
    }
    if let Some(tag) = dollar_tag(text) {
        return text[tag.len()..].find(tag).map(|at| at + 2 * tag.len());
    }
    let word = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(text.len());
    Some(if word > 0 && !text.starts_with('$') { word } else { text.chars().next().map_or(0, char::len_utf8) })
}

/// `$$` or `$tag$`, with which Postgres quotes.
fn dollar_tag(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('$')?;
    let length = name_length(inside);
    inside[length..].starts_with('$').then(|| &text[..length + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, String, Vec<String>) {
        let statement = Statement::parse(text).expect(text);
        let names = statement.names().map(str::to_owned).collect();
        (statement.sqlite().to_owned(), statement.postgres().to_owned(), names)
    }

    #[test]
    fn names_become_numbers_and_the_same_name_the_same_number() {
        let (sqlite, postgres, names) = parsed("select :a, :b from t where x = :a and y = :c_1::int;");
        assert_eq!(sqlite, "select ?1, ?2 from t where x = ?1 and y = ?3::int");
        assert_eq!(postgres, "select $1, $2 from t where x = $1 and y = $3::int");
        assert_eq!(names, ["a", "b", "c_1"]);
    }

    #[test]
    fn what_is_quoted_is_no_parameter() {
        for text in [
            "select ':a', \":b\", 'it''s :c' from t",
            "select 1 -- :a",
            "select /* :a ; */ 1",
            "select $$ :a ; $$",
            "select $q$ :a $$ ; $q$",
            "select a[1:2], x ->> 'k', 'тенге :a'",
        ] {
            let (sqlite, _, names) = parsed(text);
            assert_eq!((sqlite.as_str(), names.len()), (text, 0));
        }
    }

    #[test]
    fn two_statements_and_open_quotes_are_refused() {
        for text in ["select 1; drop table t", "select 'a", "select /* a", "select $q$ a $$", "", " ; "] {
            assert!(Statement::parse(text).is_err(), "{text}");
        }
    }
}
