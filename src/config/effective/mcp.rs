//! MCP servers as they took effect. What a child inherits is this process's own affair and left
//! out, and so are the secrets.

use serde_json::{Value, json};

use super::{SECRET, named, write_duration};
use crate::{
    config::{mcp::STRICT, tools},
    tool::{
        Overrides,
        mcp::{Reach, Settings},
    },
};

pub(super) fn server(settings: &Settings) -> Value {
    let mut value = json!({
        "prefix": settings.prefix,
        "tools": settings.tools,
        "strict": STRICT.iter().find(|(_, strict)| *strict == settings.strict).map(|(word, _)| word),
        "trusted": settings.trusted,
        "start_timeout": write_duration(settings.start_timeout),
        "pin": (!settings.pins.is_empty()).then(|| named(&settings.pins, |hash| json!(hash))),
        "on_drift": settings.on_drift.label(),
        "overrides": (!settings.each.is_empty()).then(|| named(&settings.each, rules)),
    });
    put(&mut value, reach(&settings.reach));
    put(&mut value, rules(&settings.all));
    value
}

fn reach(reach: &Reach) -> Value {
    match reach {
        Reach::Stdio { command, env, cwd, .. } => json!({
            "command": command,
            "env": (!env.is_empty()).then(|| named(env, |_| json!(SECRET))),
            "cwd": cwd.as_ref().map(|folder| folder.display().to_string()),
        }),
        Reach::Http { url, headers } => json!({
            "url": url,
            "headers": (!headers.is_empty()).then(|| named(headers, |_| json!(SECRET))),
        }),
    }
}

fn rules(rules: &Overrides) -> Value {
    json!({
        "description": rules.description,
        "effect": rules.effect.map(|effect| effect.label()),
        "confirm": rules.confirm.map(|word| tools::effective_confirm(word, rules.confirm_when.as_ref())),
        "bind": tools::effective_bind(&rules.bind),
        "confirm_expires": rules.confirm_expires.map(write_duration),
        "timeout": rules.timeout.map(write_duration),
        "scopes": rules.scopes,
        "roles": rules.roles,
        "circuit": rules.circuit,
        "max_concurrent": rules.max_concurrent,
        "fallback_tool": rules.fallback_tool,
        "cache": tools::effective_cache(rules.cache),
    })
}

fn put(value: &mut Value, more: Value) {
    if let (Value::Object(fields), Value::Object(more)) = (value, more) {
        fields.extend(more);
    }
}
