//! The whole stack after a bad day: a load run with faults, a kill in the middle of it, a restart.
//! Journal, event lines, raw Prometheus counters of each process life and the spans at a collector
//! are held against each other, session by session, and every difference is accounted for.
//!
//! Metrics of a life that was killed end with its last scrape. What it counted after that is gone,
//! and so is what was committed and not yet published. How much that may be is known exactly, for
//! each series: the journal is read just before and just after that scrape, and after the kill.
//! Spans are read back from a collector of the test, and from a real Jaeger.
//! Event lines that the killed process owed are written by the next: none is missing, and those
//! that come twice are the same.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod read_back;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
    fs,
    net::SocketAddr,
    path::Path,
};

use serde_json::Value;

use crate::{
    collector::{Collector, Manner},
    process::{Answer, Home, Running, Server},
    real_parts::jaeger,
    signals_agree::{
        count::{RequestModels, of_journal, of_scrape},
        evidence::{self, Counts, Evidence, Row, Seen},
        traces,
    },
};

/// How much there is of it: sessions a second and seconds.
struct Size {
    rate: &'static str,
    duration: &'static str,
    /// Sessions that have ended before the last scrape of the first life, and before the kill.
    scraped: u64,
    killed: u64,
}

const SMALL: Size = Size { rate: "20", duration: "4s", scraped: 20, killed: 40 };
const FULL: Size = Size { rate: "50", duration: "30s", scraped: 500, killed: 600 };

/// How many facts each stream holds: since they have no gaps, which ones.
type Places = BTreeMap<String, u64>;

/// All that is left of the day.
struct Day {
    first: FirstLife,
    /// The counters of the second life.
    second: String,
    /// What the load run says.
    report: Value,
    lines: Vec<Value>,
    /// Of those, how many came twice.
    repeated_lines: usize,
    journal: Vec<Row>,
}

/// What the test saw of the life that was killed.
struct FirstLife {
    /// The journal before its last scrape, all of which that scrape counts.
    before: Places,
    scrape: String,
    /// The journal after that scrape, beyond which it counts nothing.
    after: Places,
    /// The journal that it left behind.
    left: Places,
}

fn places(database: &Path) -> Places {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let conn = rusqlite::Connection::open_with_flags(database, flags).unwrap();
    let mut rows = conn.prepare("SELECT stream, count(*) FROM fact GROUP BY stream").unwrap();
    let read = rows.query_map([], |row| Ok((row.get(0)?, u64::try_from(row.get::<_, i64>(1)?).unwrap())));
    read.unwrap().map(Result::unwrap).collect()
}

/// Whether the store keeps that lines of these journals may be owed.
fn owes(database: &Path, left: &Places) -> bool {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let conn = rusqlite::Connection::open_with_flags(database, flags).unwrap();
    let mut rows = conn.prepare("SELECT stream FROM line_mark").unwrap();
    let mut streams = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
    streams.any(|stream| left.contains_key(&stream.unwrap()))
}

/// The facts that were there.
fn within<'a>(journal: &'a [Row], places: &'a Places) -> impl Iterator<Item = &'a Row> {
    journal.iter().filter(|row| row.seq < places.get(&row.stream).copied().unwrap_or_default())
}

fn value(metrics: &str, name: &str) -> u64 {
    let of_family = |line: &&str| line.split(['{', ' ']).next() == Some(name);
    let values = metrics.lines().filter(of_family).map(|line| line.rsplit(' ').next().unwrap());
    values.map(|value| value.parse::<u64>().unwrap()).sum()
}

fn ended(answer: &Answer) -> u64 {
    value(&answer.body, "glassbox_sessions_total")
}

fn home(endpoint: &str) -> Home {
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("GLASSBOX__RATE_LIMITS__SESSIONS_PER_USER_PER_HOUR", "unlimited"),
        ("GLASSBOX__SERVER__LEASE", "2s"),
        ("GLASSBOX__TELEMETRY__EVENTS", "events.jsonl"),
        ("GLASSBOX__LLM_RETRY_POLICY__INITIAL_DELAY_MS", "20"),
        ("GLASSBOX__TOOL_RETRY_POLICY__INITIAL_DELAY_MS", "20"),
        ("GLASSBOX__MODELS__BANK__INJECT__FAILURES", "0.1"),
        ("GLASSBOX__MODELS__BANK__INJECT__LATENCY", "150ms"),
        ("GLASSBOX__TOOLS__TXN_SUM__INJECT__FAILURES", "0.2"),
        ("GLASSBOX__TOOLS__TXN_SUM__INJECT__LATENCY", "50ms"),
        ("GLASSBOX__TOOLS__TXN_SUM__INJECT__SEED", "7"),
    ]
    .into_iter()
    .fold(Home::new(), |home, (name, value)| home.variable(name, value))
}

/// Watches the first life until enough has ended, and kills it.
fn first_life(server: Server<'_>, database: &Path, size: &Size) -> FirstLife {
    server.get_until("/metrics", |answer| ended(answer) >= size.scraped);
    let before = places(database);
    // A commit that came later says that what was committed before it is published.
    let committed: u64 = before.values().sum();
    server.get_until("/metrics", |answer| value(&answer.body, "glassbox_journal_facts_total") > committed);
    let scrape = server.get("/metrics").body;
    let after = places(database);
    server.get_until("/metrics", |answer| ended(answer) >= size.killed);
    server.process.signal("KILL");
    let finished = server.process.end();
    assert_eq!(finished.code, None, "it was killed: {}", finished.err);
    FirstLife { before, scrape, after, left: places(database) }
}

/// The second life: it takes up what the first one left and serves the rest of the load. Gives its
/// counters, and what the load run says.
fn second_life(home: &Home, address: SocketAddr, left: &Places, load: Running) -> (String, Value) {
    let server = home.serving(home.start(&["serve", "--listen", &address.to_string()]));
    let load = load.end();
    assert_eq!(load.code, Some(0), "{load:?}");
    for status in ["running", "suspended"] {
        let path = format!("/v1/sessions?status={status}");
        server.get_until(&path, |answer| answer.json()["sessions"].as_array().unwrap().is_empty());
    }
    let database = home.data().join("glassbox.db");
    // What the first life owed is written once nothing says that it is owed.
    server.get_until("/metrics", |_| !owes(&database, left));
    let journal = evidence::journal(&database);
    let finished = |rows: &mut dyn Iterator<Item = &Row>| rows.filter(|row| row.name == "session_finished").count();
    let own = finished(&mut journal.iter()) - finished(&mut within(&journal, left));
    // Kept is not yet published; the last end is published after all that was kept before it.
    let metrics = server.get_until("/metrics", |answer| ended(answer) == own as u64).body;
    let finished = server.stop();
    assert_eq!(finished.code, Some(0), "{}", finished.err);
    (metrics, serde_json::from_str(&load.out).unwrap())
}

/// Lines as readers take them, and how many came twice: repeats by session and place are dropped.
/// Repeats say the same.
fn lines(text: &str) -> (Vec<Value>, usize) {
    let mut places: HashMap<(String, u64), Value> = HashMap::new();
    let (mut lines, mut repeats) = (Vec::new(), 0);
    for line in evidence::lines(text) {
        let stream = if line["process_id"].is_null() { &line["session_id"] } else { &line["process_id"] };
        let place = (stream.as_str().unwrap().to_owned(), line["seq"].as_u64().unwrap());
        match places.get(&place) {
            Some(known) => {
                assert_eq!(*known, line, "a repeat says the same");
                repeats += 1;
            }
            None => {
                places.insert(place, line.clone());
                lines.push(line);
            }
        }
    }
    (lines, repeats)
}

/// Spans, each once. Around a crash one may come twice, and then byte for byte the same.
fn spans(collector: &Collector) -> (Vec<Seen>, usize) {
    let mut known: HashMap<String, Seen> = HashMap::new();
    let mut repeats = 0;
    for seen in evidence::spans(collector) {
        match known.get(&seen.id()) {
            Some(before) => {
                assert_eq!(before.span, seen.span, "a span that comes again is the same");
                repeats += 1;
            }
            None => _ = known.insert(seen.id(), seen),
        }
    }
    (known.into_values().collect(), repeats)
}

/// The ids of the spans that a session must have.
fn spans_of(journal: &[Row], stream: &str) -> BTreeSet<String> {
    let rows: Vec<_> = journal.iter().filter(|row| row.stream == stream).collect();
    let ends = rows.iter().filter(|row| row.name.ends_with("_call_finished"));
    let mut wanted: BTreeSet<_> = ends.map(|row| row.body["op"].as_str().unwrap().to_owned()).collect();
    wanted.insert(rows[0].body["trace"]["root"].as_str().unwrap().to_owned());
    wanted
}

/// Holds the counters of both lives against the journal. Gives the table of what differs.
fn account(journal: &[Row], first: &FirstLife, second: &str, models: &RequestModels) -> String {
    let count = |rows: Vec<&Row>| of_journal(rows, models).0;
    let all = count(journal.iter().collect());
    let of_first = count(within(journal, &first.left).collect());
    let least = count(within(journal, &first.before).collect());
    let most = count(within(journal, &first.after).collect());
    let (one, two) = (of_scrape(&first.scrape), of_scrape(second));
    let at = |counts: &Counts, series: &String| counts.get(series).copied().unwrap_or_default();
    let series: BTreeSet<&String> = all.keys().chain(one.keys()).chain(two.keys()).collect();
    let mut table = String::new();
    for name in series {
        // What the second life published is what it wrote, to the last increment.
        assert_eq!(at(&two, name), at(&all, name) - at(&of_first, name), "{name} in the second life");
        let scraped = at(&one, name);
        assert!(scraped >= at(&least, name), "{name}: {scraped} scraped, {} were published", at(&least, name));
        assert!(scraped <= at(&most, name), "{name}: {scraped} scraped, {} were committed", at(&most, name));
        let difference = at(&all, name) - scraped - at(&two, name);
        if difference > 0 {
            let unseen = at(&of_first, name) - scraped;
            assert_eq!(difference, unseen, "{name}: what differs is what the killed life wrote after its last scrape");
            _ = writeln!(table, "{:>7} {scraped:>7} {:>7} {difference:>7}  {name}", at(&all, name), at(&two, name));
        }
    }
    table
}

/// One line a session: how much of it each signal holds. That they agree is checked elsewhere.
fn session_by_session(evidence: &Evidence) -> String {
    let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for row in evidence.journal.iter().filter(|row| row.stream.starts_with("sess_")) {
        counts.entry(&row.stream).or_default()[0] += 1;
    }
    for session in evidence.lines.iter().filter_map(|line| line["session_id"].as_str()) {
        counts.entry(session).or_default()[1] += 1;
    }
    let mut table = String::new();
    for (session, [facts, lines]) in counts {
        let trace = session.trim_start_matches("sess_");
        let have = evidence.spans.iter().filter(|seen| seen.own && seen.trace() == trace).map(Seen::id);
        let (have, wanted) = (have.collect::<BTreeSet<_>>(), spans_of(&evidence.journal, session));
        let differ = have.symmetric_difference(&wanted).count();
        _ = writeln!(table, "{session} {facts:>6} {lines:>6} {:>6} {differ:>7}", have.len());
        assert_eq!(differ, 0, "{session}: {have:?} and not {wanted:?}");
    }
    table
}

fn size() -> Size {
    if std::env::var_os("GLASSBOX_TEST_FULL").is_some() { FULL } else { SMALL }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_signal_agrees_after_load_faults_a_kill_and_a_restart() {
    let collector = Collector::start(Manner::Accept).await;
    let endpoint = collector.http();
    let day = tokio::task::spawn_blocking(move || live(&endpoint, &size())).await.unwrap();
    let (spans, repeats) = spans(&collector);
    println!("{}", agree(day, spans, repeats));
}

#[test]
fn a_real_jaeger_agrees_with_every_signal_after_such_a_day() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/jaeger/jaeger.yaml");
    let Some(jaeger) = jaeger(&shipped) else { return };
    let day = live(&jaeger.http(), &size());
    let (spans, repeats) = read_back::spans(&jaeger, &day.journal);
    println!("{}", agree(day, spans, repeats));
}

/// Holds all of it against each other; gives what is to be told of it.
fn agree(day: Day, spans: Vec<Seen>, repeats: usize) -> String {
    let Day { first, second, report, lines, repeated_lines, journal } = day;
    let evidence = Evidence { lines, journal, metrics: second, spans };

    let mut told = String::new();
    let stage = &report["stages"][0];
    assert_eq!(stage["lost"], Value::Array(Vec::new()), "{stage:#}");
    let table = account(&evidence.journal, &first, &evidence.metrics, &RequestModels::from([("bank", "bank")]));

    let of = |name: &'static str| evidence.journal.iter().filter(move |row| row.name == name);
    let (begun, over) = (of("session_started").count(), of("session_finished").count());
    assert_eq!(begun, over, "every session has its end");
    let roots = evidence.spans.iter().filter(|seen| seen.own && seen.parent().is_empty()).count();
    assert_eq!(roots, begun, "and its root");
    let resumed: BTreeSet<_> = of("session_resumed").map(|row| &row.stream).collect();
    assert!(!resumed.is_empty(), "the kill came in the middle of some");
    assert!(!table.is_empty(), "and after the last scrape");
    _ = writeln!(
        told,
        "{begun} sessions in journal, lines and traces, {} of them resumed after the kill",
        resumed.len()
    );
    _ = writeln!(
        told,
        "{} facts, {} lines, {} spans ({repeats} came twice)",
        evidence.journal.len(),
        evidence.lines.len(),
        evidence.spans.len()
    );
    _ = writeln!(
        told,
        "each session:                         facts  lines  spans  differ\n{}",
        session_by_session(&evidence)
    );
    _ = writeln!(told, "event lines missing: 0; {repeated_lines} came twice");
    _ = writeln!(told, "counters that differ, all by what the killed process wrote after its last scrape:");
    _ = writeln!(told, "journal  life 1  life 2 differ   series\n{table}");
    traces::lines_tell_of_the_journal(&evidence);
    traces::spans_tell_of_the_lines(&evidence);
    _ = writeln!(told, "all other series, and all facts, lines and spans: difference 0");
    told
}

fn live(endpoint: &str, size: &Size) -> Day {
    let home = home(endpoint);
    let database = home.data().join("glassbox.db");
    let server = home.serve();
    let address = server.address();
    let url = format!("http://{address}");
    let load = home.start(&[
        "load",
        "--json",
        "--server",
        &url,
        "--rate",
        size.rate,
        "--duration",
        size.duration,
        "--warm-up",
        "0s",
    ]);
    let first = first_life(server, &database, size);
    let (second, report) = second_life(&home, address, &first.left, load);
    let (lines, repeated_lines) = lines(&fs::read_to_string(home.path("events.jsonl")).unwrap());
    // A process says that it stopped after its last scrape.
    let journal = evidence::journal(&database).into_iter().filter(|row| row.name != "process_stopped").collect();
    Day { first, second, report, lines, repeated_lines, journal }
}
