//! Families and series as the catalogue has them.

use std::collections::BTreeSet;

use super::metrics;
use crate::signal::metrics::catalogue::{self, FAMILIES};

#[test]
fn every_declared_series_is_born_at_zero() {
    let text = metrics().render();
    let born = [
        r#"glassbox_sessions_total{agent="bank",status="max_iterations",task_type="cards"} 0"#,
        r#"glassbox_sessions_degraded_total{agent="bank",task_type="spending"} 0"#,
        r#"glassbox_session_steps_bucket{agent="bank",task_type="cards",le="25.0"} 0"#,
        r#"glassbox_tool_calls_total{outcome="circuit_open",tool="pay"} 0"#,
        r#"glassbox_tool_calls_total{outcome="unknown_tool",tool="unknown"} 0"#,
        r#"glassbox_tool_attempts_total{outcome="timeout",tool="search"} 0"#,
        r#"glassbox_tool_definition_changes_total{server="files",verdict="blocked"} 0"#,
        r#"glassbox_model_calls_total{model="main",outcome="rate_limited"} 0"#,
        r#"glassbox_model_fallbacks_total{cause="primary_down",model="main"} 0"#,
        r#"glassbox_model_fallbacks_total{cause="circuit_open",model="main"} 0"#,
        r#"glassbox_model_fallback_active{model="main"} 0"#,
        r#"glassbox_model_fallback_untested{model="backup"} 0"#,
        r#"glassbox_model_tool_requests_total{model="main",verdict="invalid_arguments"} 0"#,
        r#"glassbox_telemetry_dropped_total{sink="lines"} 0"#,
        r#"glassbox_journal_errors_total{kind="full"} 0"#,
        r#"glassbox_limits_reached_total{limit="deadline"} 0"#,
        r#"glassbox_rate_limited_total{limit="tool_principal"} 0"#,
        r#"glassbox_circuit_state{kind="tool",name="search",state="closed"} 1"#,
        r#"glassbox_circuit_state{kind="model",name="main",state="open"} 0"#,
        r#"glassbox_circuit_transitions_total{kind="model",name="main",to="half_open"} 0"#,
        r#"glassbox_build_info{version="1.2.3"} 1"#,
        "glassbox_sessions_active 0",
        r#"glassbox_sessions_erased_total{cause="retention"} 0"#,
        r#"glassbox_sessions_erased_total{cause="request"} 0"#,
        "glassbox_journal_commits_total 0",
    ];
    for series in born {
        assert!(text.lines().any(|line| line == series), "{series}");
    }
    // Two task types of five statuses, three tools of fifteen outcomes, eighteen outcomes of a model.
    let count = |family: &str| text.lines().filter(|line| line.starts_with(&format!("{family}{{"))).count();
    assert_eq!(count("glassbox_sessions_total"), 10);
    assert_eq!(count("glassbox_tool_calls_total"), 45);
    assert_eq!(count("glassbox_model_calls_total"), 18);
    assert_eq!(count("gen_ai_client_operation_duration_seconds_count"), 17);
    assert_eq!(count("gen_ai_client_token_usage_count"), 2);
}

#[test]
fn the_render_and_the_catalogue_name_the_same_families() {
    let text = metrics().render();
    let described = |word: &str| -> BTreeSet<(String, String)> {
        text.lines()
            .filter_map(|line| line.strip_prefix(word)?.split_once(' '))
            .map(|(name, rest)| (name.to_owned(), rest.to_owned()))
            .collect()
    };
    let of_catalogue = |field: fn(&catalogue::Family) -> &'static str| -> BTreeSet<(String, String)> {
        FAMILIES.iter().map(|family| (family.name.to_owned(), field(family).to_owned())).collect()
    };
    assert_eq!(described("# TYPE "), of_catalogue(|family| family.kind.label()));
    assert_eq!(described("# HELP "), of_catalogue(|family| family.meaning));
}

#[test]
fn names_follow_the_rules_of_promtool() {
    for family in FAMILIES {
        let counter = family.kind == catalogue::Kind::Counter;
        assert_eq!(counter, family.name.ends_with("_total"), "{}", family.name);
        assert_eq!(family.unit == "seconds" && !counter, family.name.ends_with("_seconds"), "{}", family.name);
        assert!(family.meaning.ends_with('.'), "{}", family.name);
    }
}

#[test]
fn the_page_of_metrics_is_printed_from_the_catalogue() {
    crate::signal::samples::check_document("docs/metrics.md", &catalogue::render_document());
}
