//! What the report says: the place, the key and what would be right.

use super::{SMALL, load, mistakes};

#[test]
fn five_mistakes_in_one_file_are_five_in_one_report() {
    let text = "\
agents:
  bank:
    system_prompt: Help.
    model: bnak
    limits:
      max_iterations: \"ten\"
      max_iteration: 5
models:
  bank:
    provider: scripted
    script: bank
    timeout: 15
server:
  listen: 0.0.0.0:8080
";
    let report = load(text, &[]).expect_err("five mistakes");
    assert_eq!(
        report.to_string(),
        "glassbox.yaml:4:12: agents.bank.model: must be the name of a model under models, not \"bnak\"; did you mean bank?\n\
         glassbox.yaml:6:23: agents.bank.limits.max_iterations: must be a whole number from 1 to 1000, not \"ten\"\n\
         glassbox.yaml:7:7: agents.bank.limits.max_iteration: is not a known key; did you mean max_iterations?\n\
         glassbox.yaml:12:14: models.bank.timeout: must be a duration such as 500ms, 15s or 10m, not \"15\": \
         name the unit, 15s or 15ms\n\
         glassbox.yaml:14:11: server.listen: must be a loopback address such as 127.0.0.1:8080 while no login is \
         configured (auth.api_keys or auth.jwt), not \"0.0.0.0:8080\"\n\
         5 mistakes in the configuration"
    );
}

/// Lines behind the small configuration (they begin on line 7), and the one mistake they make.
const TABLE: &[(&str, &str)] = &[
    ("server: {max_sessions: 0}", "7:24: server.max_sessions: must be a whole number from 1 to 1000000, not \"0\""),
    (
        "server: {max_body_bytes: 1024}",
        "7:26: server.max_body_bytes: must be a size such as 64KiB or 1MiB, not \"1024\": name the unit, 1024B for bytes",
    ),
    (
        "server: {max_body_bytes: 1MB}",
        "7:26: server.max_body_bytes: must be a size such as 64KiB or 1MiB, not \"1MB\": the units are B, KiB, MiB and GiB",
    ),
    (
        "server: {listen: 'localhost:80'}",
        "7:18: server.listen: must be an address and a port such as 127.0.0.1:8080, not \"localhost:80\": write 127.0.0.1:80",
    ),
    ("server: {grace_period: 1ms}", "7:24: server.grace_period: must be from 1s to 1d, not \"1ms\""),
    ("server: 5", "7:9: server: must be a section of keys, not a single value"),
    ("server: [a]", "7:9: server: must be a section of keys, not a list"),
    ("server:\n  listen:", "8:3: server.listen: has no value; write one or leave the line out"),
    ("sever: {}", "7:1: sever: is not a known key; did you mean server?"),
    ("store: {kind: postgres}", "7:15: store.kind: must be sqlite or memory, not \"postgres\""),
    ("store: {kind: memory, path: x}", "7:29: store.path: is for kind sqlite only; a memory store has no file"),
    (
        "store: {temperature: 1}",
        "7:9: store.temperature: is not a known key; the keys here are kind, path, synchronous",
    ),
    ("tools: {a: {}}", "7:9: tools.a: must say what is behind it: builtin, http, sql or command"),
    (
        "tools: {a: {builtin: txn_sun}}",
        "7:22: tools.a.builtin: must be txn_sum or card_block, not \"txn_sun\"; did you mean txn_sum?",
    ),
    (
        "tools: {a b: {builtin: txn_sum}}",
        "7:9: tools.a b: must be 1 to 64 letters, digits, _ and -, for providers take no others",
    ),
    ("tools: {a: {builtin: txn_sum, scopes: [x, x]}}", "7:43: tools.a.scopes[1]: stands here a second time"),
    ("tools: {a: {builtin: txn_sum, scopes: x}}", "7:39: tools.a.scopes: must be a list such as [one, two], not \"x\""),
    ("llm_retry_policy: {jitter: yes}", "7:28: llm_retry_policy.jitter: must be true or false, not \"yes\""),
    (
        "llm_retry_policy: {retryable_status_codes: [4290]}",
        "7:45: llm_retry_policy.retryable_status_codes[0]: must be a whole number from 100 to 599, not \"4290\"",
    ),
    (
        "llm_retry_policy: {retryable_status_codes: [401]}",
        "7:44: llm_retry_policy.retryable_status_codes: 401 is both retryable and not; the other list holds it too",
    ),
    (
        "tool_retry_policy: {retryable_exceptions: [NetworkErr]}",
        "7:44: tool_retry_policy.retryable_exceptions[0]: must be NetworkError, TimeoutError, ValidationError or AuthorizationError, not \"NetworkErr\"; did you mean NetworkError?",
    ),
    (
        "circuit_breaker: {failure_threshold: 80%}",
        "7:38: circuit_breaker.failure_threshold: must be a number above 0 and up to 1, not \"80%\": write 0.8",
    ),
    (
        "circuit_breaker: {window_seconds: 5m}",
        "7:35: circuit_breaker.window_seconds: must be a whole number from 1 to 86400, not \"5m\"",
    ),
    (
        "circuit_breaker: {half_open_after: soon}",
        "7:36: circuit_breaker.half_open_after: must be seconds or a duration from 1s to 1d, such as 60s, not \"soon\"",
    ),
    ("rate_limits: {tools: {card: {per_minute: 1}}}", "7:23: rate_limits.tools.card: is no tool under tools"),
    (
        "rate_limits: {sessions_per_user_per_hour: none}",
        "7:43: rate_limits.sessions_per_user_per_hour: must be a whole number from 1 to 1000000, not \"none\"",
    ),
    (
        "auth: {default_principal: {roles: [admin]}}",
        "7:36: auth.default_principal.roles[0]: must be user, approver or operator, not \"admin\"",
    ),
    (
        "auth: {default_principal: {id: 007}}",
        "7:32: auth.default_principal.id: must be text, not \"007\": YAML reads 007 as a number, so write \"007\"",
    ),
    (
        "telemetry: {log: inof}",
        "7:18: telemetry.log: must be a level (off, error, warn, info, debug or trace), or levels of targets such as warn,glassbox=debug, not \"inof\"; did you mean info?",
    ),
    ("telemetry: {sample_ratio: 2}", "7:27: telemetry.sample_ratio: must be a number from 0 to 1, not \"2\""),
    (
        "telemetry: {otlp: {endpoint: 'localhost:4317'}}",
        "7:30: telemetry.otlp.endpoint: must be an address such as http://127.0.0.1:4318; it begins with http:// or https://",
    ),
    (
        "telemetry: {otlp: {queue_size: 10, batch_size: 20}}",
        "7:48: telemetry.otlp.batch_size: must be at most queue_size (10)",
    ),
    (
        "telemetry: {resource_attributes: {service.name: x}}",
        "7:35: telemetry.resource_attributes.service.name: has a key of its own, telemetry.service_name",
    ),
    (
        "telemetry: {service_name: no}",
        "7:27: telemetry.service_name: must be text, not \"no\": YAML reads no as true or false, so write \"no\"",
    ),
    (
        "privacy: {hash_key: hunter2}",
        "7:21: privacy.hash_key: must be { env: NAME } or { file: PATH }, so that the secret stands elsewhere",
    ),
    ("privacy: {hash_key: {env: NO_SUCH}}", "7:21: privacy.hash_key: the variable NO_SUCH is not set"),
    ("privacy: hunter2", "7:10: privacy: must be a section of keys, not a single value"),
    ("models: {}", "7:1: models: stands here a second time"),
];

#[test]
fn each_kind_of_wrong_value_is_told_in_its_place() {
    for (lines, expected) in TABLE {
        let found = mistakes(&format!("{SMALL}{lines}\n"), &[]);
        assert_eq!(found, [format!("glassbox.yaml:{expected}")], "{lines}");
    }
}

#[test]
fn agents_are_held_to_their_names_and_limits() {
    for (line, expected) in [
        ("tools: [txn_sum]", "must be the name of a tool under tools, not \"txn_sum\"; none is declared"),
        ("task_types: []", "must name at least one kind of task, such as [other]"),
        ("task_types: [Spending]", "must be small letters, digits and _, and begin with a letter"),
        ("prompt_version: 2", "must be text, not \"2\": YAML reads 2 as a number, so write \"2\""),
        ("language: de", "must be ru or en, not \"de\""),
        ("max_iterations: 5", "is not a known key; it belongs under limits"),
        ("limits: {context_ratio: 0}", "must be a number above 0 and up to 1, not \"0\""),
        ("limits: {max_parallel_tools: 0}", "must be a whole number from 1 to 256, not \"0\""),
        ("limits: {token_budget: 50_000}", "must be a whole number from 1 to 1000000000, not \"50_000\""),
        (
            "limits: {cost_limit_usd: 0.5}",
            "limits.cost_limit_usd: needs to know what tokens cost; write models.bank.prices",
        ),
        (
            "limits: {cost_limit_usd: $5}",
            "must be a number of US dollars such as 0.25, up to 1000000 and with up to 4 digits after the point, not \"$5\"",
        ),
        ("limits: {cost_limit_usd: 0}", "must be more than nothing, not \"0\""),
        ("limits: {preset: reserch}", "must be default, simple or research, not \"reserch\"; did you mean research?"),
    ] {
        let text = SMALL.replace("    model: bank\n", &format!("    model: bank\n    {line}\n"));
        let found = mistakes(&text, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("glassbox.yaml:5:") && found[0].ends_with(expected), "{}", found[0]);
    }
    let found = mistakes(&SMALL.replace("  bank:\n    system", "  Bank-1:\n    system"), &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("glassbox.yaml:2:3: agents.Bank-1: must be small letters"), "{}", found[0]);
}

#[test]
fn a_limit_on_cost_needs_the_prices_of_every_model_that_may_be_asked() {
    let text = SMALL
        .replace("    model: bank\n", "    model: bank\n    fallback: spare\n    limits: {cost_limit_usd: 0.5}\n")
        .replace("script: bank}", "script: bank, prices: {input: 1, output: 2}}");
    let found = mistakes(&format!("{text}  spare: {{provider: scripted, script: bank}}\n"), &[]);
    assert_eq!(
        found,
        ["glassbox.yaml:6:30: agents.bank.limits.cost_limit_usd: needs to know what tokens cost; write \
          models.spare.prices"]
    );
}

#[test]
fn an_empty_file_lacks_an_agent_and_nothing_else() {
    for text in ["", "# nothing\n", "{}\n", "agents:\n", "agents: {}\n"] {
        let found = mistakes(text, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with("agents: must declare at least one agent"), "{}", found[0]);
    }
    assert_eq!(
        mistakes("agents: x\n", &[]),
        ["glassbox.yaml:1:9: agents: must be a section of names, not a single value"]
    );
}

#[test]
fn broken_text_is_one_mistake_with_its_place() {
    let found = mistakes("agents:\n  bank: [1\nmodels: {}\n", &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("glassbox.yaml:3:") && found[0].contains("this is not YAML"), "{}", found[0]);
    let report = glassbox::config::Config::from_text(
        "glassbox.yaml",
        b"agents:\n  a\xff: 1\n",
        std::path::Path::new(""),
        &std::collections::BTreeMap::new(),
    );
    let report = report.expect_err("no UTF-8").to_string();
    assert!(report.starts_with("glassbox.yaml:2:4: this byte is not UTF-8"), "{report}");
    let large = format!("{SMALL}# {}", "x".repeat(1 << 20));
    assert_eq!(mistakes(&large, &[]), ["glassbox.yaml: is larger than 1 MiB; a configuration is not"]);
}

/// Entries of `models` behind the small configuration, and the one mistake they make.
const MODELS: &[(&str, &str)] = &[
    (
        "x: {provider: antropic}",
        "7:17: models.x.provider: must be scripted, anthropic or openai, not \"antropic\"; did you mean anthropic?",
    ),
    (
        "x: {provider: anthropic}",
        "7:3: models.x.api_key: is missing; write { env: NAME } or { file: PATH }, or the base_url of a server of your own",
    ),
    ("x: {provider: anthropic, api_key: {env: NO_KEY}}", "7:37: models.x.api_key: the variable NO_KEY is not set"),
    (
        "x: {provider: anthropic, api_key: {env: TWO_LINES}}",
        "7:37: models.x.api_key: holds characters that no HTTP header may hold",
    ),
    ("x: {provider: openai, base_url: 'http://h/v1'}", "7:3: models.x.model: is missing"),
    (
        "x: {provider: openai, model: m, base_url: 'h/v1'}",
        "7:45: models.x.base_url: must be an http or https address such as https://api.example.com/v1, not \"h/v1\"",
    ),
    (
        "x: {provider: openai, model: m, base_url: 'http://h', max_tokens_key: tokens}",
        "7:73: models.x.max_tokens_key: must be max_tokens or max_completion_tokens, not \"tokens\"",
    ),
    (
        "x: {provider: anthropic, base_url: 'http://h', max_tokens_key: max_tokens}",
        "7:66: models.x.max_tokens_key: is for provider openai only",
    ),
    (
        "x: {provider: scripted, script: bank, stream: true}",
        "7:49: models.x.stream: is for provider anthropic or openai only",
    ),
    (
        "x: {provider: openai, model: m, base_url: 'http://h', script: bank}",
        "7:65: models.x.script: is for provider scripted only",
    ),
    ("x: {provider: scripted}", "7:3: models.x.script: is missing"),
    (
        "x: {provider: scripted, script: bank, count_tokens: tokenizer}",
        "7:55: models.x.count_tokens: is for provider anthropic or openai only",
    ),
    (
        "x: {provider: openai, model: m, base_url: 'http://h', count_tokens: provider}",
        "7:71: models.x.count_tokens: must be tokenizer or estimate: the API of provider openai counts nothing",
    ),
    ("x: {provider: scripted, script: bank, prices: {input: 3}}", "7:41: models.x.prices.output: is missing"),
    (
        "x: {provider: scripted, script: bank, prices: {input: 3, output: 1e1}}",
        "7:68: models.x.prices.output: must be a number of US dollars such as 0.25, up to 1000000 and with up to 4 \
         digits after the point, not \"1e1\"",
    ),
];

#[test]
fn each_mistake_of_a_model_is_told_where_it_stands() {
    for (line, expected) in MODELS {
        let found = mistakes(&format!("{SMALL}  {line}\n"), &[("TWO_LINES", "a\nb")]);
        assert_eq!(found, [format!("glassbox.yaml:{expected}")], "{line}");
    }
}

#[test]
fn a_misplaced_secret_is_not_repeated() {
    for lines in [
        "telemetry: {otlp: {headers: hunter2}}",
        "telemetry: {otlp: {headers: {a: [hunter2]}}}",
        "privacy: {hash_key: [hunter2]}",
        "privacy: {hash_key: {env: [hunter2]}}",
        "privacy: [hunter2]",
        "  other: {provider: anthropic, api_key: hunter2}",
        "  other: {provider: openai, model: m, base_url: 'http://me:hunter2@host/v1'}",
        "telemetry: {otlp: {endpoint: 'http://me:hunter2@host'}}",
    ] {
        let found = mistakes(&format!("{SMALL}{lines}\n"), &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(!found[0].contains("hunter2"), "{}", found[0]);
    }
}

#[test]
fn large_and_hostile_files_end_in_a_report() {
    let names = |count: usize| (0..count).map(|i| format!("  maximum_iterations_{i}: {{}}\n")).collect::<String>();
    let words = |count: usize| (0..count).map(|i| format!("word{i}")).collect::<Vec<_>>().join(", ");
    for (text, part) in [
        (names(20_000).replace("  maximum", "maximum"), "20001 mistakes in the configuration, the first 100 shown"),
        (format!("agents:\n{}", names(20_000)), "agents: holds 20000 names; 1000 at the most"),
        (format!("{SMALL}tools: {{a: {{builtin: txn_sum, scopes: [{}]}}}}\n", words(20_000)), "20000 entries; 1000"),
        (format!("a: [{}]\n", "x,".repeat(200_000)), "4 MiB"),
        ("[".repeat(100_000), "nested too deep"),
        ("- ".repeat(100_000), "nested too deep"),
        ("a: ".repeat(100_000), "this is not YAML"),
        ("{a: ".repeat(100_000), "nested too deep"),
        (format!("a: \"{}", "x".repeat(1_000_000)), "this is not YAML"),
        (format!("agents: {}\n", "x".repeat(1_000_000)), "agents: must be a section of names, not a single value"),
        (format!("{}: 1\n", "x".repeat(1_000)), "is not a known key"),
    ] {
        let report = load(&text, &[]).expect_err("it is hostile").to_string();
        assert!(report.contains(part) && report.len() < 100_000, "{part}: {}", &report[..report.len().min(300)]);
    }
}
