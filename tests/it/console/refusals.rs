//! Why something is refused, in the language of the page; the API says it in English.

use super::{BLOCK, assert_page, home, visit::Visit};

#[test]
fn a_refusal_is_told_in_the_language_of_the_page() {
    let home = home("").variable("GLASSBOX__RATE_LIMITS__SESSIONS_PER_USER_PER_HOUR", "1");
    let server = home.serve();
    let visit = Visit::new(&server);
    assert_page(&visit.get("/console?lang=ru"), 200, &["<h1>Сессии</h1>"]);
    let empty = visit.post("/console/sessions", &[("task", " ")]);
    assert_page(&empty, 422, &["<p class=\"said\" lang=\"ru\">Задача пуста: напишите, что сделать.</p>"]);

    let begun = visit.post("/console/sessions", &[("task", BLOCK)]);
    let place = begun.header("location").unwrap().to_owned();
    let api = place.replace("/console", "/v1");
    server.get_until(&api, |answer| answer.json()["status"] == "awaiting_confirmation");
    let second = visit.post("/console/sessions", &[("task", BLOCK)]);
    let spent = "За последний час начато столько сессий, сколько можно: 1. Следующую можно начать через 59 мин ";
    assert_page(&second, 429, &["Сейчас невозможно", spent]);

    let action = format!("{place}/confirmations/call_1_1");
    let other = format!("sha256:{}", "0".repeat(64));
    let stale = visit.post(&action, &[("decision", "approve"), ("hash", &other)]);
    assert_page(&stale, 409, &["Решения ждут другие аргументы"]);
    let waits = server.get("/v1/confirmations").json();
    let hash = waits["confirmations"][0]["arguments_hash"].as_str().unwrap().to_owned();
    assert_eq!(visit.post(&action, &[("decision", "deny"), ("hash", &hash)]).status, 303);
    let late = visit.post(&action, &[("decision", "approve"), ("hash", &hash)]);
    assert_page(&late, 409, &["Решение по этому вызову уже принято: отклонено."]);

    let nowhere = format!("/console/sessions/sess_{}", "0".repeat(32));
    assert_page(&visit.get(&nowhere), 404, &["lang=\"ru\">Такой сессии нет.</p>"]);
    let own = format!("http://{}", server.address());
    let headers = [("content-type", "application/x-www-form-urlencoded"), ("origin", own.as_str())];
    let foreign = visit.send("POST", "/console/sessions", &headers, "task=hi&token=x");
    assert_page(&foreign, 403, &["Страница устарела, или форма не с этой консоли"]);
    let english = visit.get(&format!("{nowhere}?lang=en"));
    assert_page(&english, 404, &["<p class=\"said\" lang=\"en\">there is no session &#34;sess_"]);
    let refused = server.post("/v1/sessions", r#"{"task": " "}"#);
    assert_eq!((refused.status, &refused.json()["detail"]), (422, &"the task is empty; say what is to be done".into()));
}
