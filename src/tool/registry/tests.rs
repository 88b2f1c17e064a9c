//! Tests of `tool::registry`: hand-made cases, each with its right value.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::*;
use crate::{
    core::{
        Arguments, Fault, SessionId, SpanId, ToolCall, ToolOutcome,
        port::{ToolContext, ToolReply, TraceContext},
        spec::Confirm,
    },
    tool::FnTool,
};

fn closed() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": false})
}

fn tool(spec: ToolSpec) -> Arc<dyn Tool> {
    Arc::new(FnTool::new(spec, |_cx, arguments| async move { Ok(ToolReply::Json(arguments)) }))
}

fn named(name: &str) -> Arc<dyn Tool> {
    tool(ToolSpec::new(name, "", closed()))
}

fn cx(scopes: &[&str]) -> ToolContext {
    let session = SessionId::from_bytes([7; 16]);
    ToolContext {
        principal: Arc::new(Principal {
            id: "C-001".into(),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            roles: Vec::new(),
            attributes: BTreeMap::new(),
        }),
        session,
        call_id: "call_1".into(),
        idempotency_key: "key".into(),
        attempt: 1,
        trace: TraceContext { trace_id: session.trace_id(), span_id: SpanId::of_fact(session, 1), sampled: true },
    }
}

fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall { id: "call_1".into(), name: name.into(), arguments: Arguments::Json(arguments) }
}

struct Picky(ToolSpec);

#[async_trait]
impl Tool for Picky {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _cx: &ToolContext, arguments: Value) -> Result<ToolReply, Fault> {
        Ok(ToolReply::Json(arguments))
    }

    fn check(&self, _cx: &ToolContext, arguments: &Value) -> Result<(), String> {
        match arguments["n"].as_i64() {
            Some(13) => panic!("a check that breaks"),
            Some(n) if n > 5 => Err(format!("{n} is over the limit of 5")),
            _ => Ok(()),
        }
    }
}

fn set() -> ToolSet {
    let tools = vec![
        named("open"),
        tool(ToolSpec::new("admin", "", closed()).scopes(["bank:write", "bank:read"])),
        tool(ToolSpec::new("ask", "", closed()).confirm(Confirm::AskCustomer)),
        Arc::new(Picky(ToolSpec::new("picky", "", closed()))),
    ];
    let registry = Registry::new(tools.into_iter().map(Registration::new).collect()).expect("good tools");
    registry.subset(["picky", "open", "admin", "ask", "open"]).expect("known names")
}

#[track_caller]
fn refused(call: &ToolCall, scopes: &[&str], outcome: ToolOutcome, valid: Option<bool>, text: &str) {
    let refusal = set().admit(call, &cx(scopes)).expect_err("should be refused");
    assert_eq!(refusal, Refusal { outcome, text: text.into(), arguments_valid: valid });
}

#[test]
fn all_wrong_registrations_are_named_at_once() {
    let open = tool(ToolSpec::new("open", "", json!({"type": "object", "properties": {}})));
    let tools = vec![named("a"), named("a"), named("my tool"), open];
    let error = Registry::new(tools.into_iter().map(Registration::new).collect()).expect_err("three problems");
    assert_eq!(
        error.to_string(),
        "tool \"a\" is registered twice, names must differ; \
         tool name \"my tool\" must be 1 to 64 letters, digits, _ or -; \
         tool \"open\": schema at the root: additionalProperties must be false, so that undeclared fields are refused"
    );
}

#[test]
fn an_agent_cannot_have_tools_that_nobody_registered() {
    let registry = Registry::new(vec![Registration::new(named("a"))]).expect("good");
    let error = registry.subset(["b", "a"]).expect_err("no b");
    assert_eq!(error.to_string(), "no tool \"b\", there are: a");
}

#[test]
fn definitions_are_what_the_principal_may_use_in_the_agents_order() {
    let names = |scopes: &[&str]| -> Vec<String> {
        set().definitions(&cx(scopes).principal).iter().map(|definition| definition.name.clone()).collect()
    };
    assert_eq!(names(&["bank:read"]), ["picky", "open", "ask"]);
    assert_eq!(names(&["bank:read", "bank:write"]), ["picky", "open", "admin", "ask"]);
}

#[test]
fn a_closed_schema_is_what_the_model_is_shown() {
    let open = tool(ToolSpec::new("open", "", json!({"type": "object"})));
    let registry = Registry::new(vec![Registration::closing(open)]).expect("closes");
    let shown = registry.all().definitions(&cx(&[]).principal);
    assert_eq!(shown[0].input_schema, json!({"type": "object", "additionalProperties": false}));
}

#[test]
fn each_step_refuses_in_its_own_words() {
    let none = json!({});
    refused(
        &call("txn_summ", none.clone()),
        &[],
        ToolOutcome::UnknownTool,
        None,
        "unknown tool \"txn_summ\", available: ask, open, picky. Use only tools from the provided list.",
    );
    refused(
        &call("admin", json!({"n": "x"})),
        &[],
        ToolOutcome::InvalidArguments,
        Some(false),
        "Schema validation error: /n: expected an integer, got the string \"x\". Fix arguments and retry.",
    );
    refused(
        &call("admin", none.clone()),
        &["bank:read"],
        ToolOutcome::Denied,
        Some(true),
        "Access denied: admin needs the scope bank:write.",
    );
    refused(
        &call("picky", json!({"n": 6})),
        &[],
        ToolOutcome::Denied,
        Some(true),
        "Access denied: 6 is over the limit of 5",
    );
    refused(
        &call("picky", json!({"n": 13})),
        &[],
        ToolOutcome::Failed,
        Some(true),
        "the check of picky failed, the call was not made",
    );
    let ask_first = "needs customer confirmation: ask the customer first";
    refused(&call("ask", none), &[], ToolOutcome::Denied, Some(true), ask_first);
}

#[tokio::test]
async fn an_admitted_call_runs_with_its_checked_arguments() {
    let admitted = set().admit(&call("open", json!({"n": 3.0})), &cx(&[])).expect("admitted");
    assert_eq!(admitted.spec().name(), "open");
    let reply = admitted.tool.call(&cx(&[]), admitted.arguments).await.expect("runs");
    assert_eq!(reply.into_text(), r#"{"n":3}"#);
}

#[test]
fn a_tool_for_roles_is_shown_to_whoever_holds_one_and_refused_to_others() {
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let spec = ToolSpec::new("close_day", "Closes the day.", schema).roles(["approver", "operator"]);
    let tool = FnTool::new(spec, |_, _| async { Ok(ToolReply::Text("closed".into())) });
    let tools = Registry::new(vec![Registration::new(Arc::new(tool))]).expect("a good tool").all();
    let with_roles = |roles: &[&str]| Principal {
        id: "C-001".into(),
        scopes: Vec::new(),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        attributes: Default::default(),
    };
    assert_eq!(tools.definitions(&with_roles(&["user"])).len(), 0, "what is forbidden is not shown");
    assert_eq!(tools.definitions(&with_roles(&["user", "operator"])).len(), 1);
    let call = ToolCall { id: "a".into(), name: "close_day".into(), arguments: Arguments::empty() };
    let mut cx = cx(&[]);
    cx.principal = Arc::new(with_roles(&["user"]));
    let refusal = tools.admit(&call, &cx).map(|_| ()).expect_err("a user may not");
    assert_eq!(refusal.outcome, ToolOutcome::Denied);
    assert_eq!(refusal.text, "Access denied: close_day needs the role approver or operator.");
    cx.principal = Arc::new(with_roles(&["approver"]));
    assert!(tools.admit(&call, &cx).is_ok());
}

fn bound_tool() -> ToolSet {
    let schema = json!({
        "type": "object",
        "properties": {"customer_id": {"type": "string"}, "month": {"type": "string"}},
        "required": ["customer_id", "month"],
        "additionalProperties": false
    });
    let spec = ToolSpec::new("spent", "", schema).bind("customer_id", "customer_id").bind("branch", "branch");
    Registry::new(vec![Registration::new(tool(spec))]).expect("a good tool").all()
}

fn branch(branch: Option<&str>) -> ToolContext {
    let attributes = branch.map(|branch| ("branch".to_owned(), branch.to_owned())).into_iter().collect();
    let principal = Principal { id: "C-7".into(), scopes: Vec::new(), roles: Vec::new(), attributes };
    ToolContext { principal: Arc::new(principal), ..cx(&[]) }
}

#[test]
fn what_comes_from_the_login_is_not_in_the_schema_and_reaches_the_tool() {
    let shown = bound_tool().definitions(&branch(Some("A")).principal);
    let schema = json!({
        "type": "object",
        "properties": {"month": {"type": "string"}},
        "required": ["month"],
        "additionalProperties": false
    });
    assert_eq!(shown[0].input_schema, schema);
    let admitted = bound_tool().admit(&call("spent", json!({"month": "5"})), &branch(Some("A"))).expect("admitted");
    assert_eq!(admitted.arguments, json!({"month": "5"}), "what a person sees is what the model asked for");
    assert_eq!(admitted.into_arguments(), json!({"month": "5", "customer_id": "C-7", "branch": "A"}));
}

#[test]
fn what_comes_from_the_login_cannot_come_from_the_model() {
    for (arguments, text) in [
        (json!({"month": "5", "customer_id": "C-1"}), "customer_id is set from the login; leave it out and retry."),
        (
            json!({"branch": null, "customer_id": "C-7"}),
            "branch, customer_id are set from the login; leave them out and retry.",
        ),
    ] {
        let refusal =
            bound_tool().admit(&call("spent", arguments), &branch(Some("A"))).map(|_| ()).expect_err("refused");
        let invalid = ToolOutcome::InvalidArguments;
        assert_eq!(refusal, Refusal { outcome: invalid, text: text.into(), arguments_valid: Some(false) });
    }
}

#[test]
fn without_the_claim_nothing_runs() {
    let refusal =
        bound_tool().admit(&call("spent", json!({"month": "5"})), &branch(None)).map(|_| ()).expect_err("denied");
    assert_eq!(refusal.outcome, ToolOutcome::Denied);
    assert_eq!(refusal.text, "Access denied: spent needs branch of the login, which it has not.");
}

#[test]
fn a_rule_decides_by_the_arguments_whether_a_person_must_agree() {
    use crate::core::spec::{ArgumentRule, ArgumentTest};
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": false});
    let rule = || ArgumentRule { pointer: "/n".into(), test: ArgumentTest::Over(10.0) };
    let of = |confirm| tool(ToolSpec::new("pay", "", schema.clone()).confirm(confirm).confirm_when(rule()));
    let set = |confirm| Registry::new(vec![Registration::new(of(confirm))]).expect("a good tool").all();
    let suspends = |n: i64| set(Confirm::Suspend).admit(&call("pay", json!({ "n": n })), &cx(&[])).map(|it| it.confirm);
    assert_eq!(suspends(10), Ok(Confirm::Never));
    assert_eq!(suspends(11), Ok(Confirm::Suspend));
    let asks = |n: i64| set(Confirm::AskCustomer).admit(&call("pay", json!({ "n": n })), &cx(&[])).map(|it| it.confirm);
    assert_eq!(asks(10), Ok(Confirm::Never));
    assert_eq!(asks(11).map_err(|refusal| refusal.text), Err(CONFIRM_FIRST.to_owned()));
}
