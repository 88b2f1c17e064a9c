//! Who may begin a session now, at the built program: limits of each caller and of all, the header
//! fields that tell of them, and a journal that is behind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    io::Write as _,
    net::TcpStream,
    sync::{Barrier, mpsc},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::process::{Answer, Client, Home};

/// An agent that thinks for ever, and the bank.
const CONFIG: &str = "
agents:
  slow: {system_prompt: x, model: slow, language: en, tools: [txn_sum], task_types: [other], limits: {token_budget: 50000}}
  bank: {system_prompt: x, model: bank, language: ru, tools: [txn_sum], task_types: [spending], limits: {token_budget: 50000}}
models:
  slow: {provider: scripted, script: slow.yaml}
  bank: {provider: scripted, script: bank}
tools:
  txn_sum: {builtin: txn_sum, scopes: [spending:read]}
auth:
  default_principal: {id: C-001, scopes: [spending:read]}
";
const SLOW: &str = "
name: slow
rules:
  - delay: 1h
    text: Never.
";

fn home(more: &str) -> Home {
    let home = Home::configured(&format!("{CONFIG}{more}"));
    home.write("slow.yaml", SLOW);
    home
}

fn begin(client: &Client, agent: &str) -> Answer {
    client.post("/v1/sessions", &json!({"agent": agent, "task": "Сколько на такси?"}).to_string())
}

fn counted(client: &Client, limit: &str) -> u64 {
    let text = client.get("/metrics").body;
    let series = format!("glassbox_rate_limited_total{{limit=\"{limit}\"}} ");
    text.lines().find_map(|line| line.strip_prefix(&series)).expect("born at zero").parse().unwrap()
}

/// Refusals in the system journals, each with how many it stands for.
fn refusals(home: &Home) -> Vec<(String, u64)> {
    let file = rusqlite::Connection::open(home.data().join("glassbox.db")).unwrap();
    let sql = "SELECT body FROM fact WHERE name = 'rate_limited' AND stream LIKE 'proc_%' ORDER BY seq";
    let bodies: Vec<String> =
        file.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    let read = |body: &String| {
        let fact = serde_json::from_str::<Value>(body).unwrap()["rate_limited"].clone();
        (fact["limit"].as_str().unwrap().to_owned(), fact["times"].as_u64().unwrap_or(1))
    };
    bodies.iter().map(read).collect()
}

#[test]
fn a_caller_runs_as_many_at_once_as_it_may() {
    let home = home("rate_limits: {concurrent_sessions_per_user: 2, sessions_per_user_per_hour: unlimited}\n");
    let server = home.serve();
    let answers = [(); 3].map(|()| begin(&server, "slow"));
    assert_eq!(answers.each_ref().map(|answer| answer.status), [202, 202, 429]);
    let policy = "\"concurrent-sessions\";q=2;qu=\"concurrent-requests\"";
    assert!(answers.iter().all(|answer| answer.header("ratelimit-policy") == Some(policy)), "{answers:?}");
    let left = answers.each_ref().map(|answer| answer.header("ratelimit").unwrap().to_owned());
    let expected = ["1", "0", "0"].map(|left| format!("\"concurrent-sessions\";r={left}"));
    assert_eq!(left, expected);
    assert_eq!(answers[2].header("retry-after"), Some("1"));
    assert!(answers[2].json()["detail"].as_str().unwrap().starts_with("2 sessions of this caller run already"));
    until(|| counted(&server, "concurrent_sessions_per_user") == 1);

    let session = answers[0].json()["session_id"].as_str().unwrap().to_owned();
    assert_eq!(server.post(&format!("/v1/sessions/{session}/cancel"), "").status, 202);
    server.get_until(&format!("/v1/sessions/{session}"), |answer| answer.json()["status"] == "cancelled");
    until(|| begin(&server, "slow").status == 202);
}

#[test]
fn of_many_at_once_no_more_begin_than_may() {
    let home = home("rate_limits: {concurrent_sessions_per_user: 3}\n");
    let server = home.serve();
    assert_eq!(at_once(*server, "slow", 12), [vec![202; 3], vec![429; 9]].concat());
}

#[test]
fn what_is_left_of_an_hour_is_told_and_runs_out() {
    let home = home("rate_limits: {sessions_per_user_per_hour: 2}\n");
    let server = home.serve();
    let answers = [(); 3].map(|()| begin(&server, "bank"));
    assert_eq!(answers.each_ref().map(|answer| answer.status), [202, 202, 429]);
    for (answer, left) in answers.iter().zip([1, 0, 0]) {
        assert_eq!(answer.header("ratelimit-policy"), Some("\"sessions-per-hour\";q=2;w=3600"));
        let told = answer.header("ratelimit").unwrap();
        let seconds =
            told.strip_prefix(&format!("\"sessions-per-hour\";r={left};t=")).unwrap_or_else(|| panic!("{told}"));
        assert!((3500..=3600).contains(&seconds.parse::<u32>().unwrap()), "{told}");
    }
    let wait: u32 = answers[2].header("retry-after").unwrap().parse().unwrap();
    assert!((3500..=3600).contains(&wait), "{wait}");
    until(|| counted(&server, "sessions_per_user") == 1);
    assert_eq!(server.get("/v1/sessions").header("ratelimit"), None, "only where sessions are begun");
    let unlimited = home_without_limits();
    let server = unlimited.serve();
    assert_eq!(begin(&server, "bank").header("ratelimit"), None, "no limit, nothing to tell");
}

/// Asks at the same moment as others, so many of them.
fn at_once(client: Client, agent: &'static str, many: usize) -> Vec<u16> {
    let start = Barrier::new(many);
    let ask = || {
        start.wait();
        begin(&client, agent).status
    };
    let mut got: Vec<u16> = thread::scope(|scope| {
        let threads: Vec<_> = (0..many).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    got.sort_unstable();
    got
}

fn begun(client: &Client) -> usize {
    client.get("/v1/sessions").json()["sessions"].as_array().unwrap().len()
}

#[test]
fn of_many_at_once_exactly_as_many_begin_as_an_hour_allows() {
    let home = home("rate_limits: {sessions_per_user_per_hour: 7}\n");
    let server = home.serve();
    assert_eq!(at_once(*server, "bank", 24), [vec![202; 7], vec![429; 17]].concat());
    assert_eq!(begun(&server), 7);
}

#[test]
fn a_caller_that_goes_away_keeps_nobody_waiting_and_gets_no_more_than_its_hour() {
    let home = home("rate_limits: {sessions_per_user_per_hour: 7}\n");
    let server = home.serve();
    let body = json!({"agent": "bank", "task": "hi"}).to_string();
    for _ in 0..5 {
        let mut caller = TcpStream::connect(server.address()).unwrap();
        write!(
            caller,
            "POST /v1/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
    }
    let got = at_once(*server, "bank", 24);
    let (let_in, refused): (Vec<u16>, Vec<u16>) = got.into_iter().partition(|status| *status == 202);
    assert!((2..=7).contains(&let_in.len()) && refused.iter().all(|status| *status == 429), "{refused:?}");
    assert_eq!(begin(&server, "bank").status, 429, "nobody is waited for in vain");
    until(|| begun(&server) == 7);
}

fn home_without_limits() -> Home {
    home("rate_limits: {sessions_per_user_per_hour: unlimited}\n")
}

#[test]
fn a_full_service_counts_whom_it_sends_away() {
    let home = home("server: {max_sessions: 1, grace_period: 1s}\n");
    let server = home.serve();
    assert_eq!(begin(&server, "slow").status, 202);
    let refused = [(); 5].map(|()| begin(&server, "slow"));
    assert!(
        refused.iter().all(|answer| (answer.status, answer.header("retry-after")) == (503, Some("1"))),
        "{refused:?}"
    );
    server.stop();
    let written = refusals(&home);
    assert!(written.iter().all(|(limit, _)| limit == "max_sessions"), "{written:?}");
    assert_eq!(written.iter().map(|(_, times)| times).sum::<u64>(), 5, "{written:?}");
}

#[test]
fn while_the_journal_is_behind_new_sessions_are_sent_away_and_those_there_go_on() {
    let home = home("server: {shed_above: {commit_time: 10ms}}\n");
    let server = home.serve();
    let client: Client = *server;
    // Whoever holds the file makes the commits of the service wait.
    let file = rusqlite::Connection::open(home.data().join("glassbox.db")).unwrap();
    file.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (sender, answers) = mpsc::channel();
    let mut admitted = Vec::new();
    let refused = loop {
        assert!(admitted.len() < 40, "nobody is sent away");
        let sender = sender.clone();
        admitted.push(thread::spawn(move || sender.send(begin(&client, "bank")).unwrap()));
        // Those that were let in hear nothing before their session is durable.
        if let Ok(answer) = answers.recv_timeout(Duration::from_millis(100)) {
            break answer;
        }
    };
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    assert!(refused.json()["detail"].as_str().unwrap().starts_with("the service is behind"), "{refused:?}");
    file.execute_batch("COMMIT").unwrap();
    let begun = admitted.len() - 1;
    admitted.into_iter().for_each(|thread| thread.join().unwrap());
    let rest: Vec<Answer> = answers.try_iter().collect();
    assert_eq!(rest.iter().map(|answer| answer.status).collect::<Vec<_>>(), vec![202; begun], "{rest:?}");
    for answer in rest {
        let session = answer.json()["session_id"].as_str().unwrap().to_owned();
        server.get_until(&format!("/v1/sessions/{session}"), |answer| answer.json()["status"] == "done");
    }
    until(|| begin(&server, "bank").status == 202);
    until(|| counted(&server, "overload") >= 1);
}

/// Asks again until it is so.
fn until(wanted: impl Fn() -> bool) {
    for _ in 0..1000 {
        if wanted() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("it never becomes so");
}
