//! The page of hand-overs: operators claim and close there, to others it is not there.

use serde_json::json;

use super::{assert_page, roles::signed_in, visit::Visit};
use crate::{
    auth::{ask, bank},
    process::{Client, Home},
};

/// The bank, with a single step for every session: whoever asks for a sum is handed over.
fn hasty() -> Home {
    bank("").variable("GLASSBOX__AGENTS__BANK__LIMITS__MAX_ITERATIONS", "1")
}

/// A session of the owner that ends without its answer: its id, and that of its hand-over.
fn hand_over(client: &Client) -> (String, String) {
    let task = json!({"task": "Сколько я потратил на такси в сентябре?"}).to_string();
    let begun = ask(client, Some("owner"), "POST", "/v1/sessions?wait=15s", &task).json();
    assert_eq!(begun["status"], "max_iterations", "{begun}");
    let listed = ask(client, Some("operator"), "GET", "/v1/handovers?limit=1", "").json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let session = text(&begun["session_id"]);
    assert_eq!(listed["handovers"][0]["session_id"], json!(session));
    (session, text(&listed["handovers"][0]["handover_id"]))
}

fn rows(visit: &Visit, query: &str) -> usize {
    visit.get(&format!("/console/handovers{query}")).body.matches("<td class=\"state\">").count()
}

#[test]
fn an_operator_claims_and_closes_hand_overs() {
    let home = hasty();
    let server = home.serve();
    let visit = signed_in(&server, "operator");
    let empty = visit.get("/console/handovers");
    assert_page(&empty, 200, &["Nothing is handed over here.", "aria-current=\"page\">Hand-overs"]);
    assert!(!empty.body.contains("class=\"count\""), "{}", empty.body);
    let (first, second) = (hand_over(&server), hand_over(&server));
    let page = visit.get("/console/handovers");
    let shown = ["<code>session_ended</code>", "bank · C-001", "&#60; 1 min", ">2</span>"];
    assert_page(&page, 200, &shown);
    assert!(page.body.find(&second.1).unwrap() < page.body.find(&first.1).unwrap(), "newest first");
    assert!(page.body.contains(&format!("href=\"/console/sessions/{}\"", first.0)));

    let place = format!("/console/handovers/{}", first.1);
    let claimed = visit.post(&place, &[("action", "claim"), ("comment", "<b>I call</b>"), ("status", "open")]);
    assert_eq!((claimed.status, claimed.header("location")), (303, Some("/console/handovers?status=open")));
    assert_eq!(
        ["?status=open", "?status=claimed", "?status=closed", ""].map(|query| rows(&visit, query)),
        [1, 1, 0, 2]
    );
    let one = visit.get(&format!("/console/handovers?id={}&lang=ru", first.1));
    assert_page(&one, 200, &["<h1>Передачи</h1>", "взята: ops-1", "· &#60;b&#62;I call&#60;/b&#62;", ">1</span>"]);
    assert!(!one.body.contains("value=\"claim\"") && one.body.contains("value=\"close\""), "{}", one.body);

    let closed = visit.post(&place, &[("action", "close"), ("comment", "done"), ("id", &first.1)]);
    let back = format!("/console/handovers?id={}", first.1);
    assert_eq!((closed.status, closed.header("location")), (303, Some(back.as_str())));
    assert!(!visit.get(&back).body.contains("name=\"action\""), "nothing is left to do");
    assert_page(&visit.post(&place, &[("action", "claim")]), 409, &["Передача уже закрыта."]);
    let long = "я".repeat(2001);
    assert_eq!(visit.post(&place, &[("action", "close"), ("comment", &long)]).status, 422);
    assert_eq!(visit.get("/console/handovers?status=lost").status, 400);
    assert_eq!(visit.get("/console/handovers?before=lost").status, 404);
    let told = ask(&server, Some("operator"), "GET", "/v1/handovers?status=closed", "").json();
    assert_eq!(
        (&told["handovers"][0]["claimed"]["comment"], &told["handovers"][0]["closed"]["by"]),
        (&json!("<b>I call</b>"), &json!("ops-1"))
    );
}

#[test]
fn the_page_of_a_session_says_what_was_handed_over_and_leads_operators_there() {
    let home = hasty();
    let server = home.serve();
    let (session, handover) = hand_over(&server);
    let link = format!("href=\"/console/handovers?id={handover}\"");
    for (who, leads) in [("operator", true), ("owner", false)] {
        let page = signed_in(&server, who).get(&format!("/console/sessions/{session}"));
        assert_page(&page, 200, &["handed over to a person: <code>session_ended</code>"]);
        assert_eq!(page.body.contains(&link), leads, "{who}: {}", page.body);
    }
}

#[test]
fn to_others_hand_overs_look_like_a_page_that_is_not_there() {
    let home = hasty();
    let server = home.serve();
    let (_, handover) = hand_over(&server);
    for who in ["owner", "other", "approver"] {
        let visit = signed_in(&server, who);
        let (page, none) = (visit.get("/console/handovers"), visit.get("/console/no/such/page"));
        assert_page(&page, 404, &[]);
        assert_eq!(page.body.replace("/console/handovers", "/console/no/such/page"), none.body, "{who}");
        assert!(!visit.get("/console").body.contains("/console/handovers"), "{who}");
        assert_eq!(visit.post(&format!("/console/handovers/{handover}"), &[("action", "close")]).status, 404, "{who}");
    }
    assert_eq!(Visit::new(&server).get("/console/handovers").status, 303, "nobody signed in");
    assert_eq!(ask(&server, Some("operator"), "GET", "/v1/handovers", "").json()["handovers"][0]["status"], "open");
}
