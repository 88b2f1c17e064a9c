//! The configurations of `examples/tools` and `examples/bank`, and the demo's tools.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use glassbox::{Config, Principal, Runtime, Setup, Task, core::SessionStatus, session::Ended};
use serde_json::{Value, json};

use super::service::Service;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/tools")
}

fn text(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).expect("a file of the repository")
}

/// What an example answers its principal.
async fn answer(config: &str, principal: Principal) -> String {
    let config = Config::from_text("example", config.as_bytes(), &folder(), &BTreeMap::new()).expect("a good example");
    assert_eq!(config.hints(), Vec::<String>::new());
    let data = tempfile::tempdir().expect("a folder");
    let runtime = Runtime::start(&config, Setup::run(data.path())).expect("a runtime");
    let mut handle = runtime.open(Task::new("go", principal)).await.expect("begun");
    let end = match handle.ended().await.expect("durable") {
        Ended::Finished(end) => end,
        other => panic!("{other:?}"),
    };
    runtime.stop(std::time::Duration::from_secs(5)).await.expect("closed");
    assert_eq!(end.status, SessionStatus::Done);
    end.answer.expect("an answer").into_inner()
}

fn customer(id: &str) -> Principal {
    Principal { id: id.into(), scopes: Vec::new(), roles: Vec::new(), attributes: BTreeMap::new() }
}

#[tokio::test]
async fn the_statement_answers_each_customer_with_their_own() {
    let own =
        async |id: &str| serde_json::from_str::<Value>(&answer(&text("sql.yaml"), customer(id)).await).expect("rows");
    let row = |category: &str, total: u32| json!({"category": category, "total_kzt": total});
    assert_eq!(own("C-001").await, json!([row("food", 5400), row("taxi", 5000)]));
    assert_eq!(own("C-002").await, json!([row("food", 12650), row("taxi", 990)]));
    assert_eq!(own("nobody").await, json!([]));
}

#[tokio::test]
async fn the_program_knows_the_day() {
    assert_eq!(answer(&text("command.yaml"), customer("C-001")).await, "It was a Wednesday.");
}

#[tokio::test]
async fn the_request_asks_the_service() {
    let service = Service::answering(|asked| {
        let path = folder().join("site").join(asked.uri.trim_start_matches('/'));
        std::fs::read_to_string(path).map_or((404, Vec::new(), String::new()), |text| (200, Vec::new(), text))
    })
    .await;
    let config = text("http.yaml").replace("127.0.0.1:8099", &service.address.to_string());
    assert_eq!(answer(&config, customer("C-001")).await, "A dollar is 521.5 tenge.");
    let paths: Vec<_> = service.asked().into_iter().map(|asked| asked.uri).collect();
    assert_eq!(paths, ["/rates/USD.json"]);
}

#[tokio::test]
async fn the_bank_has_a_tool_of_each_kind_and_each_answers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/bank");
    let text = std::fs::read(folder.join("glassbox.yaml")).expect("a file of the repository");
    let config = Config::from_text("bank", &text, &folder, &BTreeMap::new()).expect("a good example");
    let data = tempfile::tempdir().expect("a folder");
    let runtime = Runtime::start(&config, Setup::run(data.path())).expect("a runtime");
    let ask = async |question: &str| {
        let task = Task::new(question, config.auth.default_principal.clone());
        match runtime.open(task).await.expect("begun").ended().await.expect("durable") {
            Ended::Finished(end) => (end.answer.expect("an answer").into_inner(), end.tools_called.join(" ")),
            other => panic!("{other:?}"),
        }
    };
    for (question, tool, kind, answer) in [
        ("Сколько я потратил на такси?", "txn_sum", "builtin", "Такси в сентябре: 5000 ₸."),
        ("Что было в августе?", "txn_list", "sql", "Первая операция августа: taxi, 2500 ₸."),
        ("Сколько стоит доллар?", "exchange_rate", "http", "Доллар: 521.5 ₸."),
        ("Где отделение?", "branches_find", "mcp", "Отделение: проспект Абая, 10, 09:00-18:00."),
    ] {
        assert_eq!(ask(question).await, (answer.to_owned(), tool.to_owned()));
        assert_eq!(runtime.tool_kind(tool), kind);
    }
    let (today, tool) = ask("Какое сегодня число?").await;
    let day = today.strip_prefix("Сегодня ").and_then(|rest| rest.strip_suffix('.')).expect("the day");
    assert!(day.parse::<jiff::civil::Date>().is_ok() && tool == "today", "{today}");
    assert_eq!(runtime.tool_kind("today"), "command");
    let (refused, _) = ask("Сколько стоит тугрик?").await;
    assert!(refused.contains("the service answers 404: no such currency"), "{refused}");
    runtime.stop(std::time::Duration::from_secs(5)).await.expect("closed");
}

/// The bank of the built-in configuration with a script that calls one of its tools.
async fn demo(call: &str) -> String {
    let data = tempfile::tempdir().expect("a folder");
    let script = format!(
        "name: demo\nrules:\n- {{when: {{last: user}}, call: {call}}}\n- {{when: {{last: tool_result}}, text: '{{{{ result }}}}'}}\n\
         - {{text: '{{{{ error }}}}'}}\n"
    );
    std::fs::write(data.path().join("demo.yaml"), script).expect("written");
    let config = glassbox::config::DEFAULT_YAML.replace("script: bank #", "script: demo.yaml #");
    let config = Config::from_text("demo", config.as_bytes(), data.path(), &BTreeMap::new()).expect("a good demo");
    let principal = config.auth.default_principal.clone();
    let runtime = Runtime::start(&config, Setup::run(data.path().join("data"))).expect("a runtime");
    let ended = runtime.open(Task::new("go", principal)).await.expect("begun").ended().await.expect("durable");
    runtime.stop(std::time::Duration::from_secs(5)).await.expect("closed");
    match ended {
        Ended::Finished(end) => end.answer.expect("an answer").into_inner(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_demo_has_a_statement_and_a_program() {
    let list = demo("{tool: txn_list, arguments: {month: '2026-08'}}").await;
    let row = |category: &str, amount: u32| json!({"category": category, "amount_kzt": amount});
    let rows = json!({"rows": [row("taxi", 2500), row("food", 7100), row("utilities", 18300)]});
    assert_eq!(serde_json::from_str::<Value>(&list).expect("rows"), rows);
    let today = demo("{tool: today, arguments: {}}").await;
    assert!(today.parse::<jiff::civil::Date>().is_ok(), "{today:?}");
}

#[tokio::test]
async fn the_demo_keeps_its_customer_to_itself() {
    let said = demo("{tool: txn_list, arguments: {month: '2026-08', customer_id: C-002}}").await;
    assert!(said.contains("customer_id is set from the login; leave it out"), "{said}");
}
