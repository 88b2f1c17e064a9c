//! Declared tools through whole sessions: identity from the login, and a person's word where the
//! arguments ask for it.

use std::{collections::BTreeMap, path::Path, time::Duration};

use glassbox::{
    Config, Principal, Runtime, Setup, Task,
    core::{Fact, SessionId, SessionStatus, StreamId, ToolOutcome, fact::SessionEnd},
    runtime::SessionHandle,
    session::{Ended, Say},
};

const CONFIG: &str = r#"
agents:
  payer: {system_prompt: Pay., model: payer, language: en, tools: [pay]}
models:
  payer: {provider: scripted, script: payer.yaml}
tools:
  pay:
    description: Pays.
    confirm: {when: {pointer: /amount, over: 100}}
    parameters: {type: object, properties: {amount: {type: integer}}, required: [amount], additionalProperties: false}
    bind: {who: "{{ principal.account }}"}
    sql: {database: paid.sqlite, statement: "insert into paid values (:who, :amount, :idempotency_key)", write: true}
"#;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let tables = "create table paid (who text, amount integer, key text unique)";
        let file = rusqlite::Connection::open(folder.path().join("paid.sqlite")).expect("a file");
        file.execute_batch(tables).expect("a table");
        Self(folder)
    }

    fn process(&self, config: &str, arguments: &str) -> Runtime {
        let script = format!(
            "name: t\nrules:\n- {{when: {{call_count: 0}}, call: {{tool: pay, arguments: {arguments}}}}}\n- {{text: done}}\n"
        );
        std::fs::write(self.path().join("payer.yaml"), script).expect("written");
        let config = Config::from_text("t", config.as_bytes(), self.path(), &BTreeMap::new());
        Runtime::start(&config.unwrap_or_else(|wrong| panic!("{wrong}")), Setup::run(self.path())).expect("a runtime")
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Who paid how much, as the database has it.
    fn paid(&self) -> Vec<(String, i64)> {
        let file = rusqlite::Connection::open(self.path().join("paid.sqlite")).expect("the file");
        let mut statement = file.prepare("select who, amount from paid").expect("the table");
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
        rows.collect::<Result<_, _>>().expect("rows")
    }
}

fn principal(account: Option<&str>) -> Principal {
    let attributes = account.map(|account| ("account".to_owned(), account.to_owned())).into_iter().collect();
    Principal { id: "C-1".into(), scopes: Vec::new(), roles: Vec::new(), attributes }
}

async fn begin(runtime: &Runtime, account: Option<&str>) -> (SessionId, Ended) {
    let mut handle = runtime.open(Task::new("pay", principal(account))).await.expect("begun");
    (handle.id(), handle.ended().await.expect("durable"))
}

fn outcomes(runtime: &Runtime, id: SessionId) -> Vec<ToolOutcome> {
    let entries = runtime.store().load(StreamId::Session(id)).expect("a journal");
    let outcome = |fact: &Fact| match fact {
        Fact::ToolCallFinished { end, .. } => Some(end.outcome),
        _ => None,
    };
    entries.iter().filter_map(|entry| outcome(&entry.fact)).collect()
}

fn yes() -> Say {
    Say { call_id: "call_1_1".into(), approve: true, by: "C-9".into(), comment: None, arguments_hash: None }
}

async fn end(handle: Option<SessionHandle>) -> SessionEnd {
    match handle.expect("it goes on here").ended().await.expect("durable") {
        Ended::Finished(end) => *end,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_small_amount_is_paid_at_once_with_the_account_of_the_login() {
    let place = Place::new();
    let runtime = place.process(CONFIG, "{amount: 100}");
    let (id, ended) = begin(&runtime, Some("KZ-1")).await;
    assert!(matches!(&ended, Ended::Finished(end) if end.status == SessionStatus::Done), "{ended:?}");
    assert_eq!(outcomes(&runtime, id), [ToolOutcome::Ok]);
    assert_eq!(place.paid(), [("KZ-1".to_owned(), 100)]);
}

#[tokio::test]
async fn without_the_account_or_with_one_of_the_models_own_nothing_is_paid() {
    let place = Place::new();
    for (arguments, account, outcome) in [
        ("{amount: 100}", None, ToolOutcome::Denied),
        ("{amount: 100, who: KZ-2}", Some("KZ-1"), ToolOutcome::InvalidArguments),
        ("{amount: 100, customer_id: KZ-2}", Some("KZ-1"), ToolOutcome::InvalidArguments),
    ] {
        let runtime = place.process(CONFIG, arguments);
        let (id, _) = begin(&runtime, account).await;
        assert_eq!(outcomes(&runtime, id), [outcome], "{arguments}");
        runtime.stop(Duration::from_secs(5)).await.expect("closed");
    }
    assert_eq!(place.paid(), []);
}

#[tokio::test]
async fn a_large_amount_waits_for_a_person_and_is_then_paid_once() {
    let place = Place::new();
    let runtime = place.process(CONFIG, "{amount: 101}");
    let (id, ended) = begin(&runtime, Some("KZ-1")).await;
    assert!(matches!(&ended, Ended::AwaitingConfirmation(calls) if calls.len() == 1), "{ended:?}");
    assert_eq!(place.paid(), []);
    let settled = runtime.decide(id, yes()).await.expect("decided");
    assert_eq!(end(settled.handle).await.status, SessionStatus::Done);
    assert_eq!(outcomes(&runtime, id), [ToolOutcome::Ok]);
    assert_eq!(place.paid(), [("KZ-1".to_owned(), 101)]);
}

#[tokio::test]
async fn a_yes_does_not_hold_for_another_binding() {
    let place = Place::new();
    let first = place.process(CONFIG, "{amount: 101}");
    let (id, _) = begin(&first, Some("KZ-1")).await;
    first.stop(Duration::from_secs(5)).await.expect("closed");
    // The same claim under another name would move the money elsewhere.
    let second = place.process(&CONFIG.replace("principal.account", "principal.id"), "{amount: 101}");
    let settled = second.decide(id, yes()).await.expect("decided");
    end(settled.handle).await;
    assert_eq!(outcomes(&second, id), [ToolOutcome::Denied]);
    assert_eq!(place.paid(), []);
}
