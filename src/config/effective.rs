//! The configuration as it took effect, for people (`check`) and for hashes.
//!
//! What it writes is a configuration again, but for secrets, which are `[secret]`. It must never
//! expose one.

mod auth;
mod mcp;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    Config,
    agents::{Agent, Model, Provider, Script},
    console::Console,
    inject,
    resilience::{CircuitBreaker, Exception, RateLimits, RetryPolicy},
    service::{Privacy, Retention, Server, Store},
    telemetry::{Events, Telemetry},
    tools::effective as tool,
    units::{write_bytes, write_duration},
};
use crate::{
    core::{Limits, Money, fact::Language, notice::Hook},
    model::Access,
};

pub(super) const SECRET: &str = "[secret]";
/// Keys whose values are JSON of the user.
const FREE: [&str; 4] = ["output_schema", "parameters", "json", "stdin"];

pub(super) fn yaml(config: &Config) -> String {
    let root = json!({
        "agents": named(&config.agents, agent),
        "models": named(&config.models, model),
        "tools": named(&config.tools, tool),
        "mcp_servers": named(&config.mcp_servers, mcp::server),
        "llm_retry_policy": retry(&config.llm_retry_policy),
        "tool_retry_policy": retry(&config.tool_retry_policy),
        "circuit_breaker": breaker(&config.circuit_breaker),
        "rate_limits": rate_limits(&config.rate_limits),
        "store": store(&config.store),
        "server": server(&config.server),
        "auth": auth::auth(&config.auth),
        "console": console(&config.console),
        "telemetry": telemetry(&config.telemetry),
        "privacy": privacy(&config.privacy),
        "retention": retention(&config.retention),
        "handovers": webhook(config, Hook::Handovers),
        "confirmations": webhook(config, Hook::Confirmations),
    });
    let mut text = String::new();
    write(&root, 0, &mut text);
    text
}

/// Everything that decides how an agent's sessions run, as JSON with sorted keys and no spaces.
pub(super) fn fingerprint(config: &Config, name: &str) -> Option<String> {
    let chosen = config.agents.get(name)?;
    let tools: BTreeMap<_, _> = config.tools.iter().filter(|(name, _)| chosen.tools.contains(name)).collect();
    let used = |prefix: &str| chosen.tools.iter().any(|name| name.starts_with(prefix));
    let servers: BTreeMap<_, _> = config.mcp_servers.iter().filter(|(_, server)| used(&server.prefix)).collect();
    let is_theirs = |name: &str| servers.values().any(|server| name.starts_with(&server.prefix));
    let rates = config.rate_limits.tools.iter();
    let rates: BTreeMap<_, _> = rates.filter(|(name, _)| chosen.tools.contains(name) || is_theirs(name)).collect();
    let rates = RateLimits {
        tools: rates.into_iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        ..config.rate_limits.clone()
    };
    let value = json!({
        "name": name,
        "agent": agent(chosen),
        "model": config.models.get(&chosen.model).map(model),
        "fallback": chosen.fallback.as_ref().and_then(|name| config.models.get(name)).map(model),
        "tools": tools.into_iter().map(|(name, value)| (name.clone(), tool(value))).collect::<Map<_, _>>(),
        "mcp_servers": servers.into_iter().map(|(name, value)| (name.clone(), mcp::server(value))).collect::<Map<_, _>>(),
        "llm_retry_policy": retry(&config.llm_retry_policy),
        "tool_retry_policy": retry(&config.tool_retry_policy),
        "circuit_breaker": breaker(&config.circuit_breaker),
        "tool_rates": rate_limits(&rates)["tools"],
    });
    Some(sorted(value).to_string())
}

fn agent(agent: &Agent) -> Value {
    json!({
        "system_prompt": agent.system_prompt,
        "prompt_version": agent.prompt_version,
        "language": match agent.language { Language::Ru => "ru", Language::En => "en" },
        "model": agent.model,
        "fallback": agent.fallback,
        "tools": agent.tools,
        "limits": limits(&agent.limits),
        "task_types": agent.task_types,
        "output_schema": agent.output_schema,
    })
}

fn limits(limits: &Limits) -> Value {
    json!({
        "max_iterations": limits.max_iterations,
        "token_budget": limits.token_budget,
        "cost_limit_usd": limits.cost_limit.map(Money::usd),
        "context_ratio": limits.context_ratio,
        "deadline": write_duration(limits.deadline),
        "max_parallel_tools": limits.max_parallel_tools,
    })
}

fn model(model: &Model) -> Value {
    let script = match &model.provider {
        Provider::Scripted(Script::Bank) => Some("bank".to_owned()),
        Provider::Scripted(Script::File(path)) => Some(path.display().to_string()),
        Provider::Anthropic(_) | Provider::OpenAi(..) => None,
    };
    let max_tokens_key = match &model.provider {
        Provider::Scripted(_) | Provider::Anthropic(_) => None,
        Provider::OpenAi(_, key) => Some(key.label()),
    };
    let access = model.provider.access();
    let headers = |access: &Access| named(&access.headers, |_| json!(SECRET));
    json!({
        "provider": model.provider.label(),
        "script": script,
        "model": model.request_model,
        "base_url": access.map(|access| &access.base_url),
        "api_key": access.and_then(|access| access.api_key.as_ref()).map(|_| SECRET),
        "headers": access.filter(|access| !access.headers.is_empty()).map(headers),
        "stream": access.map(|access| access.stream),
        "max_tokens_key": max_tokens_key,
        "context_window": model.context_window,
        "max_output_tokens": model.max_output_tokens,
        "timeout": write_duration(model.timeout),
        "count_tokens": access.map(|_| model.count_tokens.label()),
        "prices": model.prices.map(|prices| json!({
            "input": prices.input.usd(),
            "output": prices.output.usd(),
            "cache_read": prices.cache_read.usd(),
            "cache_write": prices.cache_write.usd(),
        })),
        "tool_calling": access.map(|_| model.tool_calling.label()),
        "structured_output": access.map(|_| model.structured_output.label()),
        "inject": inject::effective(model.inject),
    })
}

fn retry(policy: &RetryPolicy) -> Value {
    let names = |list: &[Exception]| list.iter().map(|name| name.label()).collect::<Vec<_>>();
    json!({
        "max_attempts": policy.max_attempts,
        "initial_delay_ms": millis(policy.initial_delay),
        "backoff_multiplier": policy.backoff_multiplier,
        "jitter": policy.jitter,
        "max_delay_ms": millis(policy.max_delay),
        "retryable_status_codes": policy.retryable_status_codes,
        "non_retryable_status_codes": policy.non_retryable_status_codes,
        "retryable_exceptions": names(&policy.retryable_exceptions),
        "non_retryable_exceptions": names(&policy.non_retryable_exceptions),
    })
}

fn breaker(breaker: &CircuitBreaker) -> Value {
    json!({
        "failure_threshold": breaker.failure_threshold,
        "window_seconds": breaker.window.as_secs(),
        "min_calls": breaker.min_calls,
        "half_open_after": write_duration(breaker.half_open_after),
    })
}

fn rate_limits(limits: &RateLimits) -> Value {
    json!({
        "sessions_per_user_per_hour": limits.sessions_per_user_per_hour.map_or_else(|| json!("unlimited"), Value::from),
        "concurrent_sessions_per_user": limits.concurrent_sessions_per_user.map_or_else(|| json!("unlimited"), Value::from),
        "tools": named(&limits.tools, |rate| json!({
            "per_minute": rate.per_minute,
            "per_principal_per_minute": rate.per_principal_per_minute,
        })),
    })
}

fn store(store: &Store) -> Value {
    match store {
        Store::Memory => json!({ "kind": "memory" }),
        Store::Sqlite { path, synchronous } => {
            json!({ "kind": "sqlite", "path": path.display().to_string(), "synchronous": synchronous.label() })
        }
    }
}

fn server(server: &Server) -> Value {
    json!({
        "listen": server.listen.to_string(),
        "max_body_bytes": write_bytes(server.max_body_bytes),
        "request_timeout": write_duration(server.request_timeout),
        "idle_timeout": write_duration(server.idle_timeout),
        "heartbeat": write_duration(server.heartbeat),
        "grace_period": write_duration(server.grace_period),
        "max_sessions": server.max_sessions,
        "lease": write_duration(server.lease),
        "shed_above": {
            "queue_facts": server.shed_above.queue_facts,
            "commit_time": write_duration(server.shed_above.commit_time),
        },
    })
}

fn console(console: &Console) -> Value {
    json!({
        "enabled": console.enabled,
        "content": console.content.label(),
        "sign_in": write_duration(console.sign_in),
        "links": { "trace": console.links.trace, "dashboard": console.links.dashboard },
    })
}

fn telemetry(telemetry: &Telemetry) -> Value {
    let otlp = telemetry.otlp.as_ref().map_or_else(
        || json!({ "enabled": false }),
        |otlp| {
            json!({
                "enabled": true,
                "endpoint": otlp.endpoint,
                "protocol": otlp.protocol.label(),
                "headers": named(&otlp.headers, |_| json!(SECRET)),
                "timeout": write_duration(otlp.timeout),
                "compression": if otlp.gzip { "gzip" } else { "none" },
                "queue_size": otlp.queue_size,
                "batch_size": otlp.batch_size,
            })
        },
    );
    json!({
        "otlp": otlp,
        "service_name": telemetry.service_name,
        "resource_attributes": named(&telemetry.resource_attributes, |value| json!(value)),
        "sample_ratio": telemetry.sample_ratio,
        "sampling": telemetry.sampling.label(),
        "slow_session": write_duration(telemetry.slow_session),
        "events": telemetry.events.as_ref().map(|events| match events {
            Events::Stdout => "stdout".to_owned(),
            Events::Off => "none".to_owned(),
            Events::File(path) => path.display().to_string(),
        }),
        "log": telemetry.log,
    })
}

fn privacy(privacy: &Privacy) -> Value {
    json!({
        "hash_key": privacy.hash_key.as_ref().map(|_| SECRET),
        "span_content": privacy.span_content.label(),
    })
}

fn retention(retention: &Retention) -> Value {
    json!({ "sessions": retention.sessions.map(write_duration) })
}

fn webhook(config: &Config, hook: Hook) -> Value {
    let webhook = config.webhooks.get(&hook);
    json!({ "webhook": webhook.map(|webhook| json!({
        "url": webhook.url,
        "secret": SECRET,
        "timeout": write_duration(webhook.timeout),
    })) })
}

pub(super) fn named<T>(entries: &BTreeMap<String, T>, write: impl Fn(&T) -> Value) -> Value {
    Value::Object(entries.iter().map(|(name, value)| (name.clone(), write(value))).collect())
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let sorted_keys: BTreeMap<String, Value> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(sorted_keys.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// Block YAML. Text is quoted as JSON quotes it, which is YAML too; what is null is left out.
fn write(value: &Value, depth: usize, text: &mut String) {
    let Value::Object(map) = value else { return };
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        text.push_str(&format!("{}{}:", "  ".repeat(depth), key_of(key)));
        match value {
            // Free values are written as JSON, which is YAML too and keeps every null. Names that users choose
            // stand on the first levels.
            _ if depth > 1 && FREE.contains(&key.as_str()) => text.push_str(&format!(" {value}\n")),
            Value::Object(below) if below.values().any(|value| !value.is_null()) => {
                text.push('\n');
                write(value, depth + 1, text);
            }
            Value::Object(_) => text.push_str(" {}\n"),
            other => text.push_str(&format!(" {}\n", inline(other))),
        }
    }
}

/// A key as it can stand in YAML: quoted, where it is not a plain word.
fn key_of(key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if plain { key.to_owned() } else { Value::from(key).to_string() }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        // Words and sizes need no quotes; everything that YAML could guess about has them.
        Value::String(word) if is_word(word) => word.clone(),
        other => other.to_string(),
    }
}

fn is_word(text: &str) -> bool {
    let guessed = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !guessed.contains(&text.to_ascii_lowercase().as_str())
}
