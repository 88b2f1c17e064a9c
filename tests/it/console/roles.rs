//! The console with a login: signing in and out, and who sees what.

use serde_json::json;

use super::{Visit, assert_page};
use crate::{
    auth::{ask, bank, key, waiting},
    process::Client,
};

/// Nobody, the session's owner, another user, an approver, an operator.
const WHO: [Option<&str>; 5] = [None, Some("owner"), Some("other"), Some("approver"), Some("operator")];

/// A browser that signed in as this caller.
pub(super) fn signed_in(client: &Client, caller: &str) -> Visit {
    let visit = Visit::new(client);
    let answer = visit.post("/console/sign-in", &[("key", &key(caller))]);
    assert_eq!((answer.status, answer.header("location")), (303, Some("/console")), "{answer:?}");
    visit
}

#[test]
fn a_key_signs_in_and_is_nowhere_afterwards() {
    let home = bank("");
    let server = home.serve();
    let visit = Visit::new(&server);
    let led = visit.get("/console?status=done");
    let sign_in = "/console/sign-in?next=/console%3Fstatus%3Ddone";
    assert_eq!((led.status, led.header("location")), (303, Some(sign_in)), "{led:?}");
    assert_page(&visit.get(sign_in), 200, &["name=\"key\"", "value=\"/console?status=done\""]);
    let wrong = visit.post("/console/sign-in", &[("key", "gbx_AAAA"), ("next", "/console/circuits")]);
    assert_page(&wrong, 403, &["This API key is not known.", "value=\"/console/circuits\""]);
    assert!(!wrong.body.contains("gbx_AAAA"), "what was tried is not shown again");

    let before = visit.cookies.borrow()["glassbox_console"].clone();
    let (key, fields) = (key("owner"), |next: &'static str| [("key", key("owner")), ("next", next.to_owned())]);
    let fields = fields("//evil.example");
    let entered = visit.post("/console/sign-in", &fields.each_ref().map(|(name, value)| (*name, value.as_str())));
    assert_eq!((entered.status, entered.header("location")), (303, Some("/console")), "{entered:?}");
    let cookie = entered.header("set-cookie").unwrap();
    for part in ["; Path=/console", "; HttpOnly", "; SameSite=Strict", "; Max-Age=28800"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "this browser came by http");
    let after = visit.cookies.borrow()["glassbox_console"].clone();
    assert!(after != before && !after.contains(&key[4..20]), "{after}");
    assert_page(&visit.get("/console"), 200, &["C-001", "Sign out"]);
    for path in ["/console", "/v1/sessions"] {
        let old = server.request("GET", path, &[("cookie", &format!("glassbox_console={before}"))], "");
        assert!([303, 401].contains(&old.status), "a cookie from before the sign-in opens nothing: {old:?}");
    }
    let api = server.request("GET", "/v1/sessions", &[("cookie", &format!("glassbox_console={after}"))], "");
    assert_eq!(api.status, 401, "the cookie is for pages only");

    assert_eq!(visit.post("/console/sign-out", &[]).status, 303);
    let left = server.request("GET", "/console", &[("cookie", &format!("glassbox_console={after}"))], "");
    assert_eq!(left.status, 303, "{left:?}");
}

#[test]
fn a_sign_in_by_https_has_a_cookie_for_https() {
    let home = bank("");
    let server = home.serve();
    let visit = Visit::new(&server);
    let (token, key) = (visit.token(), key("owner"));
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("host", "console.bank.example"),
        ("origin", "https://console.bank.example"),
    ];
    let entered = visit.send("POST", "/console/sign-in", &headers, &format!("token={token}&key={key}"));
    assert!(entered.header("set-cookie").unwrap().ends_with("; Secure"), "{entered:?}");
}

#[test]
fn pages_show_each_caller_what_the_api_shows() {
    let home = bank("");
    let server = home.serve();
    let session = waiting(&server);
    let visits = WHO.map(|who| who.map_or_else(|| Visit::new(&server), |who| signed_in(&server, who)));
    let place = format!("/console/sessions/{session}");
    let hash = format!("sha256:{}", "0".repeat(64));
    let decide = [("decision", "approve"), ("hash", hash.as_str())];
    let switch = [("kind", "tool"), ("name", "txn_sum"), ("action", "reset")];
    let get = |path: &str| visits.each_ref().map(|visit| visit.get(path).status);
    let post = |path: &str, fields: &[(&str, &str)]| visits.each_ref().map(|visit| visit.post(path, fields).status);
    assert_eq!(get("/console"), [303, 200, 200, 200, 200]);
    assert_eq!(get("/console?principal=C-001"), [303, 200, 403, 403, 200]);
    assert_eq!(get("/console/circuits"), [303, 200, 200, 200, 200]);
    assert_eq!(get("/console/confirmations"), [303, 200, 200, 200, 200]);
    assert_eq!(get(&place), [303, 200, 404, 404, 200]);
    // Who may see the session would be told for as long as it waits.
    assert_eq!([2, 3].map(|who| visits[who].get(&format!("{place}/live")).status), [404, 404]);
    assert_eq!(get("/console/assets/console.js"), [200; 5]);
    assert_eq!(post("/console/circuits", &switch), [401, 403, 403, 403, 303]);
    // Those who decide here agree to other arguments than those that wait.
    assert_eq!(post(&format!("{place}/confirmations/call_1_1"), &decide), [401, 409, 404, 409, 403]);
    assert_eq!(post(&format!("{place}/cancel"), &[]), [401, 303, 404, 404, 303]);
    assert_eq!(post("/console/sessions", &[("task", "hi")]), [401, 303, 303, 303, 303]);
    let missing = format!("/console/sessions/sess_{}", "0".repeat(32));
    let (foreign, none) = (visits[2].get(&place), visits[2].get(&missing));
    assert_eq!(foreign.body.replace(&session, "ID"), none.body.replace(&missing[18..], "ID"), "both look the same");
}

#[test]
fn a_call_is_shown_to_whoever_decides_on_it() {
    let home = bank("");
    let server = home.serve();
    let session = waiting(&server);
    let page = |who: &str| signed_in(&server, who).get("/console/confirmations").body;
    let (owner, other, approver, operator) = (page("owner"), page("other"), page("approver"), page("operator"));
    for decides in [&owner, &approver] {
        assert!(decides.contains("value=\"approve\"") && decides.contains("<pre class=\"said\""), "{decides}");
    }
    assert!(owner.contains(&format!("href=\"/console/sessions/{session}\"")));
    assert!(!approver.contains(&format!("href=\"/console/sessions/{session}\"")), "the session is not the approver's");
    assert!(operator.contains(&session) && operator.contains("Others decide on this."), "{operator}");
    assert!(!operator.contains("value=\"approve\"") && !operator.contains("<pre class=\"said\""), "{operator}");
    assert!(other.contains("Nothing waits for a person.") && !other.contains(&session));
}

#[test]
fn texts_are_hidden_from_those_whose_they_are_not() {
    const WORD: &str = "Сколько я потратил на такси";
    for (content, [owner, operator]) in [("owner", [true, false]), ("operators", [true, true]), ("off", [false, false])]
    {
        let home = bank("").variable("GLASSBOX__CONSOLE__CONTENT", content);
        let server = home.serve();
        let task = json!({"task": format!("{WORD} в сентябре?")}).to_string();
        let begun = ask(&server, Some("owner"), "POST", "/v1/sessions?wait=15s", &task).json();
        let place = format!("/console/sessions/{}", begun["session_id"].as_str().unwrap());
        for (who, reads) in [("owner", owner), ("operator", operator)] {
            let page = signed_in(&server, who).get(&place);
            assert_page(&page, 200, &["txn_sum", "<dt>Tokens in</dt>"]);
            for text in [WORD, "5000 ₸", "&#34;month&#34;", "total_kzt"] {
                assert_eq!(page.body.contains(text), reads, "{content}: {who} and {text:?}: {}", page.body);
            }
            assert_eq!(page.body.contains("class=\"masked\""), !reads, "{content}: {who}");
        }
    }
}

#[test]
fn a_credential_in_a_header_opens_pages_too() {
    let home = bank("");
    let server = home.serve();
    assert_page(&ask(&server, Some("operator"), "GET", "/console", ""), 200, &["ops-1"]);
    let wrong = server.request("GET", "/console", &[("authorization", "Bearer gbx_AAAA")], "");
    assert_page(&wrong, 401, &["this API key is not known"]);
    assert!(wrong.header("www-authenticate").unwrap().contains("invalid_token"), "{wrong:?}");
}

#[test]
fn an_open_page_hears_that_there_is_something_new_and_no_word_of_it() {
    let home = bank("");
    let server = home.serve();
    let session = waiting(&server);
    let visit = signed_in(&server, "operator");
    let path = format!("/console/sessions/{session}/live");
    let cookie = visit.cookies.borrow().iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    let (client, cookie) = (*server, cookie.join("; "));
    let heard = std::thread::spawn(move || client.request("GET", &path, &[("cookie", &cookie)], ""));
    // Whether it listens before the end or after, it hears of the end.
    assert_eq!(ask(&server, Some("owner"), "POST", &format!("/v1/sessions/{session}/cancel"), "").status, 202);
    let heard = heard.join().unwrap();
    if heard.status == 200 {
        assert_eq!(heard.header("content-type"), Some("text/event-stream"), "{heard:?}");
        let words: Vec<_> = heard.body.lines().filter(|line| !line.is_empty() && !line.starts_with(':')).collect();
        assert_eq!(words[words.len() - 2], "event: ended", "{words:?}");
        let is_bare = |line: &&str| {
            ["event: changed", "event: ended"].contains(line)
                || line.strip_prefix("data: ").is_some_and(|data| data.parse::<u64>().is_ok())
        };
        assert!(words.iter().all(is_bare), "{words:?}");
    } else {
        assert_eq!(heard.status, 204, "{heard:?}");
    }
}
