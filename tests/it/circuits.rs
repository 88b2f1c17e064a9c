//! Circuits and limits over a real socket: an operator switches, a session feels it, a restart
//! keeps it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use serde_json::{Value, json};

use crate::process::{Home, Server};

const CONFIG: &str = "
agents:
  bank: {system_prompt: Hello., model: main, language: ru, tools: [txn_sum], task_types: [other], limits: {token_budget: 50000}}
models:
  main: {provider: scripted, script: main.yaml}
tools:
  txn_sum: {builtin: txn_sum}
rate_limits:
  tools: {txn_sum: {per_principal_per_minute: 1}}
auth:
  default_principal: {id: C-001, roles: [operator]}
";
const SCRIPT: &str = "
name: main
rules:
  - when: {tools_offered: false}
    text: Точной суммы я не знаю.
  - when: {last: user}
    call: {tool: txn_sum, arguments: {category: taxi, month: '2026-09'}}
  - when: {last: tool_error}
    text: 'Не получилось: {{ error }}'
  - text: '{{ result.total_kzt }}'
";
const SWITCH: &str = "/v1/circuits/tool/txn_sum";

fn home(config: &str) -> Home {
    let home = Home::configured(config);
    home.write("main.yaml", SCRIPT);
    home
}

/// The circuit of the tool, as the list shows it.
fn circuit(server: &Server<'_>) -> Value {
    let list = server.get("/v1/circuits").json();
    let list = list["circuits"].as_array().unwrap();
    assert_eq!(list.len(), 2, "one a tool, one a model");
    list.iter().find(|circuit| circuit["kind"] == "tool").unwrap().clone()
}

fn ask(server: &Server<'_>) -> Value {
    let body = json!({"task": "Сколько?"}).to_string();
    server.post("/v1/sessions?wait=10s", &body).json()
}

fn metric(server: &Server<'_>, series: &str) -> String {
    let text = server.get("/metrics").body;
    text.lines().find_map(|line| line.strip_prefix(series)).unwrap_or("none").trim().to_owned()
}

#[test]
fn an_operator_opens_a_circuit_and_a_restart_keeps_it() {
    let home = home(CONFIG);
    let server = home.serve();
    let closed = json!({
        "kind": "tool", "name": "txn_sum", "state": "closed", "forced": false, "by": null, "until": null,
        "failures": 0, "counted": 0,
    });
    assert_eq!(circuit(&server), closed);

    let switched = server.post(SWITCH, r#"{"action": "force_open", "for": "10m"}"#);
    assert_eq!(switched.status, 200, "{switched:?}");
    let open = switched.json();
    assert_eq!((&open["state"], &open["forced"], &open["by"]), (&"open".into(), &true.into(), &"C-001".into()));
    assert!(open["until"].as_str().unwrap().ends_with('Z'));
    let series = r#"glassbox_circuit_state{kind="tool",name="txn_sum",state="open"}"#;
    assert_eq!(metric(&server, series), "1");

    let told = ask(&server);
    assert_eq!((&told["status"], &told["degraded"]), (&"done".into(), &true.into()), "{told}");
    let answer = told["answer"].as_str().unwrap();
    assert!(answer.starts_with("Ответ дан без инструментов") && answer.ends_with("Точной суммы я не знаю."));
    drop(server);

    let server = home.serve();
    assert_eq!(circuit(&server), open);
    // What a restart takes over is shown as soon as the journal has it.
    server.get_until("/metrics", |answer| answer.body.lines().any(|line| line == format!("{series} 1")));
    assert_eq!(server.post(SWITCH, r#"{"action": "reset"}"#).json(), closed);
    let answered = ask(&server);
    assert_eq!((&answered["answer"], &answered["degraded"]), (&"5000".into(), &false.into()), "{answered}");
    let counted = circuit(&server);
    assert_eq!((&counted["failures"], &counted["counted"]), (&0.into(), &1.into()));
}

#[test]
fn who_calls_too_often_is_told_when_to_come_back() {
    let home = home(CONFIG);
    let server = home.serve();
    assert_eq!(ask(&server)["answer"], "5000");
    let told = ask(&server);
    let answer = told["answer"].as_str().unwrap();
    assert!(answer.contains("txn_sum is called too often. Retry after "), "{answer}");
    assert_eq!(metric(&server, r#"glassbox_rate_limited_total{limit="tool_principal"}"#), "1");
    assert_eq!(metric(&server, r#"glassbox_tool_calls_total{outcome="rate_limited",tool="txn_sum"}"#), "1");
}

#[test]
fn a_switch_that_makes_no_sense_or_is_not_allowed_is_a_problem() {
    let operators = home(CONFIG);
    let server = operators.serve();
    for (path, body, status) in [
        ("/v1/circuits/tool/nobody", r#"{"action": "reset"}"#, 404),
        ("/v1/circuits/door/txn_sum", r#"{"action": "reset"}"#, 404),
        (SWITCH, r#"{"action": "explode"}"#, 422),
        (SWITCH, r#"{"action": "force_open", "for": "soon"}"#, 422),
        (SWITCH, "{", 400),
    ] {
        let answer = server.post(path, body);
        assert_eq!((answer.status, &answer.json()["status"]), (status, &status.into()), "{path} {body}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    }
    let users = home(&CONFIG.replace("operator", "user"));
    let server = users.serve();
    assert_eq!(server.post(SWITCH, r#"{"action": "reset"}"#).status, 403);
    assert_eq!(server.get("/v1/circuits").status, 200);
}
