//! What the environment changes, and what wins.

use std::time::Duration;

use glassbox::{config::Protocol, core::fact::SpanContent};

use super::{SMALL, loaded, mistakes};

#[test]
fn a_variable_wins_over_the_file_and_adds_to_it() {
    let text = format!("{SMALL}server: {{listen: '127.0.0.1:1'}}\n");
    let config = loaded(
        &text,
        &[
            ("GLASSBOX__SERVER__LISTEN", "[::1]:9000"),
            ("GLASSBOX__AGENTS__BANK__LIMITS__MAX_ITERATIONS", "7"),
            ("GLASSBOX__AGENTS__BANK__PROMPT_VERSION", "2"),
            ("GLASSBOX__AGENTS__BANK__TASK_TYPES", "[card, other]"),
            ("GLASSBOX__PRIVACY__HASH_KEY", "0123456789abcdef"),
            ("GLASSBOX__STORE__KIND", ""),
            ("GLASSBOX_CONFIG", "elsewhere"),
        ],
    );
    let bank = &config.agents["bank"];
    assert_eq!(config.server.listen.to_string(), "[::1]:9000");
    assert_eq!(bank.limits.max_iterations, 7);
    assert_eq!(bank.prompt_version.as_deref(), Some("2"));
    assert_eq!(bank.task_types, ["card", "other"]);
    assert!(config.privacy.hash_key.is_some());
}

#[test]
fn mistakes_of_variables_name_the_variable() {
    let found = mistakes(
        SMALL,
        &[
            ("GLASSBOX__SERVER__LISTEN", "everywhere"),
            ("GLASSBOX__SERVER__LISTN", "127.0.0.1:80"),
            ("GLASSBOX__AGENTS__BANK__MODEL", "bnk"),
            ("GLASSBOX__PRIVACY__HASH_KEY", "hunter2"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2"),
        ],
    );
    assert_eq!(
        found,
        [
            "GLASSBOX__AGENTS__BANK__MODEL: agents.bank.model: must be the name of a model under models, not \"bnk\"; \
             did you mean bank?",
            "GLASSBOX__PRIVACY__HASH_KEY: privacy.hash_key: must have at least 16 bytes, such as the output of \
             `openssl rand -hex 32`",
            "GLASSBOX__SERVER__LISTEN: server.listen: must be an address and a port such as 127.0.0.1:8080, not \
             \"everywhere\"",
            "GLASSBOX__SERVER__LISTN: server.listn: is not a known key; did you mean listen?",
            "OTEL_EXPORTER_OTLP_HEADERS: telemetry.otlp.headers: must be name=value pairs between commas, values \
             percent-encoded",
            "OTEL_EXPORTER_OTLP_PROTOCOL: telemetry.otlp.protocol: must be grpc or http/protobuf, not \"http/json\"",
        ]
    );
}

#[test]
fn the_standard_variables_fill_what_the_file_leaves_out() {
    let env = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/base"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=a%20b"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=lost,team=cards,zone=a"),
        ("OTEL_SERVICE_NAME", "bank"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
    ];
    let telemetry = loaded(SMALL, &env).telemetry;
    let otlp = telemetry.otlp.expect("an endpoint is set");
    assert_eq!(otlp.endpoint, "http://collector:4318/base/v1/traces");
    assert_eq!(otlp.protocol, Protocol::HttpProtobuf);
    assert_eq!(otlp.headers["api-key"].expose(), "a b");
    assert_eq!((otlp.timeout, otlp.gzip), (Duration::from_millis(1500), true));
    assert_eq!((telemetry.service_name.as_str(), telemetry.sample_ratio), ("bank", 0.25));
    assert_eq!(telemetry.resource_attributes.keys().collect::<Vec<_>>(), ["team", "zone"]);

    let file = "telemetry: {otlp: {endpoint: 'http://file:4317', timeout: 3s, headers: {}}, service_name: own, \
                resource_attributes: {team: loans}, sample_ratio: 1}\n";
    let telemetry = loaded(&format!("{SMALL}{file}"), &env).telemetry;
    let otlp = telemetry.otlp.expect("an endpoint is set");
    assert_eq!((otlp.endpoint.as_str(), otlp.protocol), ("http://file:4317", Protocol::Grpc));
    assert_eq!((otlp.timeout, otlp.headers.len()), (Duration::from_secs(3), 0));
    assert_eq!((telemetry.service_name.as_str(), telemetry.sample_ratio), ("own", 1.0));
    assert_eq!(telemetry.resource_attributes["team"], "loans");
    assert_eq!(telemetry.resource_attributes["zone"], "a");
}

#[test]
fn content_of_spans_is_off_unless_the_file_or_else_the_standard_variable_asks_for_it() {
    let variable = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
    let content = |text: &str, env: &[(&str, &str)]| loaded(text, env).privacy.span_content;
    assert_eq!(content(SMALL, &[]), SpanContent::Off);
    for (word, mode) in [
        ("true", SpanContent::Full),
        ("SPAN_ONLY", SpanContent::Full),
        ("span_and_event", SpanContent::Full),
        ("EVENT_ONLY", SpanContent::Off),
        ("NO_CONTENT", SpanContent::Off),
        ("False", SpanContent::Off),
        ("", SpanContent::Off),
    ] {
        assert_eq!(content(SMALL, &[(variable, word)]), mode, "{word}");
    }
    for mode in SpanContent::ALL {
        let text = format!("{SMALL}privacy: {{span_content: {}}}\n", mode.label());
        assert_eq!(content(&text, &[(variable, "true")]), mode, "the file wins");
        assert_eq!(content(&loaded(&text, &[]).effective_yaml(), &[]), mode, "it is shown as it took effect");
    }
    assert_eq!(content(SMALL, &[("GLASSBOX__PRIVACY__SPAN_CONTENT", "masked")]), SpanContent::Masked);
    let wrong = format!("{SMALL}privacy: {{span_content: mask}}\n");
    assert_eq!(
        mistakes(&wrong, &[(variable, "true")]),
        ["glassbox.yaml:7:25: privacy.span_content: must be off, masked or full, not \"mask\"; did you mean \
             masked?"]
    );
    assert_eq!(
        mistakes(SMALL, &[(variable, "yes")]),
        ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: privacy.span_content: must be span_only, \
             span_and_event, true, event_only, no_content or false, not \"yes\""]
    );
}

#[test]
fn content_that_is_shown_is_told_as_a_hint() {
    let endpoint = "telemetry: {otlp: {endpoint: 'http://127.0.0.1:4318'}}\n";
    let told = |mode: &str, more: &str| {
        let config = loaded(&format!("{SMALL}privacy: {{span_content: {mode}}}\n{more}"), &[]);
        let hints = config.hints();
        assert_eq!(hints.iter().find(|hint| hint.starts_with("privacy.")), config.shown_content().as_ref());
        config.shown_content()
    };
    assert_eq!(told("off", endpoint), None);
    assert!(told("masked", endpoint).is_some_and(|hint| hint.contains("masked, by its shape alone")));
    assert!(told("full", endpoint).is_some_and(|hint| hint.contains("what people say, as it is")));
    assert!(told("full", "").is_some_and(|hint| hint.contains("shows nothing while no trace is exported")));
}

#[test]
fn the_traces_endpoint_is_used_as_it_stands() {
    let endpoint = |env: &[(&str, &str)]| loaded(SMALL, env).telemetry.otlp.map(|otlp| otlp.endpoint);
    let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:4318/");
    assert_eq!(endpoint(&[general]).as_deref(), Some("http://general:4318/v1/traces"));
    let traces = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4318/own");
    assert_eq!(endpoint(&[general, traces]).as_deref(), Some("http://traces:4318/own"));
    assert_eq!(endpoint(&[general, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).as_deref(), Some("http://general:4318/"));
    assert_eq!(endpoint(&[]), None);
}

#[test]
fn the_export_can_be_switched_off() {
    let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:4318");
    for off in [
        ("OTEL_SDK_DISABLED", "TRUE"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("GLASSBOX__TELEMETRY__OTLP__ENABLED", "false"),
    ] {
        assert_eq!(loaded(SMALL, &[general, off]).telemetry.otlp, None, "{off:?}");
    }
    let file = format!("{SMALL}telemetry: {{otlp: {{enabled: true}}}}\n");
    assert!(loaded(&file, &[general, ("OTEL_SDK_DISABLED", "true")]).telemetry.otlp.is_some());
}
