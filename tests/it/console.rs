//! The console at the built program: who sees which page, what its forms take, what browsers are
//! told, and the whole of it in a real browser.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod browser;
mod handovers;
mod refusals;
mod roles;
mod visit;

use serde_json::json;

use self::visit::Visit;
use crate::process::{Answer, Home};

const BLOCK: &str = "Заблокируй мою карту";
const EVIL: &str = "<script>alert(1)</script> <img src=x onerror=alert(2)> [a](javascript:alert(3)) \u{202e}txt.exe";

/// The bank without a login, its block of the card waiting for a person, with more configuration.
fn home(more: &str) -> Home {
    let config = glassbox::config::DEFAULT_YAML
        .replace("confirm: ask_customer", "confirm: suspend")
        .replace("console: # the pages for people at /console\n", &format!("console:\n  enabled: true\n{more}"));
    Home::configured(&config)
}

fn assert_page(answer: &Answer, status: u16, words: &[&str]) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{answer:?}");
    for word in words {
        assert!(answer.body.contains(word), "{word:?} is not in {}", answer.body);
    }
}

#[test]
fn every_answer_tells_the_browser_to_run_nothing_else() {
    let home = home("");
    let server = home.serve();
    let session = server.begin("hi");
    let visit = Visit::new(&server);
    let pages =
        ["", "/confirmations", "/handovers", "/circuits", "/no/such/page", "/sessions/nonsense", "?status=nonsense"];
    let pages = pages.map(|page| format!("/console{page}"));
    for path in pages.into_iter().chain([format!("/console/sessions/{session}")]) {
        let answer = visit.get(&path);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        for part in ["form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'", "connect-src 'self'"] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-store"),
            ("content-type", "text/html; charset=utf-8"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path} {name}");
        }
        assert!(answer.header("x-request-id").is_some(), "{path}");
        assert!(answer.body.starts_with("<!doctype html>"), "{}", answer.body);
        for inline in [" style=", "<style", "<script>", " onclick", " onload", "javascript:", "http://", "https://"] {
            assert!(!answer.body.contains(inline), "{path} holds {inline}: {}", answer.body);
        }
    }
    assert_eq!(visit.get("/console/no/such/page").status, 404);
    assert_eq!(visit.get("/console?status=nonsense").status, 400);
}

#[test]
fn texts_of_a_session_are_escaped_and_what_turns_them_is_seen() {
    let home = home("");
    let server = home.serve();
    let report = server.run(EVIL);
    let answer = Visit::new(&server).get(&format!("/console/sessions/{}", report["session_id"].as_str().unwrap()));
    let escaped = "&#60;script&#62;alert(1)&#60;/script&#62; &#60;img src=x onerror=alert(2)&#62; \
                   [a](javascript:alert(3)) [U+202E]txt.exe";
    assert_page(&answer, 200, &[escaped]);
    assert!(!answer.body.contains("<script>") && !answer.body.contains("<img src=x"), "{}", answer.body);
    assert!(!answer.body.contains('\u{202e}'));
}

#[test]
fn the_page_of_a_session_shows_its_steps_and_what_they_cost() {
    let home = home("");
    let server = home.serve();
    let report = server.run("Сколько я потратил на такси в сентябре?");
    let id = report["session_id"].as_str().unwrap();
    let page = Visit::new(&server).get(&format!("/console/sessions/{id}?lang=en"));
    assert_page(&page, 200, &["txn_sum", "2 поездки, 5000 ₸", "&#34;total_kzt&#34;:5000", id]);
    // Two model calls and the call of the tool between them.
    assert_eq!(page.body.matches("<details id=\"op-").count(), 3, "{}", page.body);
    let usage = |part: &str| report["usage"][part].as_u64().unwrap();
    let total = usage("input") + usage("output");
    assert!((500..1000).contains(&total), "the numbers below have no groups: {total}");
    let totals = [
        ("Steps", "2 / 15".to_owned()),
        ("Tokens", format!("{total} / 50\u{202f}000")),
        ("Tokens in", usage("input").to_string()),
        ("Tokens out", usage("output").to_string()),
    ];
    let journal = server.get(&format!("/v1/sessions/{id}/journal")).json();
    let ends =
        journal["facts"].as_array().unwrap().iter().map(|fact| &fact["fact"]["model_call_finished"]["end"]["usage"]);
    let ends: Vec<_> =
        ends.filter(|usage| usage.is_object()).map(|usage| ("Tokens in", usage["input"].to_string())).collect();
    assert_eq!(ends.len(), 2, "{journal}");
    for (name, value) in totals.iter().chain(&ends) {
        let shown = format!("<dt>{name}</dt><dd>{value}</dd>");
        assert!(page.body.contains(&shown), "{shown} is not in {}", page.body);
    }
    for bar in ["rect class=\"model\"", "rect class=\"tool\""] {
        assert!(page.body.contains(bar), "{bar}");
    }
    assert!(!page.body.contains("data-live"), "nothing more comes of a session that has ended");
}

#[test]
fn a_session_is_begun_confirmed_and_cancelled_by_forms() {
    let home = home("");
    let server = home.serve();
    let visit = Visit::new(&server);
    let begun = visit.post("/console/sessions", &[("task", BLOCK), ("agent", "bank"), ("conversation", "")]);
    assert_eq!(begun.status, 303, "{begun:?}");
    let place = begun.header("location").unwrap().to_owned();
    server.get_until(&place.replace("/console", "/v1"), |answer| answer.json()["status"] == "awaiting_confirmation");
    let hash =
        server.get("/v1/confirmations").json()["confirmations"][0]["arguments_hash"].as_str().unwrap().to_owned();
    assert_page(&visit.get("/console/confirmations"), 200, &["card_block", &hash, "{}"]);
    let action = format!("{place}/confirmations/call_1_1");

    let other = format!("sha256:{}", "0".repeat(64));
    let stale = visit.post(&action, &[("decision", "approve"), ("hash", &other)]);
    assert_page(&stale, 409, &["look at them again"]);
    assert_eq!(visit.post(&action, &[("decision", "approve")]).status, 422, "nobody agrees to what was not shown");
    assert_eq!(visit.post(&action, &[("hash", &hash)]).status, 422, "yes or no");
    let approved =
        visit.post(&action, &[("decision", "approve"), ("hash", &hash), ("comment", EVIL), ("from", "session")]);
    assert_eq!((approved.status, approved.header("location")), (303, Some(place.as_str())), "{approved:?}");
    server.get_until(&place.replace("/console", "/v1"), |answer| answer.json()["status"] == "done");
    let page = visit.get(&place);
    assert_page(&page, 200, &["approved", "&#60;script&#62;alert(1)"]);

    let begun = visit.post("/console/sessions", &[("task", BLOCK)]);
    let place = begun.header("location").unwrap().to_owned();
    let api = place.replace("/console", "/v1");
    server.get_until(&api, |answer| answer.json()["status"] == "awaiting_confirmation");
    assert_eq!(visit.post(&format!("{place}/cancel"), &[]).status, 303);
    server.get_until(&api, |answer| answer.json()["status"] == "cancelled");
    let wrong = visit.post("/console/sessions", &[("task", " ")]);
    assert_page(&wrong, 422, &["the task is empty"]);
}

#[test]
fn a_form_is_taken_from_a_page_of_this_console_only() {
    let home = home("");
    let server = home.serve();
    let (visit, other) = (Visit::new(&server), Visit::new(&server));
    let (token, foreign) = (visit.token(), other.token());
    let own = format!("http://{}", server.address());
    let form = ("content-type", "application/x-www-form-urlencoded");
    let routes = [
        "/sessions",
        "/circuits",
        "/handovers/hand_0",
        "/sign-in",
        "/sign-out",
        "/sessions/sess_0/cancel",
        "/sessions/sess_0/confirmations/c",
    ];
    for path in routes.map(|route| format!("/console{route}")) {
        for (origin, site, token, why) in [
            (Some(own.as_str()), None, None, "no token"),
            (Some(own.as_str()), None, Some(&foreign), "the token of another visit"),
            (None, None, Some(&token), "no word on where it comes from"),
            (Some("null"), None, Some(&token), "a page that hides where it is"),
            (Some("http://127.0.0.1:1"), None, Some(&token), "another port"),
            (Some(own.as_str()), Some("cross-site"), Some(&token), "another site"),
            (Some(own.as_str()), Some("same-site"), Some(&token), "a neighbour"),
        ] {
            let action = if path.contains("handovers") { "claim" } else { "reset" };
            let body = format!(
                "task=hi&kind=tool&name=txn_sum&action={action}&decision=deny&hash=x&key=x&token={}",
                token.map_or("", |token| token)
            );
            let mut headers = vec![form];
            headers.extend(origin.map(|origin| ("origin", origin)));
            headers.extend(site.map(|site| ("sec-fetch-site", site)));
            assert_page(&visit.send("POST", &path, &headers, &body), 403, &[]);
            if why == "no token" {
                let json = visit.send("POST", &path, &[("content-type", "application/json"), ("origin", &own)], "{}");
                assert_page(&json, 415, &[]);
            }
        }
    }
    assert_eq!(server.get("/v1/sessions").json()["sessions"], json!([]), "nothing began");
    let visited = visit.send(
        "POST",
        "/console/circuits",
        &[form, ("sec-fetch-site", "same-origin")],
        &format!("kind=tool&name=txn_sum&action=force_open&for=10m&token={token}"),
    );
    assert_eq!(visited.status, 303, "{visited:?}");
}

#[test]
fn without_a_login_only_loopback_names_lead_here() {
    let home = home("");
    let server = home.serve();
    for path in ["/console", "/console/assets/console.js", "/console/sign-in"] {
        let answer = server.request("GET", path, &[("host", "evil.example")], "");
        assert_page(&answer, 421, &["localhost"]);
    }
    assert_eq!(server.request("GET", "/console", &[("host", "localhost:1")], "").status, 200);
}

#[test]
fn whoever_comes_from_another_site_is_led_over_a_page_of_ours() {
    let home = home("");
    let server = home.serve();
    let from = |site: &str, cookie: &str| {
        server.request("GET", "/console?status=done", &[("sec-fetch-site", site), ("cookie", cookie)], "")
    };
    let led = from("cross-site", "");
    assert_eq!((led.status, led.header("refresh")), (200, Some("0;url=/console?status=done")), "{led:?}");
    assert_eq!(led.header("set-cookie"), None, "a cookie that was kept back stays what it is");
    assert!(!led.body.contains("<form"), "{}", led.body);
    let here = from("same-origin", "");
    assert!(here.header("refresh").is_none() && here.header("set-cookie").is_some(), "{here:?}");
    let known = format!("glassbox_console={}", "A".repeat(43));
    assert!(from("cross-site", &known).header("refresh").is_none());
}

#[test]
fn a_page_speaks_the_language_of_its_reader() {
    let home = home("");
    let server = home.serve();
    let visit = Visit::new(&server);
    let asked = |path: &str, accepts: &str| visit.send("GET", path, &[("accept-language", accepts)], "");
    assert_page(&asked("/console", "ru-RU,ru;q=0.9"), 200, &["<html lang=\"ru\">", "<h1>Сессии</h1>"]);
    assert_page(&asked("/console", "de"), 200, &["<html lang=\"en\">", "<h1>Sessions</h1>"]);
    assert_page(&asked("/console/circuits?lang=ru", "en"), 200, &["<h1>Предохранители</h1>"]);
    assert_page(&asked("/console", "en"), 200, &["<h1>Сессии</h1>"]);
    assert_page(&asked("/console?lang=en", "ru"), 200, &["<h1>Sessions</h1>", "href=\"/console?lang=ru\""]);
}

#[test]
fn style_and_script_are_kept_by_their_hash() {
    let home = home("");
    let server = home.serve();
    let page = server.get("/console");
    for name in ["console.css", "console.js", "icon.svg"] {
        let at = page.body.find(&format!("/console/assets/{name}?v=")).unwrap();
        let address = page.body[at..].split('"').next().unwrap();
        let answer = server.get(address);
        assert_eq!((answer.status, answer.header("set-cookie")), (200, None), "{answer:?}");
        assert_eq!(answer.header("cache-control"), Some("public, max-age=31536000, immutable"));
        let tag = answer.header("etag").unwrap();
        let again = server.request("GET", address, &[("if-none-match", tag)], "");
        assert_eq!((again.status, again.body.as_str()), (304, ""));
        let plain = server.get(&format!("/console/assets/{name}"));
        assert_eq!((plain.status, plain.header("cache-control")), (200, Some("no-cache")));
    }
    assert_eq!(server.get("/console/assets/session.html").status, 404);
}

#[test]
fn lists_are_filtered_and_paged() {
    let home = home("");
    let server = home.serve();
    let visit = Visit::new(&server);
    let rows = |path: &str| visit.get(path).body.matches("<a class=\"id\"").count();
    assert_page(&visit.get("/console"), 200, &["No sessions here yet."]);
    let body = |number: usize| {
        let kind = if number < 2 { "card" } else { "other" };
        json!({"task": "hi", "task_type": kind, "conversation_id": format!("c {}", number % 2)}).to_string()
    };
    for number in 0..51 {
        assert_eq!(server.post("/v1/sessions?wait=15s", &body(number)).status, 200);
    }
    let first = visit.get("/console");
    assert_eq!(first.body.matches("<a class=\"id\"").count(), 50);
    let at = first.body.find("before=sess_").unwrap();
    assert_eq!(rows(&format!("/console?{}", first.body[at..].split('"').next().unwrap())), 1);
    assert_eq!(rows("/console?conversation=c+1"), 25);
    assert_eq!((rows("/console?status=done&agent=bank&principal=C-001"), rows("/console?status=error")), (50, 0));
    assert_eq!((rows("/console?task_type=card&agent=bank"), rows("/console?task_type=spending")), (2, 0));
    assert_page(&visit.get("/console?task_type=card"), 200, &["<option selected>card</option>"]);
    assert!(first.body.contains("href=\"/console?conversation=c%200\""), "{}", first.body);
}

#[test]
fn a_follow_up_leads_to_the_session_before_it() {
    let home = home("");
    let server = home.serve();
    let talk = |task: &str| {
        let body = json!({"task": task, "conversation_id": "c-1"}).to_string();
        let report = server.post("/v1/sessions?wait=15s", &body).json();
        report["session_id"].as_str().unwrap().to_owned()
    };
    let (first, second) = (talk("Сколько я потратил на такси в сентябре?"), talk("hi"));
    let visit = Visit::new(&server);
    let link = format!("<dt>Follows</dt><dd><a class=\"id\" href=\"/console/sessions/{first}\">");
    assert_page(&visit.get(&format!("/console/sessions/{second}")), 200, &[&link]);
    assert!(!visit.get(&format!("/console/sessions/{first}")).body.contains("<dt>Follows</dt>"));
}

#[test]
fn links_lead_to_the_trace_and_the_dashboard_where_they_are_configured() {
    let links = "  links: {trace: 'http://127.0.0.1:16686/trace/{trace_id}', dashboard: 'https://grafana.example/d/x?var-agent={agent}'}\n";
    let home = home(links);
    let server = home.serve();
    let report = server.run("hi");
    let page = Visit::new(&server).get(&format!("/console/sessions/{}", report["session_id"].as_str().unwrap()));
    let trace = format!("href=\"http://127.0.0.1:16686/trace/{}\"", report["trace_id"].as_str().unwrap());
    assert_page(&page, 200, &[&trace, "href=\"https://grafana.example/d/x?var-agent=bank\""]);
}

#[test]
fn there_need_be_no_console() {
    let home = Home::configured(
        &glassbox::config::DEFAULT_YAML.replace("#   enabled: true # false: there are none", "  enabled: false"),
    );
    let server = home.serve();
    let answer = server.get("/console");
    assert_eq!((answer.status, answer.header("content-type")), (404, Some("application/problem+json")), "{answer:?}");
    assert!(!server.get("/openapi.json").body.contains("/console"), "pages are no part of the API");
}
