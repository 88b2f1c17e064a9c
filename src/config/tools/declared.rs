//! A tool by its kind, and whether what it takes and what its parts use fit together.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Builtin, Declared, Kind, Means, Tool, command, free, http, sql};
use crate::{
    config::{reader::Section, scalar, secret::Vault},
    core::Effect,
    tool::{
        schema::{Schema, Strict},
        template::IDEMPOTENCY_KEY,
    },
};

/// The keys that say what is behind a tool; one of them must stand there.
const KINDS: [&str; 4] = ["builtin", "http", "sql", "command"];

pub(super) fn read(section: &Section<'_>, bind: &BTreeMap<String, String>, vault: Vault<'_>) -> Kind {
    let there: Vec<&str> = KINDS.into_iter().filter(|key| section.has(key)).collect();
    if there.len() > 1 {
        section.wrong(KINDS[0], format!("must be one kind of tool, not {}", there.join(" and ")));
    }
    let parameters = section.get("parameters", free::json);
    let means = match there.first() {
        Some(&"http") => http::read(&section.section("http"), vault).map(Box::new).map(Means::Http),
        Some(&"sql") => sql::read(&section.section("sql"), vault).map(Means::Sql),
        Some(&"command") => command::read(&section.section("command"), vault).map(Means::Command),
        _ => {
            // Asked for, so that the keys below are known.
            let builtin = section.get("builtin", scalar::word(&Builtin::ALL));
            if there.is_empty() {
                section.wrong_here("must say what is behind it: builtin, http, sql or command");
            }
            if section.has("parameters") {
                section.wrong("parameters", "is for tools by http, sql or command; a built-in one has its own");
            }
            if section.has("bind") {
                section.wrong("bind", "is for tools by http, sql or command; a built-in one takes the login itself");
            }
            return Kind::Builtin(builtin.unwrap_or(Builtin::TxnSum));
        }
    };
    let parameters = check_parameters(section, parameters);
    match means {
        Some(means) => {
            check_names(section, &means, &parameters, bind);
            Kind::Declared(Box::new(Declared { parameters, means }))
        }
        // What is wrong stands in the report already.
        None => Kind::Builtin(Builtin::TxnSum),
    }
}

/// What only the whole tool can say.
pub(super) fn check(section: &Section<'_>, tool: &Tool) {
    check_cache(section, tool);
    let Kind::Declared(declared) = &tool.kind else { return };
    if tool.description.is_none() && !section.has("description") {
        section.wrong("description", "is missing; it is what tells a model when to call the tool");
    }
    if let Means::Sql(plan) = &declared.means
        && plan.write
        && tool.effect == Effect::Read
    {
        section.wrong("effect", "must be idempotent or unsafe, for the statement is declared to write");
    }
}

/// Only what changes nothing can be answered from memory, and only what is the same for all can be
/// told to others.
fn check_cache(section: &Section<'_>, tool: &Tool) {
    let Some(cache) = tool.cache else { return };
    if tool.effect != Effect::Read {
        section.wrong("cache", "is for tools with effect: read; a call of this one changes something");
    }
    if cache.shared && (matches!(tool.kind, Kind::Builtin(_)) || !tool.bind.is_empty()) {
        section.wrong("cache", "must not be shared, for what the tool gives depends on the login");
    }
}

fn check_parameters(section: &Section<'_>, parameters: Option<Value>) -> Value {
    let none = || json!({"type": "object", "properties": {}, "additionalProperties": false});
    let Some(parameters) = parameters else { return none() };
    if let Err(errors) = Schema::compile(&parameters, Strict::Refuse) {
        for error in errors {
            section.wrong("parameters", error.to_string());
        }
    }
    parameters
}

/// Every hole has an argument, every argument a hole.
fn check_names(section: &Section<'_>, means: &Means, parameters: &Value, bind: &BTreeMap<String, String>) {
    let properties = parameters.get("properties").and_then(Value::as_object);
    let declared: BTreeSet<&str> =
        properties.into_iter().flat_map(|fields| fields.keys().map(String::as_str)).collect();
    let used: BTreeSet<&str> = names(means).into_iter().collect();
    let known = |name: &&str| declared.contains(name) || bind.contains_key(*name) || *name == IDEMPOTENCY_KEY;
    let key = key_of(means);
    for name in used.iter().filter(|name| !known(name)) {
        section.wrong(key, format!("uses {name}, which is neither under parameters nor under bind"));
    }
    for name in declared.iter().filter(|name| !used.contains(*name)) {
        section.wrong("parameters", format!("declares {name}, which {key} does not use"));
    }
    for name in bind.keys().filter(|name| !used.contains(name.as_str())) {
        section.wrong("bind", format!("sets {name}, which {key} does not use"));
    }
    if let Means::Http(plan) = means {
        let optional = |name: &&str| declared.contains(name) && !is_always_there(parameters, name);
        for name in plan.address.names().filter(optional) {
            section.wrong("parameters", format!("must require {name} or give it a default, for it stands in the path"));
        }
    }
    for name in bind.keys().filter(|name| declared.contains(name.as_str())) {
        section.wrong("bind", format!("sets {name}, which stands under parameters too; a model must not see it"));
    }
}

fn names(means: &Means) -> Vec<&str> {
    match means {
        Means::Http(plan) => plan.names(),
        Means::Sql(plan) => plan.statement.names().collect(),
        Means::Command(plan) => plan.names(),
    }
}

const fn key_of(means: &Means) -> &'static str {
    match means {
        Means::Http(_) => "http",
        Means::Sql(_) => "sql",
        Means::Command(_) => "command",
    }
}

fn is_always_there(parameters: &Value, name: &str) -> bool {
    let required = parameters.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|known| known == name))
        || parameters.pointer(&format!("/properties/{name}/default")).is_some()
}
