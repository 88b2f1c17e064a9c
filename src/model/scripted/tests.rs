//! Tests of `model::scripted`: hand-made cases, each with its right value.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::core::{
    Arguments, Message, SpanId,
    port::{Nobody, TraceContext},
    spec::ToolDefinition,
};

fn info() -> ModelInfo {
    ModelInfo {
        name: "demo".into(),
        request_model: "scripted-1".into(),
        provider: "scripted".into(),
        context_window: 100_000,
        max_output_tokens: 4096,
        prices: None,
    }
}

fn model(yaml: &str) -> Scripted {
    Scripted::from_yaml(info(), yaml).expect("a good script")
}

fn user(text: &str) -> Message {
    Message::User { content: text.into() }
}

fn asked(calls: &[(&str, &str)]) -> Message {
    let call =
        |(id, name): &(&str, &str)| ToolCall { id: (*id).into(), name: (*name).into(), arguments: Arguments::empty() };
    Message::Assistant { content: String::new(), calls: calls.iter().map(call).collect() }
}

fn answered(id: &str, content: &str, is_error: bool) -> Message {
    Message::Tool { call_id: id.into(), content: content.into(), is_error }
}

fn request(messages: Vec<Message>) -> ModelRequest {
    let tool = ToolDefinition { name: "txn_sum".into(), description: String::new(), input_schema: json!({}) };
    ModelRequest { system: String::new(), messages, tools: [tool].into(), max_tokens: 1000, ..ModelRequest::default() }
}

async fn call_in(trace: u8, model: &Scripted, request: &ModelRequest) -> Result<ModelReply, Fault> {
    let body = model.encode(request).into();
    let trace =
        TraceContext { trace_id: TraceId::from_bytes([trace; 16]), span_id: SpanId::from_bytes([1; 8]), sampled: true };
    model.call(ModelCallInput { request, body: &body, trace, progress: &Nobody }).await
}

/// Keeps what it is told: each piece, and the charge with it.
#[derive(Debug, Default)]
struct Heard(Mutex<Vec<(String, u64, u64)>>);

impl Progress for Heard {
    fn received(&self, text: &str, charge: Usage) {
        assert!(charge.estimated);
        self.0.lock().expect("no panic").push((text.into(), charge.input, charge.output));
    }
}

async fn hear(model: &Scripted, heard: &Heard) -> Result<ModelReply, Fault> {
    let request = request(vec![user("x")]);
    let body = model.encode(&request).into();
    let trace =
        TraceContext { trace_id: TraceId::from_bytes([1; 16]), span_id: SpanId::from_bytes([1; 8]), sampled: true };
    model.call(ModelCallInput { request: &request, body: &body, trace, progress: heard }).await
}

async fn say(model: &Scripted, messages: Vec<Message>) -> String {
    call_in(1, model, &request(messages)).await.expect("a reply").text
}

#[tokio::test]
async fn the_bank_answers_as_the_document_shows() {
    let bank = Scripted::bank(info()).expect("the embedded script");
    let task = user("Сколько я потратил на такси в сентябре?");
    let first = call_in(1, &bank, &request(vec![task.clone()])).await.expect("a call");
    let arguments = Arguments::Json(json!({"category": "taxi", "month": "2026-09"}));
    assert_eq!(first.calls, [ToolCall { id: String::new(), name: "txn_sum".into(), arguments }]);
    assert_eq!(first.finish_reason, "tool_use");
    let result = r#"{"category":"taxi","month":"2026-09","count":2,"total_kzt":5000}"#;
    let history = vec![task.clone(), asked(&[("a", "txn_sum")]), answered("a", result, false)];
    assert_eq!(say(&bank, history).await, "Такси в сентябре: 2 поездки, 5000 ₸.");
    let failed = vec![task, asked(&[("a", "txn_sum")]), answered("a", r#"{"error":"нет связи"}"#, true)];
    assert_eq!(say(&bank, failed).await, "Не получилось: нет связи");
}

#[tokio::test]
async fn the_bank_has_its_other_branches() {
    let bank = Scripted::bank(info()).expect("the embedded script");
    let both = user("Сколько ушло на такси и на еду в сентябре?");
    let reply = call_in(1, &bank, &request(vec![both.clone()])).await.expect("calls");
    assert_eq!(reply.calls.len(), 2);
    let history = vec![
        both,
        asked(&[("a", "txn_sum"), ("b", "txn_sum")]),
        answered("a", r#"{"total_kzt":5000}"#, false),
        answered("b", r#"{"total_kzt":5400}"#, false),
    ];
    assert_eq!(say(&bank, history).await, "Сентябрь: такси 5000 ₸, еда 5400 ₸.");
    let history = vec![
        user("Заблокируй карту"),
        asked(&[("a", "card_block")]),
        answered("a", "needs customer confirmation: ask the customer first", true),
    ];
    assert_eq!(say(&bank, history).await, "Подтвердите, пожалуйста: заблокировать вашу карту?");
    assert_eq!(say(&bank, vec![user("How much on food?")]).await, "");
    assert!(say(&bank, vec![user("Привет")]).await.starts_with("Я помогаю с тратами"));
    let looping = vec![user("зациклись"), asked(&[("a", "txn_sum")]), answered("a", "{}", false)];
    let mut wrap_up = request(looping);
    assert_eq!(call_in(1, &bank, &wrap_up).await.expect("again").calls[0].name, "txn_sum");
    wrap_up.tools = [].into();
    wrap_up.messages.push(user("Сформулируй, что известно."));
    assert_eq!(call_in(1, &bank, &wrap_up).await.expect("a text").text, "Пока известно только это: {}");
}

#[tokio::test]
async fn the_bank_answers_about_no_other_month() {
    let bank = Scripted::bank(info()).expect("the embedded script");
    let months =
        ["январе", "феврале", "марте", "апреле", "мае", "июне", "июле", "августе", "октябре", "ноябре", "декабре"];
    let more = ["прошлом месяце", "сентябре 2025 года", "августе и сентябре", "2026-08", "10.2026"];
    for time in months.iter().chain(&more) {
        for what in ["такси", "еду", "такси и еду"] {
            let said = say(&bank, vec![user(&format!("Сколько я потратил на {what} в {time}?"))]).await;
            assert!(said.contains("только за сентябрь 2026 года"), "{what}, {time}: {said}");
        }
    }
    let months = ["January", "february", "March", "April", "May", "June", "July", "August", "October", "November"];
    for time in months.iter().chain(&["December", "Aug", "September 2025", "2026-08"]) {
        for what in ["taxi", "food", "taxi and food"] {
            let said = say(&bank, vec![user(&format!("How much did I spend on {what} in {time}?"))]).await;
            assert!(said.contains("September 2026 only"), "{what}, {time}: {said}");
        }
    }
    for task in [
        "Сколько я потратил на такси в сентябре?",
        "Такси в сентябре 2026 года?",
        "Такси за 2026-09",
        "Сколько на еду? Не менее 5000?",
        "May I ask what I spent on taxi in September 2026?",
        "taxi 09.2026",
    ] {
        let reply = call_in(1, &bank, &request(vec![user(task)])).await.expect("a call");
        assert_eq!(reply.calls.len(), 1, "{task}: {}", reply.text);
    }
}

#[tokio::test]
async fn the_first_rule_that_matches_answers() {
    let model = model(
        r#"
name: rules
rules:
  - {when: {step: 2, last: tool_error, tool: pay}, text: "pay failed"}
  - {when: {call_count: 2}, text: "two calls"}
  - {when: {matches: "^again$"}, text: "loop said again"}
  - {when: {task_matches: "task two", tools_offered: true}, text: "second task, {{ task }}"}
  - {when: {step: 1}, text: "first"}
"#,
    );
    assert_eq!(say(&model, vec![user("x")]).await, "first");
    let failed = vec![user("x"), asked(&[("a", "pay")]), answered("a", "no", true)];
    assert_eq!(say(&model, failed).await, "pay failed");
    let two = vec![user("x"), asked(&[("a", "pay"), ("b", "get")]), answered("a", "", true), answered("b", "", true)];
    assert_eq!(say(&model, two).await, "two calls");
    let hinted = vec![user("x"), asked(&[("a", "get")]), answered("a", "1", false), user("again")];
    assert_eq!(say(&model, hinted).await, "loop said again");
    let answer = Message::Assistant { content: "done".into(), calls: vec![] };
    let next = vec![user("x"), answer, user("task two")];
    assert_eq!(say(&model, next).await, "second task, task two");
    let unknown = vec![user("x"), asked(&[("a", "get")]), answered("a", "[1]", false)];
    let fault = call_in(1, &model, &request(unknown)).await.expect_err("no rule");
    let detail = r#"script "rules" has no rule for the tool result "[1]""#;
    assert_eq!(fault, Fault::new(FaultKind::Refused, detail));
}

#[tokio::test]
async fn fields_are_filled_in_and_a_missing_one_says_so() {
    let model = model(
        r#"
name: fields
rules:
  - text: "{{result.a.0}} {{ result.b }} {{ result.none }} {{ other }} {{ error }} {{ open"
"#,
    );
    let history = vec![user("x"), asked(&[("a", "get")]), answered("a", r#"{"a":["one"],"b":{"c":1}}"#, false)];
    let expected = r#"one {"c":1} [no field result.none] [no field other] [no field error] {{ open"#;
    assert_eq!(say(&model, history).await, expected);
}

#[tokio::test]
async fn calls_come_as_the_script_gives_them() {
    let model = model(
        r#"
name: calls
usage: {input: 10, output: 5}
rules:
  - text: "I look"
    usage: {input: 7, output: 3}
    calls:
      - {tool: a, raw: '{"x":', id: same}
      - {tool: b, raw: "null", id: same}
"#,
    );
    let reply = call_in(1, &model, &request(vec![user("x")])).await.expect("calls");
    assert_eq!((reply.text.as_str(), reply.usage.input, reply.usage.output), ("I look", 7, 3));
    assert!(!reply.usage.estimated);
    assert_eq!(reply.model, "scripted-1");
    assert_eq!(reply.calls[0].arguments, Arguments::Raw("{\"x\":".into()));
    assert_eq!(reply.calls[1].arguments, Arguments::empty());
    assert_eq!(reply.calls[1].id, "same");
}

#[tokio::test]
async fn tokens_that_nobody_names_are_estimated() {
    let model = model("{name: u, rules: [{text: 12345678}]}");
    let request = request(vec![user("x")]);
    let reply = call_in(1, &model, &request).await.expect("a text");
    let input = (model.encode(&request).len() as u64).div_ceil(4);
    assert_eq!(reply.usage, Usage { input, output: 2, estimated: true, ..Usage::default() });
}

#[tokio::test]
async fn faults_strike_as_often_as_the_script_says() {
    let model = model(
        r#"
name: faults
rules:
  - {when: {matches: never}, fault: {kind: auth}, text: "not reached"}
  - {fault: {status: 529, detail: "overloaded", retry_after: 2s, times: 2}}
  - {fault: {kind: timeout, times: 1}, text: "at last"}
"#,
    );
    let request = request(vec![user("x")]);
    let overloaded = Fault::new(FaultKind::Overloaded, "overloaded").retry_after(Duration::from_secs(2)).status(529);
    for trace in [1, 2] {
        assert_eq!(call_in(trace, &model, &request).await, Err(overloaded.clone()));
        assert_eq!(call_in(trace, &model, &request).await, Err(overloaded.clone()));
        assert_eq!(call_in(trace, &model, &request).await.map_err(|fault| fault.kind), Err(FaultKind::Timeout));
        assert_eq!(call_in(trace, &model, &request).await.expect("well again").text, "at last");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delay_takes_its_time_on_the_runtimes_clock() {
    let model = model("{name: slow, rules: [{delay: 1m30s, text: late}]}");
    let request = request(vec![user("x")]);
    let cut = tokio::time::timeout(Duration::from_secs(89), call_in(1, &model, &request)).await;
    assert!(cut.is_err());
    let whole = tokio::time::timeout(Duration::from_secs(91), call_in(1, &model, &request)).await;
    assert_eq!(whole.expect("in time").expect("a reply").text, "late");
}

#[tokio::test(start_paused = true)]
async fn a_text_comes_in_pieces_and_a_fault_strikes_between_them() {
    let model = model(
        r#"
name: pieces
usage: {input: 10, output: 5}
rules:
  - fault: {kind: overloaded, after: 2, times: 1}
    text: "Такси, да"
    stream: {letters: 4, pause: 1s}
"#,
    );
    let heard = |pieces: &[(&str, u64)]| -> Vec<_> {
        pieces.iter().map(|(text, output)| ((*text).to_owned(), 10, *output)).collect()
    };
    let begun = tokio::time::Instant::now();
    let broken = Heard::default();
    let fault = hear(&model, &broken).await.expect_err("it breaks");
    assert_eq!((fault.kind, fault.usage, begun.elapsed().as_secs()), (FaultKind::Overloaded, None, 2));
    // Eight bytes are two tokens, eight letters with a comma and a space are fourteen bytes.
    assert_eq!(*broken.0.lock().expect("no panic"), heard(&[("Такс", 2), ("и, д", 4)]));
    let whole = Heard::default();
    let reply = hear(&model, &whole).await.expect("well again");
    assert_eq!((reply.text.as_str(), begun.elapsed().as_secs()), ("Такси, да", 5));
    assert_eq!(*whole.0.lock().expect("no panic"), heard(&[("Такс", 2), ("и, д", 4), ("а", 4)]));
}

#[tokio::test]
async fn a_text_that_is_not_cut_comes_at_once_and_calls_have_none() {
    let whole = Heard::default();
    let text = model("{name: u, usage: {input: 1, output: 1}, rules: [{text: 12345678}]}");
    hear(&text, &whole).await.expect("a text");
    assert_eq!(*whole.0.lock().expect("no panic"), [("12345678".to_owned(), 1, 2)]);
    let none = Heard::default();
    hear(&model("{name: u, rules: [{call: {tool: a}}]}"), &none).await.expect("a call");
    assert!(none.0.lock().expect("no panic").is_empty());
}

#[tokio::test]
#[should_panic(expected = "the script says panic")]
async fn a_script_can_panic() {
    let model = model("{name: p, rules: [{panic: true}]}");
    let _ = call_in(1, &model, &request(vec![user("x")])).await;
}

#[test]
fn wrong_scripts_say_where() {
    let Err(Error::Yaml(text)) = Scripted::from_yaml(info(), "name: x\nrules:\n  - texxt: a\n") else {
        panic!("an unknown key must be refused")
    };
    assert!(text.contains("texxt") && text.contains("line 3"), "{text}");
    let yaml = r#"
name: x
rules:
  - when: {step: 1}
  - {call: {tool: a}, calls: [{tool: b, raw: "", arguments: {}}]}
  - {fault: {kind: auth, status: 401}}
  - {fault: {status: 200}}
  - {fault: {}}
  - {call: {tool: a}, stream: {letters: 3}}
  - {fault: {kind: auth, after: 1}}
"#;
    let error = Scripted::from_yaml(info(), yaml).expect_err("seven problems");
    assert_eq!(
        error.to_string(),
        "script \"x\": rule 1: says nothing, it needs one of call, calls, text, fault, panic; \
         rule 2: has call and calls, only one of them is allowed; \
         rule 2: has a call with arguments and raw, only one of them is allowed; \
         rule 3: has a fault with kind and status, only one of them is allowed; \
         rule 4: has a fault with a status that is no fault, 400 to 599 are; \
         rule 5: has a fault without kind or status, one of them is needed; \
         rule 6: has stream without text, there is nothing to give in pieces; \
         rule 7: has a fault after pieces but no stream that gives them"
    );
}

#[test]
fn the_body_of_a_request_is_the_same_each_time() {
    let (model, request) = (Scripted::bank(info()).expect("a script"), request(vec![user("x")]));
    assert_eq!(model.encode(&request), model.encode(&request.clone()));
}

#[tokio::test]
async fn a_script_can_cut_a_reply_and_lie_about_its_end() {
    let model = model(
        "name: x\nrules:\n  - when: {step: 1}\n    fault: {kind: transport, usage: {input: 90, output: 7}, times: 1}\n    \
         call: {tool: txn_sum}\n    finish_reason: length\n",
    );
    let request = request(vec![user("go")]);
    let fault = call_in(1, &model, &request).await.expect_err("a cut");
    let charged = Usage { input: 90, output: 7, estimated: true, ..Usage::default() };
    assert_eq!((fault.kind, fault.usage), (FaultKind::Transport, Some(charged)));
    let reply = call_in(1, &model, &request).await.expect("a reply");
    assert_eq!((reply.calls.len(), reply.finish_reason.as_str()), (1, "length"));
}
