//! The configuration seen from outside: what it loads to, and what it says about mistakes.

mod login;
mod mcp;
mod mistakes;
mod tools;
mod variables;

use std::{collections::BTreeMap, path::Path, time::Duration};

use glassbox::config::{Config, Exception, Provider, Report, Script, Sources, Store, Synchronous};
use glassbox::core::{Effect, Fault, FaultKind, Money, Prices, fact::Language, spec::Confirm};
use glassbox::model::{Access, StructuredOutput, openai::MaxTokensKey, react::ToolCalling};
use proptest::prelude::*;

/// A whole configuration, as small as it gets; tests put their own lines behind it.
const SMALL: &str = "\
agents:
  bank:
    system_prompt: Help.
    model: bank
models:
  bank: {provider: scripted, script: bank}
";

fn load(text: &str, env: &[(&str, &str)]) -> Result<Config, Report> {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Config::from_text("glassbox.yaml", text.as_bytes(), Path::new(""), &env)
}

fn loaded(text: &str, env: &[(&str, &str)]) -> Config {
    load(text, env).unwrap_or_else(|report| panic!("{report}"))
}

/// The lines of the report, without the count.
fn mistakes(text: &str, env: &[(&str, &str)]) -> Vec<String> {
    let report = load(text, env).expect_err("it has mistakes").to_string();
    let lines: Vec<String> = report.lines().map(str::to_owned).collect();
    let count = lines.len() - 1;
    let word = if count == 1 { "mistake" } else { "mistakes" };
    assert_eq!(lines[count], format!("{count} {word} in the configuration"));
    lines[..count].to_vec()
}

#[test]
fn the_default_is_the_bank_assistant() {
    let config = Config::embedded();
    let bank = &config.agents["bank"];
    assert_eq!(config.default_agent(), Some("bank"));
    assert_eq!(bank.language, Language::Ru);
    assert_eq!(bank.tools, ["txn_sum", "card_block", "txn_list", "today"]);
    assert_eq!(bank.task_types, ["spending", "card", "other"]);
    assert_eq!((bank.limits.max_iterations, bank.limits.token_budget), (15, 50_000));
    assert_eq!(config.models["bank"].info("bank").provider, "scripted");
    let card = &config.tools["card_block"];
    assert_eq!((card.effect, card.confirm), (Effect::Unsafe, Confirm::AskCustomer));
    let sum = &config.tools["txn_sum"];
    assert_eq!((sum.effect, sum.confirm, sum.timeout), (Effect::Read, Confirm::Never, Duration::from_secs(15)));
    assert_eq!(config.auth.default_principal.id, "C-001");
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.store, Store::Sqlite { path: "glassbox.db".into(), synchronous: Synchronous::Full });
    assert_eq!(config.telemetry.otlp, None);
    assert_eq!(config.hints(), Vec::<String>::new());
}

#[test]
fn the_seeds_retry_policies_load_as_they_stand() {
    let seed = include_str!("../data/seed/retry.yaml");
    let config = loaded(&format!("{SMALL}{seed}"), &[]);
    let llm = &config.llm_retry_policy;
    assert_eq!((llm.max_attempts, llm.initial_delay), (3, Duration::from_millis(1000)));
    assert_eq!((llm.backoff_multiplier, llm.jitter), (2.0, true));
    assert_eq!(llm.retryable_status_codes, [429, 503, 529]);
    assert_eq!(llm.non_retryable_status_codes, [400, 401, 413]);
    let tool = &config.tool_retry_policy;
    assert_eq!((tool.max_attempts, tool.initial_delay), (2, Duration::from_millis(500)));
    assert_eq!((tool.backoff_multiplier, tool.jitter), (1.5, false));
    assert_eq!(tool.retryable_exceptions, [Exception::NetworkError, Exception::TimeoutError]);
    assert_eq!(tool.non_retryable_exceptions, [Exception::ValidationError, Exception::AuthorizationError]);
    let retries = |kind| tool.rules().retries(&Fault::new(kind, "x"));
    assert!(retries(FaultKind::Connection) && !retries(FaultKind::Auth));
    // Left out, they are the same.
    let plain = loaded(SMALL, &[]);
    assert_eq!((&plain.llm_retry_policy, &plain.tool_retry_policy), (llm, tool));
}

#[test]
fn presets_set_limits_and_single_limits_win() {
    let limits = |lines: &str| {
        let text = SMALL.replace("    model: bank\n", &format!("    model: bank\n    limits: {{{lines}}}\n"));
        loaded(&text, &[]).agents["bank"].limits.clone()
    };
    assert_eq!(limits("preset: simple").max_iterations, 5);
    let research = limits("preset: research");
    assert!(research.max_iterations == 25 && research.token_budget < 50_000, "{research:?}");
    assert_eq!(limits("preset: research, max_iterations: 20, token_budget: 90000").token_budget, 90_000);
    assert_eq!(limits("").max_iterations, 15);
}

#[test]
fn the_seeds_breaker_loads_with_its_plain_seconds() {
    let breaker = "circuit_breaker: {failure_threshold: 0.5, window_seconds: 60, min_calls: 3, half_open_after: 5}\n";
    let breaker = loaded(&format!("{SMALL}{breaker}"), &[]).circuit_breaker;
    assert_eq!((breaker.failure_threshold, breaker.min_calls), (0.5, 3));
    assert_eq!((breaker.window, breaker.half_open_after), (Duration::from_secs(60), Duration::from_secs(5)));
    let normal = loaded(SMALL, &[]).circuit_breaker;
    assert_eq!((normal.failure_threshold, normal.min_calls), (0.8, 5));
    assert_eq!((normal.window, normal.half_open_after), (Duration::from_secs(300), Duration::from_secs(60)));
}

#[test]
fn sessions_are_kept_for_ever_or_for_a_time() {
    assert_eq!(loaded(SMALL, &[]).retention.sessions, None);
    let config = loaded(&format!("{SMALL}retention: {{sessions: 90d}}\n"), &[]);
    assert_eq!(config.retention.sessions, Some(Duration::from_secs(90 * 86_400)));
    assert_eq!(loaded(&config.effective_yaml(), &[]), config);
    let wrong = mistakes(&format!("{SMALL}retention: {{sessions: 5m}}\n"), &[]);
    assert_eq!(wrong, ["glassbox.yaml:7:23: retention.sessions: must be from 1h to 36500d, not \"5m\""]);
}

#[test]
fn files_are_read_with_paths_relative_to_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("glassbox.yaml");
    let text = SMALL.replace("script: bank", "script: replies.yaml") + "privacy: {hash_key: {file: key}}\n";
    std::fs::write(&path, text).expect("a file");
    std::fs::write(folder.path().join("key"), "0123456789abcdef\n").expect("a file");
    let config = Config::load(&Sources { file: Some(path), env: BTreeMap::new() });
    let config = config.unwrap_or_else(|report| panic!("{report}"));
    let glassbox::config::Provider::Scripted(script) = &config.models["bank"].provider else {
        panic!("the bank's model is scripted")
    };
    assert_eq!(script, &Script::File(folder.path().join("replies.yaml")));
    assert_eq!(config.privacy.hash_key.map(|key| key.into_inner()).as_deref(), Some("0123456789abcdef"));

    let missing = folder.path().join("none.yaml");
    let report = Config::load(&Sources { file: Some(missing.clone()), env: BTreeMap::new() }).expect_err("no file");
    assert!(report.to_string().starts_with(&format!("{}: cannot be read: ", missing.display())), "{report}");
}

#[test]
fn the_effective_configuration_loads_to_itself_and_holds_no_secret() {
    for config in [Config::embedded(), loaded(SMALL, &[])] {
        assert_eq!(loaded(&config.effective_yaml(), &[]), config);
    }
    let secrets = "privacy: {hash_key: {env: KEY}}\n\
                   telemetry: {otlp: {endpoint: 'http://h:4318', headers: {Authorization: hunter2}}}\n";
    let config = loaded(&format!("{SMALL}{secrets}"), &[("KEY", "hunter2-hunter2-hunter2")]);
    let text = config.effective_yaml();
    assert!(!text.contains("hunter2") && !format!("{config:?}").contains("hunter2"), "{text}");
    assert!(text.contains("hash_key: \"[secret]\"") && text.contains("authorization: \"[secret]\""), "{text}");
    assert_eq!(text, config.effective_yaml());
}

#[test]
fn the_default_file_shows_every_key_that_takes_effect() {
    fn key(line: &str) -> Option<&str> {
        let (key, _) = line.trim_start_matches(['#', ' ', '-']).split_once(':')?;
        key.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_').then_some(key)
    }
    let shown: std::collections::BTreeSet<_> = glassbox::config::DEFAULT_YAML.lines().filter_map(key).collect();
    let effective = Config::embedded().effective_yaml();
    let keys: Vec<_> = effective.lines().filter_map(key).collect();
    assert!(keys.len() > 50, "found only {keys:?}");
    for key in keys {
        assert!(shown.contains(key), "default.yaml does not show {key}");
    }
}

#[test]
fn a_fingerprint_moves_with_what_an_agent_runs_on_and_with_nothing_else() {
    let mut first = Config::embedded();
    first.models.insert("other".into(), first.models["bank"].clone());
    let first = first;
    let print = first.agent_fingerprint("bank").expect("it is declared");
    assert!(
        print.starts_with(r#"{"agent":{"fallback":null,"language":"ru","limits":{"context_ratio":0.8,"#),
        "{print}"
    );
    assert_eq!(first.agent_fingerprint("nobody"), None);
    let mut other = first.clone();
    other.server.max_sessions = 7;
    assert_eq!(other.agent_fingerprint("bank").as_ref(), Some(&print));
    for change in [
        |config: &mut Config| config.tool_retry_policy.max_attempts = 5,
        |config: &mut Config| config.agents.get_mut("bank").expect("bank").limits.max_iterations = 3,
        |config: &mut Config| config.tools.get_mut("txn_sum").expect("txn_sum").effect = Effect::Unsafe,
        |config: &mut Config| config.models.get_mut("bank").expect("bank").request_model = "x".into(),
        |config: &mut Config| config.agents.get_mut("bank").expect("bank").fallback = Some("other".into()),
    ] {
        let mut other = first.clone();
        change(&mut other);
        assert_ne!(other.agent_fingerprint("bank").as_ref(), Some(&print));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = Config::from_text("x", &bytes, Path::new(""), &BTreeMap::new());
    }

    #[test]
    fn arbitrary_yaml_like_text_never_panics(
        words in proptest::collection::vec(
            prop::sample::select(vec![
                "agents", "bank", "models", "tools", "limits", "telemetry", "otlp", "headers", "server", "listen",
                ":", ": ", "- ", "\n", "\n  ", "\n    ", "{", "}", "[", "]", ",", "&a ", "*a", "'", "\"", "|", ">",
                "#", "!!str ", "<<", "---\n", "? ", "10", "0.5", "yes", "15s", "я", "\t", "%", "\u{0}", "\u{feff}",
            ]),
            0..120,
        ),
        variable in "[A-Z_]{0,12}",
        value in "\\PC{0,20}",
    ) {
        let env = BTreeMap::from([(format!("GLASSBOX__{variable}"), value)]);
        if let Err(report) = Config::from_text("x", words.concat().as_bytes(), Path::new(""), &env) {
            prop_assert!(!report.mistakes().is_empty());
            prop_assert!(report.to_string().lines().count() <= 101);
        }
    }

    #[test]
    fn one_changed_byte_of_the_default_never_panics(at in 0usize..4000, byte in any::<u8>()) {
        let mut bytes = glassbox::config::DEFAULT_YAML.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = Config::from_text("x", &bytes, Path::new(""), &BTreeMap::new());
    }
}

#[test]
fn prices_and_counting_have_their_defaults_and_come_back_as_they_were() {
    let limit = SMALL.replace("    model: bank\n", "    model: bank\n    limits: {cost_limit_usd: 0.5}\n");
    let text = limit.replace("script: bank}", "script: bank, prices: {input: 0.075, output: 3, cache_read: 0.0075}}");
    let text = format!(
        "{text}  own: {{provider: openai, model: qwen, base_url: 'http://h'}}\n  \
         gpt: {{provider: openai, model: gpt-5, base_url: 'http://h'}}\n  \
         claude: {{provider: anthropic, base_url: 'http://h', count_tokens: provider}}\n"
    );
    let config = loaded(&text, &[]);
    assert_eq!(config.agents["bank"].limits.cost_limit, Some(Money::from_nanos(500_000_000)));
    let prices = Prices {
        input: Money::from_nanos(75_000_000),
        output: Money::from_nanos(3_000_000_000),
        cache_read: Money::from_nanos(7_500_000),
        cache_write: Money::from_nanos(75_000_000),
    };
    assert_eq!(config.models["bank"].info("bank").prices, Some(prices));
    let counted = ["bank", "own", "gpt", "claude"].map(|name| config.models[name].count_tokens.label());
    assert_eq!(counted, ["estimate", "estimate", "tokenizer", "provider"]);
    assert_eq!(loaded(&config.effective_yaml(), &[]), config);
}

#[test]
fn models_over_http_have_their_defaults_and_hide_their_keys() {
    let text = format!(
        "{SMALL}  claude: {{provider: anthropic, api_key: {{env: KEY}}, headers: {{X-Tenant: hunter2}}}}\n  \
         gpt: {{provider: openai, model: gpt-5, api_key: {{env: KEY}}}}\n  \
         own: {{provider: openai, model: qwen, base_url: 'http://127.0.0.1:8000/v1/', stream: false}}\n"
    );
    let config = loaded(&text, &[("KEY", "hunter2")]);
    let access = |base_url: &str, keyed: bool, stream| Access {
        base_url: base_url.into(),
        api_key: keyed.then(|| "hunter2".into()),
        headers: BTreeMap::new(),
        stream,
    };
    let claude = &config.models["claude"];
    let headers = BTreeMap::from([("x-tenant".to_owned(), "hunter2".into())]);
    let expected = Access { headers, ..access("https://api.anthropic.com", true, true) };
    assert_eq!(claude.provider, Provider::Anthropic(expected));
    assert_eq!(
        (claude.request_model.as_str(), claude.info("claude").provider.as_str()),
        ("claude-sonnet-5-5", "anthropic")
    );
    let gpt = access("https://api.openai.com/v1", true, true);
    assert_eq!(config.models["gpt"].provider, Provider::OpenAi(gpt, MaxTokensKey::MaxCompletionTokens));
    let own = access("http://127.0.0.1:8000/v1", false, false);
    assert_eq!(config.models["own"].provider, Provider::OpenAi(own, MaxTokensKey::MaxTokens));
    assert_eq!(config.models["own"].info("own").provider, "openai");

    let shown = config.effective_yaml();
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("api_key: \"[secret]\"") && shown.contains("x-tenant: \"[secret]\""), "{shown}");

    let text =
        text.replace("{provider: openai, model: gpt-5,", "{provider: openai, model: gpt-5, base_url: 'http://gpt/v1',");
    let clear = "models.gpt.base_url: http://gpt/v1 sends the key in the clear; use https".to_owned();
    assert!(!config.hints().contains(&clear) && loaded(&text, &[("KEY", "k")]).hints().contains(&clear));
}

#[test]
fn an_answers_schema_and_a_models_ways_are_read_and_written_back() {
    let schema =
        "type: object\n      properties: {n: {enum: [1, null, 'yes', \"2\"]}}\n      additionalProperties: false";
    let text = SMALL.replace("    model: bank\n", &format!("    model: bank\n    output_schema:\n      {schema}\n"));
    let text = format!(
        "{text}  own: {{provider: openai, model: qwen, base_url: 'http://127.0.0.1:8000/v1', tool_calling: react}}\n  \
         claude: {{provider: anthropic, api_key: {{env: KEY}}}}\n"
    );
    let config = loaded(&text, &[("KEY", "k")]);
    let expected = serde_json::json!({"type": "object", "properties": {"n": {"enum": [1, null, "yes", "2"]}},
        "additionalProperties": false});
    assert_eq!(config.agents["bank"].output_schema, Some(expected));
    let ways = |name: &str| (config.models[name].tool_calling, config.models[name].structured_output);
    assert_eq!(ways("own"), (ToolCalling::React, StructuredOutput::Prompt));
    assert_eq!(ways("claude"), (ToolCalling::Native, StructuredOutput::Native));
    let mut written = loaded(&config.effective_yaml().replace("\"[secret]\"", "{env: KEY}"), &[("KEY", "k")]);
    assert_eq!(written, config);
    written.agents.get_mut("bank").expect("bank").output_schema = None;
    assert_ne!(written.agent_fingerprint("bank"), config.agent_fingerprint("bank"));

    let wrong = SMALL.replace("    model: bank\n", "    model: bank\n    output_schema: {type: objekt}\n");
    let [mistake] = &mistakes(&wrong, &[])[..] else { panic!("one mistake") };
    assert!(mistake.starts_with("glassbox.yaml:5:20: agents.bank.output_schema: schema at /type: "), "{mistake}");
    let wrong = SMALL.replace("script: bank}", "script: bank, tool_calling: react}");
    let expected = "glassbox.yaml:6:58: models.bank.tool_calling: is for provider anthropic or openai only";
    assert_eq!(mistakes(&wrong, &[]), [expected]);
}
