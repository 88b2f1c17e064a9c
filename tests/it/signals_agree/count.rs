//! The same counts three times: from the lines, from the journal, and as they were scraped.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::evidence::{Counts, Evidence, Row, add, number, scraped, text};

/// The name that the provider of a configured model knows it by.
pub type RequestModels = HashMap<&'static str, &'static str>;

/// Families that the lines can be counted into as well.
const TOLD_BY_LINES: &[&str] = &[
    "glassbox_sessions_total",
    "glassbox_sessions_degraded_total",
    "glassbox_session_steps_sum",
    "glassbox_session_steps_count",
    "glassbox_tool_calls_total",
    "glassbox_tool_duration_seconds_count",
    "glassbox_model_calls_total",
    "glassbox_model_tool_requests_total",
    "glassbox_model_retries_total",
    "glassbox_model_fallbacks_total",
    "glassbox_limits_reached_total",
    "glassbox_rate_limited_total",
    "glassbox_circuit_transitions_total",
    "gen_ai_client_operation_duration_seconds_count",
    "gen_ai_client_token_usage_sum",
];
/// Families that only the journal knows.
const TOLD_BY_JOURNAL: &[&str] = &["glassbox_tool_attempts_total", "glassbox_model_auth_failures_total"];

/// What a scrape says of all families that the journal tells of.
pub fn of_scrape(metrics: &str) -> Counts {
    let families: Vec<_> = TOLD_BY_LINES.iter().chain(TOLD_BY_JOURNAL).copied().collect();
    scraped(metrics, &families)
}

/// Lines, journal and metrics give the same numbers.
pub fn agree(evidence: &Evidence, models: &RequestModels) {
    let metrics = scraped(&evidence.metrics, TOLD_BY_LINES);
    same(&of_lines(&evidence.lines, models), &metrics, "lines");
    let metrics = of_scrape(&evidence.metrics);
    let (journal, all_ended) = of_journal(&evidence.journal, models);
    assert!(all_ended, "what was begun has its end");
    same(&journal, &metrics, "journal");
    costs_agree(evidence);
    let facts = format!("glassbox_journal_facts_total {}", evidence.journal.len());
    assert!(evidence.metrics.lines().any(|line| line == facts), "{facts} is not what the metrics say");
}

/// A token of the main model costs a millionth of a dollar as input and two as output.
fn costs_agree(evidence: &Evidence) {
    let of_main = |line: &&Value| line["event"] == "model_called" && line["model"] == "main";
    let calls: Vec<_> = evidence.lines.iter().filter(of_main).collect();
    let tokens = |line: &&Value| number(line, "input_tokens") + 2 * number(line, "output_tokens");
    let micros: u64 = calls.iter().map(tokens).sum();
    let told: f64 = calls.iter().map(|line| line["cost_usd"].as_f64().unwrap()).sum();
    let scraped =
        evidence.metrics.lines().find_map(|line| line.strip_prefix("glassbox_cost_usd_total{model=\"main\"} "));
    // The demonstration has no such model.
    let Some(scraped) = scraped else { return assert!(calls.is_empty()) };
    let scraped: f64 = scraped.parse().unwrap();
    assert!(micros > 0, "nothing was paid for");
    for cost in [told, scraped] {
        assert_eq!(format!("{:.3}", cost * 1e6), format!("{micros}.000"));
    }
}

fn same(counted: &Counts, metrics: &Counts, source: &str) {
    let series: BTreeSet<_> = counted.keys().chain(metrics.keys()).collect();
    let differ: Vec<_> = series
        .into_iter()
        .map(|key| (key, counted.get(key).unwrap_or(&0), metrics.get(key).unwrap_or(&0)))
        .filter(|(_, counted, scraped)| counted != scraped)
        .collect();
    assert!(differ.is_empty(), "series, its count in the {source}, and in the metrics: {differ:#?}");
}

fn of_lines(lines: &[Value], models: &RequestModels) -> Counts {
    let mut counts = Counts::new();
    // Who was asked last in a session: whose calls the tools then answer.
    let mut asked: HashMap<&str, &str> = HashMap::new();
    for line in lines {
        match text(line, "event") {
            "model_called" => {
                asked.insert(text(line, "session_id"), text(line, "model"));
                let tokens = (number(line, "input_tokens"), number(line, "output_tokens"));
                let call = Call {
                    model: text(line, "model"),
                    outcome: text(line, "outcome"),
                    attempts: number(line, "attempts"),
                };
                count_model_call(&mut counts, models, &call, tokens);
            }
            "model_retry" => {
                let labels = [("model", text(line, "model")), ("reason", text(line, "reason"))];
                add(&mut counts, "glassbox_model_retries_total", &labels, 1);
            }
            "model_fallback" => {
                let labels = ["model", "cause"].map(|key| (key, text(line, key)));
                add(&mut counts, "glassbox_model_fallbacks_total", &labels, 1);
            }
            "tool_called" => {
                let model = asked.get(text(line, "session_id")).copied().unwrap_or("unknown");
                let valid = line["arguments_schema_valid"].as_bool();
                let call = Call { model, outcome: text(line, "outcome"), attempts: number(line, "attempts") };
                count_tool_call(&mut counts, text(line, "tool_name"), &call, valid);
            }
            "limit_reached" => add(&mut counts, "glassbox_limits_reached_total", &[("limit", text(line, "limit"))], 1),
            "rate_limited" => add(&mut counts, "glassbox_rate_limited_total", &[("limit", text(line, "limit"))], 1),
            "circuit_changed" => count_circuit(&mut counts, line),
            "agent_session_finished" => {
                let who = (text(line, "agent"), text(line, "task_type"));
                count_session(
                    &mut counts,
                    who,
                    text(line, "status"),
                    line["degraded"] == true,
                    number(line, "total_steps"),
                );
            }
            _ => {}
        }
    }
    counts
}

struct Call<'a> {
    model: &'a str,
    outcome: &'a str,
    attempts: u64,
}

fn count_model_call(counts: &mut Counts, models: &RequestModels, call: &Call<'_>, (input, output): (u64, u64)) {
    add(counts, "glassbox_model_calls_total", &[("model", call.model), ("outcome", call.outcome)], 1);
    let chat = [
        ("gen_ai_operation_name", "chat"),
        ("gen_ai_provider_name", "scripted"),
        ("gen_ai_request_model", models[call.model]),
    ];
    let with = |key, value| [chat.as_slice(), &[(key, value)]].concat();
    if call.attempts > 0 && call.outcome != "lost" {
        let error = if call.outcome == "ok" { "" } else { call.outcome };
        add(counts, "gen_ai_client_operation_duration_seconds_count", &with("error_type", error), 1);
    }
    add(counts, "gen_ai_client_token_usage_sum", &with("gen_ai_token_type", "input"), input);
    add(counts, "gen_ai_client_token_usage_sum", &with("gen_ai_token_type", "output"), output);
}

fn count_tool_call(counts: &mut Counts, tool: &str, call: &Call<'_>, valid: Option<bool>) {
    add(counts, "glassbox_tool_calls_total", &[("tool", tool), ("outcome", call.outcome)], 1);
    if call.attempts > 0 && call.outcome != "lost" {
        add(counts, "glassbox_tool_duration_seconds_count", &[("tool", tool)], 1);
    }
    let verdict = match (call.outcome, valid) {
        ("unknown_tool", _) => "unknown_tool",
        (_, Some(true)) => "valid",
        (_, Some(false)) => "invalid_arguments",
        (_, None) => return,
    };
    add(counts, "glassbox_model_tool_requests_total", &[("model", call.model), ("verdict", verdict)], 1);
}

fn count_session(counts: &mut Counts, (agent, task_type): (&str, &str), status: &str, degraded: bool, steps: u64) {
    let who = [("agent", agent), ("task_type", task_type)];
    add(counts, "glassbox_sessions_total", &[who[0], who[1], ("status", status)], 1);
    add(counts, "glassbox_sessions_degraded_total", &who, u64::from(degraded));
    add(counts, "glassbox_session_steps_sum", &who, steps);
    add(counts, "glassbox_session_steps_count", &who, 1);
}

fn count_circuit(counts: &mut Counts, change: &Value) {
    let labels = ["kind", "name", "to"].map(|key| (key, text(change, key)));
    add(counts, "glassbox_circuit_transitions_total", &labels, 1);
}

/// What the journal says of an operation that is open.
struct Open<'a> {
    name: &'a str,
    attempts: u64,
    last: Option<&'a str>,
}

/// The series that the journal tells of, and whether each call in it has its end.
pub fn of_journal<'a>(journal: impl IntoIterator<Item = &'a Row>, models: &RequestModels) -> (Counts, bool) {
    let mut counts = Counts::new();
    let mut who: HashMap<&str, (&str, &str)> = HashMap::new();
    let mut asked: HashMap<&str, &str> = HashMap::new();
    let mut open: HashMap<(&str, &str), Open<'_>> = HashMap::new();
    for Row { stream, name, body, .. } in journal {
        let stream = stream.as_str();
        match name.as_str() {
            "session_started" => {
                who.insert(stream, (text(body, "agent"), text(body, "task_type")));
            }
            "session_finished" => {
                let steps = number(body, "steps");
                count_session(&mut counts, who[stream], text(body, "status"), body["degraded"] == true, steps);
            }
            "limit_reached" => add(&mut counts, "glassbox_limits_reached_total", &[("limit", text(body, "limit"))], 1),
            "rate_limited" => add(&mut counts, "glassbox_rate_limited_total", &[("limit", text(body, "limit"))], 1),
            "model_fallback" => {
                let labels = [("model", text(body, "from")), ("cause", text(body, "cause"))];
                add(&mut counts, "glassbox_model_fallbacks_total", &labels, 1);
            }
            "circuit_changed" => count_circuit(&mut counts, body),
            "model_call_started" => {
                let model = text(&body["call"]["model"], "name");
                open.insert((stream, text(body, "op")), Open { name: model, attempts: 0, last: None });
            }
            "tool_call_started" => {
                let tool = if body["call"]["known"] == true { text(&body["call"], "tool") } else { "unknown" };
                open.insert((stream, text(body, "op")), Open { name: tool, attempts: 0, last: None });
            }
            "model_attempt_started" => {
                let call = open.get_mut(&(stream, text(body, "call"))).expect("a call that is open");
                call.attempts += 1;
                if let Some(reason) = call.last.filter(|_| call.name == text(body, "model")) {
                    let labels = [("model", call.name), ("reason", reason)];
                    add(&mut counts, "glassbox_model_retries_total", &labels, 1);
                }
                call.name = text(body, "model");
            }
            "tool_attempt_started" => {
                open.get_mut(&(stream, text(body, "call"))).expect("a call that is open").attempts += 1;
            }
            "model_attempt_finished" => {
                let call = open.get_mut(&(stream, text(body, "call"))).expect("a call that is open");
                let outcome = text(&body["end"], "outcome");
                call.last = Some(outcome);
                let auth = u64::from(outcome == "auth");
                add(&mut counts, "glassbox_model_auth_failures_total", &[("model", call.name)], auth);
            }
            "tool_attempt_finished" => {
                let call = &open[&(stream, text(body, "call"))];
                let labels = [("tool", call.name), ("outcome", text(&body["end"], "outcome"))];
                add(&mut counts, "glassbox_tool_attempts_total", &labels, 1);
            }
            "model_call_finished" => {
                let (op, end) = (open.remove(&(stream, text(body, "op"))).expect("a call that is open"), &body["end"]);
                asked.insert(stream, op.name);
                let call = Call { model: op.name, outcome: text(end, "outcome"), attempts: op.attempts };
                let tokens = (number(&end["usage"], "input"), number(&end["usage"], "output"));
                count_model_call(&mut counts, models, &call, tokens);
            }
            "tool_call_finished" => {
                let (op, end) = (open.remove(&(stream, text(body, "op"))).expect("a call that is open"), &body["end"]);
                let call = Call { model: asked[stream], outcome: text(end, "outcome"), attempts: op.attempts };
                count_tool_call(&mut counts, op.name, &call, end["arguments_valid"].as_bool());
            }
            _ => {}
        }
    }
    (counts, open.is_empty())
}
