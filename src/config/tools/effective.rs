//! A tool as it took effect, as configuration again; secrets are not shown.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Declared, Kind, Means, Tool, cache, confirm};
use crate::{
    config::{
        effective::{SECRET, named},
        inject,
        units::{write_bytes, write_duration},
    },
    core::spec::{ArgumentRule, Confirm},
    tool::{
        Template, command, http,
        http::{Body, Header},
        sql,
        sql::Database,
    },
};

pub(in crate::config) fn tool(tool: &Tool) -> Value {
    let (builtin, declared) = match &tool.kind {
        Kind::Builtin(builtin) => (Some(builtin.label()), None),
        Kind::Declared(declared) => (None, Some(&**declared)),
    };
    let [http, sql, command] = declared.map_or([Value::Null, Value::Null, Value::Null], means);
    json!({
        "builtin": builtin,
        "description": tool.description,
        "parameters": declared.map(|declared| &declared.parameters),
        "bind": bind(&tool.bind),
        "http": http,
        "sql": sql,
        "command": command,
        "effect": tool.effect.label(),
        "confirm": confirm(tool.confirm, tool.confirm_when.as_ref()),
        "confirm_expires": write_duration(tool.confirm_expires),
        "timeout": write_duration(tool.timeout),
        "scopes": tool.scopes,
        "roles": tool.roles,
        "circuit": tool.circuit,
        "max_concurrent": tool.max_concurrent,
        "fallback_tool": tool.fallback_tool,
        "cache": cache::effective(tool.cache),
        "inject": inject::effective(tool.inject),
    })
}

/// `bind` as it is written; nothing where nothing is bound.
pub(in crate::config) fn bind(bind: &BTreeMap<String, String>) -> Value {
    if bind.is_empty() {
        return Value::Null;
    }
    named(bind, |claim| json!(format!("{{{{ principal.{claim} }}}}")))
}

/// `confirm` as it is written.
pub(in crate::config) fn confirm(word: Confirm, rule: Option<&ArgumentRule>) -> Value {
    match rule {
        None => json!(word.label()),
        Some(rule) => json!({ "when": confirm::effective(rule), "then": word.label() }),
    }
}

fn means(declared: &Declared) -> [Value; 3] {
    match &declared.means {
        Means::Http(plan) => [http_plan(plan), Value::Null, Value::Null],
        Means::Sql(plan) => [Value::Null, sql_plan(plan), Value::Null],
        Means::Command(plan) => [Value::Null, Value::Null, command_plan(plan)],
    }
}

fn http_plan(plan: &http::Plan) -> Value {
    let header = |header: &Header| match header {
        Header::Text(template) => json!(template.source()),
        Header::Secret(_) => json!(SECRET),
    };
    let (json, form) = match &plan.body {
        None => (None, None),
        Some(Body::Json(shape)) => (Some(shape.source()), None),
        Some(Body::Form(fields)) => (None, Some(named(fields, |field| json!(field.source())))),
    };
    json!({
        "method": plan.method.label(),
        "url": plan.address.source(),
        "query": templates(&plan.query),
        "headers": if plan.headers.is_empty() { Value::Null } else { named(&plan.headers, header) },
        "bearer": plan.bearer.as_ref().map(|_| SECRET),
        "json": json,
        "form": form,
        "result": plan.result,
        "failure": plan.failure.as_ref().map(|rule| json!({
            "pointer": rule.pointer,
            "equals": rule.equals,
            "message": rule.message,
        })),
        "max_bytes": write_bytes(plan.max_bytes),
    })
}

fn sql_plan(plan: &sql::Plan) -> Value {
    json!({
        "database": match &plan.database {
            Database::Sqlite(path) => path.display().to_string(),
            Database::Postgres(_) => SECRET.to_owned(),
        },
        "statement": plan.statement.source(),
        "max_rows": plan.max_rows,
        "write": plan.write,
    })
}

fn command_plan(plan: &command::Plan) -> Value {
    json!({
        "argv": plan.argv.iter().map(Template::source).collect::<Vec<_>>(),
        "env": if plan.env.is_empty() { Value::Null } else { named(&plan.env, |_| json!(SECRET)) },
        "cwd": plan.cwd.display().to_string(),
        "stdin": plan.stdin.as_ref().map(|shape| shape.source()),
        "output": if plan.json { "json" } else { "text" },
        "exit_codes": { "refused": plan.refused, "tool_error": plan.tool_error },
        "max_bytes": write_bytes(plan.max_bytes),
    })
}

fn templates(fields: &BTreeMap<String, Template>) -> Value {
    if fields.is_empty() { Value::Null } else { named(fields, |field| json!(field.source())) }
}
