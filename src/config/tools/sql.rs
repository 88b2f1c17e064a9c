//! `tools.<name>.sql`: the statement, and where it runs.

use std::path::PathBuf;

use crate::{
    config::{
        reader::Section,
        scalar::{self, Read},
        secret::Vault,
        tree::{Node, Value},
    },
    tool::sql::{DEFAULT_MAX_ROWS, Database, Plan, Statement},
};

pub(super) fn read(section: &Section<'_>, vault: Vault<'_>) -> Option<Plan> {
    let database = section.need("database", |node| database(node, vault));
    let statement = section.need("statement", |node| Statement::parse(&scalar::text(node)?));
    let max_rows = section.get("max_rows", scalar::whole(1..=10_000)).unwrap_or(DEFAULT_MAX_ROWS);
    let write = section.get("write", scalar::flag).unwrap_or(false);
    Some(Plan { database: database?, statement: statement?, max_rows, write })
}

/// The path of a file, or the address of a server, which may hold a password.
fn database(node: &Node, vault: Vault<'_>) -> Read<Database> {
    let literal = matches!(node.value, Value::Scalar { .. });
    let secret = vault.any(node)?;
    let text = secret.expose();
    if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
        return Ok(Database::Sqlite(PathBuf::from(text)));
    }
    let login = text.split_once("://").and_then(|(_, rest)| rest.split_once('@'));
    if literal && login.is_some_and(|(login, _)| login.contains(':')) {
        return Err("must not hold a password; write { env: NAME } or { file: PATH }".to_owned());
    }
    Ok(Database::Postgres(secret))
}
