//! Requests: what goes out besides the arguments, and what each answer means.

use std::{sync::Arc, time::Duration};

use glassbox::{
    Effect, Fault, FaultKind, Sensitive, Tool as _, ToolReply,
    core::ToolOutcome,
    tool::http::{Address, Failure, Header, Method, Plan},
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{context, http_tool, outcome, service::Service, spec, templates};

fn plan(url: &str) -> Plan {
    Plan::get(Address::parse(url).expect("an address"))
}

async fn ask(plan: Plan, effect: Effect) -> Result<ToolReply, Fault> {
    http_tool(spec(effect, &[]), plan).call(&context(), json!({})).await
}

async fn answer(status: u16, body: impl ToString) -> Result<ToolReply, Fault> {
    let service = Service::saying(status, body).await;
    ask(plan(&service.url("/")), Effect::Read).await
}

#[tokio::test]
async fn statuses_fall_where_the_classification_says() {
    for (status, kind, end) in [
        (400, FaultKind::Refused, ToolOutcome::Refused),
        (401, FaultKind::Auth, ToolOutcome::Failed),
        (403, FaultKind::Auth, ToolOutcome::Failed),
        (404, FaultKind::Refused, ToolOutcome::Refused),
        (408, FaultKind::Timeout, ToolOutcome::Timeout),
        (409, FaultKind::Refused, ToolOutcome::Refused),
        (422, FaultKind::Refused, ToolOutcome::Refused),
        (425, FaultKind::Overloaded, ToolOutcome::Failed),
        (429, FaultKind::RateLimited, ToolOutcome::Failed),
        (500, FaultKind::Server, ToolOutcome::Failed),
        (502, FaultKind::Server, ToolOutcome::Failed),
        (503, FaultKind::Overloaded, ToolOutcome::Failed),
    ] {
        let fault = answer(status, r#"{"message": "no such currency"}"#).await.expect_err("an error");
        assert_eq!((fault.kind, fault.status, outcome(&fault)), (kind, Some(status), end));
        let words = if kind == FaultKind::Auth { "the credential is refused" } else { "no such currency" };
        assert_eq!(fault.detail, format!("the service answers {status}: {words}"));
    }
}

#[tokio::test]
async fn answers_are_json_text_or_nothing() {
    assert_eq!(answer(200, r#"{"a": [1]}"#).await, Ok(ToolReply::Json(json!({"a": [1]}))));
    assert_eq!(answer(200, "hello").await, Ok(ToolReply::Text("hello".into())));
    assert_eq!(answer(201, "").await, Ok(ToolReply::Json(json!({"status": 201}))));
    assert_eq!(answer(500, "<html>a page</html>").await.expect_err("an error").detail, "the service answers 500");
}

#[tokio::test]
async fn a_part_of_the_answer_is_the_result() {
    let service = Service::saying(200, r#"{"data": {"rate": 521.5}}"#).await;
    let part = |pointer: &str| Plan { result: Some(pointer.into()), ..plan(&service.url("/")) };
    assert_eq!(ask(part("/data/rate"), Effect::Read).await, Ok(ToolReply::Json(json!(521.5))));
    let fault = ask(part("/data/none"), Effect::Read).await.expect_err("nothing there");
    assert_eq!((fault.kind, fault.detail.as_str()), (FaultKind::Malformed, "the answer has nothing at /data/none"));
}

#[tokio::test]
async fn a_service_can_say_in_a_success_that_it_failed() {
    let rule = |equals: Option<Value>| Failure { pointer: "/ok".into(), equals, message: Some("/error".into()) };
    let asked = async |body: &str, failure| {
        let service = Service::saying(200, body).await;
        ask(Plan { failure: Some(failure), ..plan(&service.url("/")) }, Effect::Read).await
    };
    let fault = asked(r#"{"ok": false, "error": "no  money"}"#, rule(Some(json!(false)))).await.expect_err("failed");
    assert_eq!((outcome(&fault), fault.detail.as_str()), (ToolOutcome::ToolError, "no money"));
    assert!(asked(r#"{"ok": true}"#, rule(Some(json!(false)))).await.is_ok());
    assert!(asked(r#"{"ok": null}"#, rule(None)).await.is_ok());
    assert!(asked(r#"{"ok": "broken"}"#, rule(None)).await.is_err());
    assert!(asked("{}", rule(None)).await.is_ok());
}

#[tokio::test]
async fn an_answer_is_read_to_its_limit() {
    let service = Service::saying(200, "12345").await;
    let most = |max_bytes| Plan { max_bytes, ..plan(&service.url("/")) };
    assert_eq!(ask(most(5), Effect::Read).await, Ok(ToolReply::Json(json!(12345))));
    assert_eq!(ask(most(4), Effect::Read).await.expect_err("too long").kind, FaultKind::Malformed);
}

#[tokio::test]
async fn a_wait_that_the_service_asks_for_is_kept() {
    let service = Service::answering(|_| (429, vec![("retry-after", "7".into())], String::new())).await;
    let fault = ask(plan(&service.url("/")), Effect::Read).await.expect_err("too often");
    assert_eq!(fault.retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn every_request_names_its_trace_and_those_with_effects_their_key() {
    let service = Service::saying(200, "{}").await;
    for effect in [Effect::Read, Effect::Idempotent, Effect::Unsafe] {
        let plan = Plan { method: Method::Post, ..plan(&service.url("/")) };
        ask(plan, effect).await.expect("an answer");
    }
    let (cx, asked) = (context(), service.asked());
    let parent = cx.trace.traceparent();
    assert!(asked.iter().all(|one| one.header("traceparent") == Some(&parent)));
    let keys: Vec<_> = asked.iter().map(|one| one.header("idempotency-key")).collect();
    assert_eq!(keys, [None, Some(cx.idempotency_key.as_str()), Some(cx.idempotency_key.as_str())]);
}

#[tokio::test]
async fn credentials_go_out_and_do_not_come_back() {
    let service = Service::answering(|asked| (400, Vec::new(), format!("{:?}", asked.headers))).await;
    let mut plan = plan(&service.url("/"));
    plan.bearer = Some(Sensitive::new("sesame-1".to_owned()));
    plan.headers.insert("x-key".into(), Header::Secret(Sensitive::new("sesame-2".to_owned())));
    let fault = ask(plan, Effect::Read).await.expect_err("an error");
    let asked = service.asked();
    assert_eq!(
        (asked[0].header("authorization"), asked[0].header("x-key")),
        (Some("Bearer sesame-1"), Some("sesame-2"))
    );
    assert!(!fault.detail.contains("sesame"), "{fault}");
}

#[tokio::test]
async fn a_missing_argument_leaves_its_part_out() {
    let service = Service::saying(200, "{}").await;
    let mut plan = plan(&service.url("/"));
    plan.query = templates(&[("a", "{a}"), ("b", "{b}")]);
    let tool = http_tool(spec(Effect::Read, &[]), plan);
    tool.call(&context(), json!({"a": 5})).await.expect("an answer");
    assert_eq!(service.asked()[0].uri, "/?a=5");
    let fault = tool.call(&context(), json!({"a": {}})).await.expect_err("no single value");
    assert_eq!(fault.kind, FaultKind::Refused);
}

#[tokio::test]
async fn redirects_stay_with_their_service() {
    let elsewhere = Service::saying(200, "\"secret of another host\"").await;
    let target = elsewhere.url("/");
    let service = Service::answering(move |asked| {
        let to = |place: &str| (302, vec![("location", place.to_owned())], String::new());
        match asked.uri.as_str() {
            "/here" => to("/there"),
            "/there" => (200, Vec::new(), "\"there\"".into()),
            "/away" => to(&target),
            "/inside" => to("http://169.254.169.254/"),
            "/other-scheme" => to("file:///etc/passwd"),
            _ => to("/loop"),
        }
    })
    .await;
    let get = async |path: &str| ask(plan(&service.url(path)), Effect::Read).await;
    assert_eq!(get("/here").await, Ok(ToolReply::Json(json!("there"))));
    for path in ["/away", "/inside", "/other-scheme", "/loop"] {
        let fault = get(path).await.expect_err(path);
        assert_eq!(fault.kind, FaultKind::Refused, "{path}: {fault}");
    }
    assert!(elsewhere.asked().is_empty());
    let before = service.asked().len();
    let post = Plan { method: Method::Post, ..plan(&service.url("/here")) };
    assert_eq!(ask(post, Effect::Unsafe).await.expect_err("not followed").status, Some(302));
    assert_eq!(service.asked().len(), before + 1, "what has an effect is sent once");
}

#[tokio::test]
async fn a_service_that_is_not_there_and_one_that_breaks_off_are_told_apart() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let broken = tokio::spawn(async move {
        for reply in ["", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"] {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = [0; 2048];
            let _ = stream.read(&mut request).await;
            stream.write_all(reply.as_bytes()).await.expect("written");
        }
    });
    for _ in 0..2 {
        assert_eq!(ask(plan(&url), Effect::Read).await.expect_err("lost").kind, FaultKind::Transport);
    }
    broken.await.expect("played to its end");
    let fault = ask(plan(&url), Effect::Read).await.expect_err("nobody listens");
    assert!(fault.kind.surely_not_executed(), "{fault}");
}

#[tokio::test]
async fn tools_share_connections() {
    let service = Service::saying(200, "{}").await;
    let tool = Arc::new(http_tool(spec(Effect::Read, &[]), plan(&service.url("/"))));
    let calls = (0..8).map(|_| {
        let tool = tool.clone();
        tokio::spawn(async move { tool.call(&context(), json!({})).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert!(call.await.expect("no panic").is_ok());
    }
    assert_eq!(service.asked().len(), 8);
}
