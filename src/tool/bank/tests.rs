//! Tests of `tool::bank`: hand-made cases, each with its right value.

use std::{collections::BTreeMap, time::Duration};

use super::*;
use crate::core::{Arguments, Principal, SessionId, SpanId, ToolCall, ToolOutcome, port::TraceContext};
use crate::tool::{Registration, Registry};

fn cx(customer: &str) -> ToolContext {
    let session = SessionId::from_bytes([7; 16]);
    ToolContext {
        principal: Arc::new(Principal {
            id: "login-1".into(),
            scopes: Vec::new(),
            roles: Vec::new(),
            attributes: BTreeMap::from([("customer_id".to_owned(), customer.to_owned())]),
        }),
        session,
        call_id: "call_1".into(),
        idempotency_key: "key-1".into(),
        attempt: 1,
        trace: TraceContext { trace_id: session.trace_id(), span_id: SpanId::of_fact(session, 1), sampled: true },
    }
}

async fn sum(bank: &Bank, customer: &str, category: &str, month: &str) -> Result<String, Fault> {
    let arguments = json!({"category": category, "month": month});
    bank.txn_sum(Overrides::default()).call(&cx(customer), arguments).await.map(ToolReply::into_text)
}

#[tokio::test]
async fn sums_are_those_of_the_customer_of_the_login() {
    let dir = tempfile::tempdir().expect("a folder");
    let bank = Bank::at(dir.path().join("bank.sqlite"));
    let expected = r#"{"category":"taxi","month":"2026-09","count":2,"total_kzt":5000}"#;
    assert_eq!(sum(&bank, "C-001", "taxi", "2026-09").await.as_deref(), Ok(expected));
    let expected = r#"{"category":"taxi","month":"2026-09","count":1,"total_kzt":990}"#;
    assert_eq!(sum(&bank, "C-002", "taxi", "2026-09").await.as_deref(), Ok(expected));
    let fault = sum(&bank, "C-999", "taxi", "2026-09").await.expect_err("nobody");
    assert_eq!(fault, Fault::new(FaultKind::Refused, "the bank knows no customer of this login"));
}

#[tokio::test]
async fn text_is_bound_and_never_read_as_sql() {
    let dir = tempfile::tempdir().expect("a folder");
    let bank = Bank::at(dir.path().join("bank.sqlite"));
    let reply = sum(&bank, "C-001", "taxi' OR '1'='1", "2026-09").await.expect("an empty sum");
    assert!(reply.ends_with(r#""count":0,"total_kzt":0}"#), "{reply}");
}

#[tokio::test]
async fn a_file_is_filled_once_however_often_it_is_opened() {
    let dir = tempfile::tempdir().expect("a folder");
    for _ in 0..3 {
        let bank = Bank::at(dir.path().join("bank.sqlite"));
        let reply = sum(&bank, "C-001", "food", "2026-09").await.expect("a sum");
        assert_eq!(reply, r#"{"category":"food","month":"2026-09","count":1,"total_kzt":5400}"#);
    }
}

#[tokio::test]
async fn a_card_is_blocked_for_real_and_only_its_own() {
    let dir = tempfile::tempdir().expect("a folder");
    let bank = Bank::at(dir.path().join("bank.sqlite"));
    let tool = bank.card_block(Overrides::default());
    for _ in 0..2 {
        let reply = tool.call(&cx("C-001"), json!({})).await.expect("blocked");
        assert_eq!(reply.into_text(), r#"{"status":"blocked"}"#);
    }
    assert_eq!(bank.database.card_state("C-001").as_deref(), Ok("blocked"));
    assert_eq!(bank.database.card_state("C-002").as_deref(), Ok("active"));
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_a_fault() {
    let dir = tempfile::tempdir().expect("a folder");
    let fault = sum(&Bank::at(dir.path()), "C-001", "taxi", "2026-09").await.expect_err("a folder is no file");
    assert_eq!(fault.kind, FaultKind::Internal);
}

#[test]
fn identity_and_confirmation_are_held_by_the_registry() {
    let bank = Bank::at("unused.sqlite");
    let tools: Vec<Registration> = vec![
        Registration::new(Arc::new(bank.txn_sum(Overrides::default()))),
        Registration::new(Arc::new(bank.card_block(Overrides::default()))),
    ];
    let set = Registry::new(tools).expect("closed schemas").all();
    let call = |name: &str, arguments: Value| ToolCall {
        id: "call_1".into(),
        name: name.into(),
        arguments: Arguments::Json(arguments),
    };
    let foreign = call("txn_sum", json!({"category": "taxi", "month": "2026-09", "customer_id": "C-002"}));
    let refusal = set.admit(&foreign, &cx("C-001")).expect_err("an extra field");
    assert_eq!(refusal.outcome, ToolOutcome::InvalidArguments);
    assert!(refusal.text.contains("/customer_id: not an allowed field (allowed: category, month)"), "{}", refusal.text);
    let refusal = set.admit(&call("card_block", json!({})), &cx("C-001")).expect_err("ask first");
    assert_eq!(refusal.text, "needs customer confirmation: ask the customer first");
}

#[test]
fn configuration_overrides_parts_of_a_spec() {
    let overrides = Overrides {
        description: Some("d".into()),
        timeout: Some(Duration::from_secs(3)),
        scopes: Some(vec!["bank:read".into()]),
        effect: Some(Effect::Idempotent),
        confirm: Some(Confirm::Never),
        circuit: Some("bank".into()),
        max_concurrent: Some(2),
        ..Overrides::default()
    };
    let tool = Bank::at("unused.sqlite").card_block(overrides);
    let spec = tool.spec();
    assert_eq!((spec.definition.description.as_str(), spec.timeout), ("d", Duration::from_secs(3)));
    assert_eq!((spec.effect, spec.confirm), (Effect::Idempotent, Confirm::Never));
    assert_eq!((spec.circuit.as_deref(), spec.max_concurrent), (Some("bank"), Some(2)));
    assert_eq!(spec.scopes, ["bank:read"]);
}
