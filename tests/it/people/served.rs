//! The built program with a login, under an alert: what its watchers send on, its pages show to a
//! role without content, and its API answers to those whose sessions these are not.
//!
//! Who a session is for is shown to operators by design: they find sessions by it. What a call that
//! waits would do is shown to an approver by design. Nothing else is excepted.

use serde_json::json;

use super::{all, found};
use crate::{
    alerting::{Watchers, wait_for},
    auth::{ask, hash_of_key},
    kinds::service::Service,
    process::{Answer, Client, Home, have},
    prometheus,
};

const OWNER: &str = "user-zhanar-7788";
const CALL: &str = "+77012223344";

/// An operator reads in `/console` whose a session is.
const SHOWN_TO_OPERATORS: [&str; 1] = [OWNER];

fn script() -> String {
    let call = |tool: &str| json!({"tool": tool, "arguments": {"q": all()}, "id": CALL});
    json!({"name": "people", "rules": [
        {"when": {"step": 1, "task_matches": "^ask:"}, "calls": [call("ask")]},
        {"when": {"step": 1, "task_matches": "^tell:"}, "calls": [call("tell"),
            {"tool": "mail a.serikbayeva@example.com", "arguments": {"q": all()}}]},
        {"when": {"step": 1}, "calls": [call("fetch")]},
        {"when": {"task_matches": "^(ask|tell):"}, "text": all()},
        {"fault": {"kind": "server", "detail": all()}},
    ]})
    .to_string()
}

fn config(service: &Service) -> String {
    let key = |caller: &str, id: &str, role: &str| {
        let attributes = json!({"customer_id": "customer-zhanar-9911", "name": "Zhanar Akhmetova"});
        json!({"hash": hash_of_key(caller), "principal": {"id": id, "scopes": [], "roles": [role],
            "attributes": if id == OWNER { attributes } else { json!({}) }}})
    };
    let tool = |path: &str| {
        json!({"http": {"method": "GET", "url": service.url(path), "query": {"q": "{q}"}}, "description": "Does it.",
            "effect": "read", "scopes": [], "parameters": {"type": "object", "properties": {"q": {"type": "string"}},
            "required": ["q"], "additionalProperties": false}})
    };
    let mut ask = tool("/tell");
    ask["confirm"] = "suspend".into();
    json!({
        "agents": {"one": {"system_prompt": all(), "model": "one", "language": "en", "task_types": ["other"],
            "tools": ["tell", "fetch", "ask"], "limits": {"token_budget": 5_000_000}}},
        "models": {"one": {"provider": "scripted", "script": "people.yaml", "context_window": 1_000_000}},
        "tools": {"tell": tool("/tell"), "fetch": tool("/fetch"), "ask": ask},
        "llm_retry_policy": {"max_attempts": 1},
        "tool_retry_policy": {"max_attempts": 1},
        "rate_limits": {"sessions_per_user_per_hour": "unlimited"},
        "console": {"enabled": true, "content": "owner"},
        "auth": {"api_keys": {"owner": key("owner", OWNER, "user"), "other": key("other", "C-002", "user"),
            "approver": key("approver", "staff-1", "approver"), "operator": key("operator", "ops-1", "operator")}},
        "telemetry": {"events": "events.jsonl"},
    })
    .to_string()
}

/// A session of the owner; gives its id.
fn session(server: &Client, word: &str) -> String {
    let task = json!({"task": format!("{word}: {}", all()), "metadata": {"note": all()}}).to_string();
    let answer = ask(server, Some("owner"), "POST", "/v1/sessions?wait=15s", &task);
    assert!([200, 202].contains(&answer.status), "{answer:?}");
    answer.json()["session_id"].as_str().unwrap().to_owned()
}

/// What leaked in an answer, its headers included.
fn leaks(who: &str, path: &str, answer: &Answer) -> Vec<String> {
    let headers: Vec<_> = answer.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    found(&format!("{who} {path}"), format!("{}\n{}", headers.join("\n"), unescaped(&answer.body)).as_bytes())
}

/// Text as a reader of the page or of the JSON sees it.
fn unescaped(text: &str) -> String {
    [("&#43;", "+"), ("&#34;", "\""), ("&#38;", "&"), ("&amp;", "&"), ("&quot;", "\""), ("\\\"", "\"")]
        .into_iter()
        .fold(text.to_owned(), |text, (written, meant)| text.replace(written, meant))
}

/// Every page of the console.
fn pages(sessions: &[String]) -> Vec<String> {
    let lists = ["", "?status=done", "?status=error", "/confirmations", "/circuits", "/sign-in", "/no/such/page"];
    let mut pages: Vec<_> = lists.iter().map(|page| format!("/console{page}")).collect();
    pages.extend(sessions.iter().map(|id| format!("/console/sessions/{id}")));
    pages
}

/// Every path of the API that is read, for each session.
fn routes(server: &Client, sessions: &[String]) -> Vec<String> {
    let document = ask(server, Some("other"), "GET", "/openapi.json", "").json();
    let read = document["paths"].as_object().unwrap().iter().filter(|(_, methods)| !methods["get"].is_null());
    let mut paths = Vec::new();
    for (path, _) in read {
        let own = |id: &String| path.replace("{id}", id).replace("{call_id}", "%2B77012223344");
        if path.contains("{id}") { paths.extend(sessions.iter().map(own)) } else { paths.push(path.clone()) }
    }
    assert!(paths.iter().any(|path| path.ends_with("/journal")) && paths.iter().any(|path| path.ends_with("/events")));
    paths
}

/// What callers may read whose sessions these are not.
fn search(server: &Client, who: &str, paths: &[String]) -> Vec<String> {
    let read = |path: &String| {
        let answer = ask(server, Some(who), "GET", path, "");
        assert_ne!(answer.status, 401, "{path}: {answer:?}");
        assert!(answer.status < 500 || path == "/readyz", "{path}: {answer:?}");
        leaks(who, path, &answer)
    };
    paths.iter().flat_map(read).collect()
}

fn decide(server: &Client, session: &str) {
    let word = json!({"decision": "deny", "comment": all()}).to_string();
    let path = format!("/v1/sessions/{session}/confirmations/%2B77012223344");
    let answer = ask(server, Some("approver"), "POST", &path, &word);
    assert_eq!(answer.status, 200, "{answer:?}");
    wait_for("the session goes on to its end", || {
        let report = ask(server, Some("owner"), "GET", &format!("/v1/sessions/{session}"), "").json();
        (report["status"] == "done").then_some(())
    });
}

/// Looks with the eyes of everybody; gives what they must not have seen.
fn looks(server: &Client, sessions: &[String], waits: bool) -> Vec<String> {
    let (pages, routes) = (pages(sessions), routes(server, sessions));
    let mut seen = search(server, "operator", &pages);
    seen.retain(|leak| !SHOWN_TO_OPERATORS.iter().any(|shown| leak.contains(&format!(": {shown:?} after"))));
    // What waits is what an approver decides on.
    let decided = |path: &&String| !(waits && path.ends_with("/confirmations"));
    for paths in [&pages, &routes] {
        seen.extend(search(server, "other", paths));
        let paths: Vec<_> = paths.iter().filter(decided).cloned().collect();
        seen.extend(search(server, "approver", &paths));
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_people_reaches_alerts_pages_and_callers_it_is_not_for() {
    let service = Service::answering(|asked| {
        let status = if asked.uri.starts_with("/fetch") { 500 } else { 200 };
        (status, vec![("content-type", "text/plain".to_owned())], all())
    })
    .await;
    tokio::task::spawn_blocking(move || life(&service)).await.unwrap();
}

fn life(service: &Service) {
    let home = Home::configured(&config(service));
    home.write("people.yaml", &script());
    let server = home.serve();
    let (told, asks) = (session(&server, "tell"), session(&server, "ask"));
    let sessions = [told, asks, session(&server, "fetch")];
    let mut seen = looks(&server, &sessions, true);
    there_was_something_to_find(&server, &sessions);
    decide(&server, &sessions[1]);
    seen.extend(looks(&server, &sessions, false));
    let alerts = alerts(&home, &server);
    seen.extend(found("alerts", unescaped(&alerts).as_bytes()));

    let metrics = server.get("/metrics").body;
    seen.extend(found("metrics", metrics.as_bytes()));
    let finished = server.stop();
    assert_eq!(finished.code, Some(0), "{}", finished.err);
    seen.extend(found("diagnostics", format!("{}{}", finished.out, finished.err).as_bytes()));
    let lines = std::fs::read_to_string(home.path("events.jsonl")).unwrap();
    assert!(lines.contains("unknown_tool") && lines.contains("confirmation_decided"), "{lines}");
    seen.extend(found("lines", unescaped(&lines).as_bytes()));
    assert!(seen.is_empty(), "{} places: {seen:#?}", seen.len());
}

/// The owner reads all of it where the others do not, and the approver what waits.
fn there_was_something_to_find(server: &Client, sessions: &[String]) {
    let read = |who: &str, path: &str| leaks(who, path, &ask(server, Some(who), "GET", path, "")).len();
    for id in sessions {
        assert_eq!(read("owner", &format!("/v1/sessions/{id}/journal")), 50, "{id}");
        assert!(read("owner", &format!("/console/sessions/{id}")) > 40, "{id}");
    }
    assert!(read("approver", "/v1/confirmations") > 40);
    let page = ask(server, Some("operator"), "GET", &format!("/console/sessions/{}", sessions[0]), "");
    assert!(page.body.contains("tell") && page.body.contains("class=\"masked\""), "{page:?}");
}

/// All that a webhook hears from a real Alertmanager when tools and sessions fail.
fn alerts(home: &Home, server: &Client) -> String {
    let Some(prometheus) = prometheus::current().filter(|_| have("prometheus-alertmanager")) else {
        return String::new();
    };
    let watchers = Watchers::start(&prometheus, home, server.address());
    wait_for("both alerts fire", || {
        session(server, "fetch");
        watchers.webhook.hears_both("firing").then_some(())
    });
    let heard = watchers.webhook.heard();
    let firing = heard.contains("\"alertname\":\"GlassboxToolErrorRateHigh\"") && heard.contains("\"tool\":\"fetch\"");
    assert!(firing, "{heard}");
    assert!(heard.contains("of the calls of tool fetch in the last 5 minutes failed"), "rendered: {heard}");
    heard
}
