//! The whole way of an alert: the service under load, a real Prometheus that scrapes it with the
//! rules of `deploy/`, a real Alertmanager, a webhook. The windows are sixty times shorter than in
//! production, nothing else is changed. Then every query of every rule and dashboard is asked.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    collections::BTreeSet,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc, Mutex,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    process::{Client, Home, Running, have},
    prometheus::{self, Prometheus},
    promql::{self, Selector, dashboards, is_coming, list, queries, rules, selectors, shorten},
};

/// How many times shorter every window is.
const TIMES: u64 = 60;
/// The longest that one turn of the story may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time between the ends of two sessions.
const PACE: Duration = Duration::from_millis(50);
/// The two alerts of the seed.
const ALERTS: [&str; 2] = ["GlassboxToolErrorRateHigh", "GlassboxSessionSuccessLow"];

const CONFIG: &str = "
agents:
  bank: {system_prompt: Hello., model: sums, fallback: spare, language: en, tools: [txn_sum, card_block], task_types: [spending], limits: {token_budget: 50000}}
models:
  sums: {provider: scripted, script: sums.yaml}
  spare: {provider: scripted, script: sums.yaml}
tools:
  txn_sum: {builtin: txn_sum, scopes: [spending:read], timeout: 250ms}
  card_block: {builtin: card_block, scopes: [card:block]}
tool_retry_policy: {max_attempts: 1}
circuit_breaker: {window_seconds: 3, half_open_after: 1}
rate_limits: {sessions_per_user_per_hour: unlimited}
auth:
  default_principal: {id: C-001, scopes: [spending:read, card:block]}
telemetry: {events: none}
";

/// Asks for the sum until it gets it.
const SCRIPT: &str = "
name: sums
rules:
  - when: {last: tool_result}
    text: '{{ result.total_kzt }} tenge.'
  - call: {tool: txn_sum, arguments: {category: taxi, month: '2026-09'}}
";

/// Queries that have nothing to say in a test of half a minute, and why.
const NOTHING: &[(&str, &str)] = &[("offset 1d", "there is no yesterday")];

/// Prometheus, Alertmanager and the webhook behind it.
pub(crate) struct Watchers {
    prometheus: Client,
    pub(crate) webhook: Webhook,
    /// They end with this value.
    _processes: [Running; 2],
}

/// What the webhook was told: the name of an alert and whether it fires or is resolved.
#[derive(Clone)]
pub(crate) struct Webhook {
    address: SocketAddr,
    told: Arc<Mutex<BTreeSet<(String, String)>>>,
    /// All that was said, as it came.
    heard: Arc<Mutex<String>>,
}

/// One session after the other, until it is dropped.
struct Load {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Asks until there is an answer.
pub(crate) fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        thread::sleep(PACE);
    }
}

impl Webhook {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let webhook = Self { address: listener.local_addr().unwrap(), told: Arc::default(), heard: Arc::default() };
        let (told, heard) = (Arc::clone(&webhook.told), Arc::clone(&webhook.heard));
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let Some(text) = take_request(&mut stream) else { continue };
                let body: Value = serde_json::from_str(&text).unwrap_or_default();
                heard.lock().unwrap().push_str(&text);
                for alert in list(&body["alerts"]) {
                    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                    let what = (word(&alert["labels"]["alertname"]), word(&alert["status"]));
                    told.lock().unwrap().insert(what);
                }
            }
        });
        webhook
    }

    fn wait_for(&self, status: &str) {
        wait_for(&format!("the webhook hears that both are {status}"), || self.hears_both(status).then_some(()));
    }

    pub(crate) fn hears_both(&self, status: &str) -> bool {
        ALERTS.iter().all(|name| self.has((*name).to_owned(), status))
    }

    /// All that it was sent so far, byte by byte.
    pub(crate) fn heard(&self) -> String {
        self.heard.lock().unwrap().clone()
    }

    fn has(&self, name: String, status: &str) -> bool {
        self.told.lock().unwrap().contains(&(name, status.to_owned()))
    }
}

/// Reads one request with a body of text and says that it was taken.
fn take_request(stream: &mut TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length: usize = head.split("content-length: ").nth(1)?.lines().next()?.trim().parse().ok()?;
        if body.len() >= length {
            let taken = Some(body.to_owned());
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok()?;
            return taken;
        }
    }
}

impl Load {
    fn start(client: Client) -> Self {
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
                let body = json!({"task": "How much for taxi?", "task_type": "spending"}).to_string();
                let answer = client.post("/v1/sessions?wait=15s", &body);
                assert_eq!(answer.status, 200, "{answer:?}");
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()), "the load broke off");
    }
}

/// A port that was free a moment ago: neither program says which one it got.
pub(crate) fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A file of `deploy/` with shorter windows.
fn shortened(name: &str) -> Value {
    let text = shorten(&promql::text(name), TIMES);
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

impl Watchers {
    pub(crate) fn start(prometheus: &Prometheus, home: &Home, glassbox: SocketAddr) -> Self {
        let webhook = Webhook::start();
        let (of_prometheus, of_alertmanager) = (free_port(), free_port());
        let alertmanager = start_alertmanager(home, of_alertmanager, webhook.address);
        let config = watching(home, of_prometheus, of_alertmanager, glassbox);
        let running = prometheus.start(home, of_prometheus, &config, &["--rules.alert.resend-delay=1s"]);
        Self { prometheus: Client::of(of_prometheus), webhook, _processes: [alertmanager, running] }
    }

    /// The samples that a query gives now.
    fn query(&self, query: &str) -> Vec<Value> {
        self.get(&format!("/api/v1/query?query={}", encoded(query)), query)
    }

    fn get(&self, path: &str, query: &str) -> Vec<Value> {
        let answer = self.prometheus.get(path);
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        list(&answer.json()["data"]["result"]).to_vec()
    }

    /// The number that a query gives now, if it gives one.
    fn number(&self, query: &str) -> Option<f64> {
        self.query(query).first()?["value"][1].as_str()?.parse().ok()
    }

    /// Which of the two alerts are in this state.
    fn alerts_in(&self, state: &str) -> BTreeSet<String> {
        let names = self.query(&format!("ALERTS{{alertstate=\"{state}\"}}"));
        let names = names.into_iter().map(|sample| sample["metric"]["alertname"].as_str().unwrap().to_owned());
        names.filter(|name| ALERTS.contains(&name.as_str())).collect()
    }
}

fn start_alertmanager(home: &Home, address: SocketAddr, webhook: SocketAddr) -> Running {
    let mut config = shortened("deploy/alertmanager/alertmanager.yml");
    for receiver in config["receivers"].as_array_mut().unwrap() {
        receiver["webhook_configs"] = json!([{"url": format!("http://{webhook}/"), "send_resolved": true}]);
    }
    // JSON is YAML.
    let file = home.write("alertmanager.yml", &config.to_string());
    let mut command = Command::new("prometheus-alertmanager");
    command.arg(format!("--config.file={}", file.display()));
    command.arg(format!("--storage.path={}", home.path("alertmanager").display()));
    command.args([&format!("--web.listen-address={address}"), "--cluster.listen-address="]);
    let mut running = Running::start(&mut command);
    running.err.until(|line| line.contains("Listening") && line.contains(&address.to_string()));
    running
}

/// The shipped configuration of Prometheus with shorter windows, the copied rules and these addresses.
fn watching(home: &Home, address: SocketAddr, alertmanager: SocketAddr, glassbox: SocketAddr) -> Value {
    let mut config = shortened("deploy/prometheus/prometheus.yml");
    // What is scraped every quarter of a second is rounded to nothing in a window of five.
    config["global"] = json!({"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "250ms"});
    for (job, target) in [(0, glassbox), (1, address), (2, alertmanager)] {
        config["scrape_configs"][job]["static_configs"][0]["targets"] = json!([target.to_string()]);
    }
    config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = json!([alertmanager.to_string()]);
    let files = ["recording.yml", "alerts.yml"].map(|name| {
        home.write(name, &shortened(&format!("deploy/prometheus/{name}")).to_string()).display().to_string()
    });
    config["rule_files"] = json!(files);
    config
}

/// A query as a part of an address.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn alerts_fire_under_a_fault_reach_the_webhook_and_clear_after_it_in_prometheus_2() {
    alerts_fire_and_clear(prometheus::debian());
}

#[test]
fn alerts_fire_under_a_fault_reach_the_webhook_and_clear_after_it_in_prometheus_3() {
    alerts_fire_and_clear(prometheus::current());
}

fn alerts_fire_and_clear(prometheus: Option<Prometheus>) {
    let Some(prometheus) = prometheus.filter(|_| have("prometheus-alertmanager")) else { return };
    let home = Home::configured(CONFIG);
    home.write("sums.yaml", SCRIPT);
    let server = home.serve();
    let watchers = Watchers::start(&prometheus, &home, server.address());
    let load = Load::start(Client::of(server.address()));

    wait_for("enough sessions", || watchers.number("glassbox:sessions:increase_15m >= 30"));
    assert_eq!(watchers.number("glassbox:sessions:success_ratio_15m"), Some(1.0));
    let errors = watchers.number(r#"tool:glassbox_tool_calls:error_ratio_5m{tool="txn_sum"}"#);
    assert!(errors.is_some_and(|errors| errors < 0.1), "{errors:?}");
    assert_eq!((watchers.alerts_in("pending"), watchers.alerts_in("firing")), Default::default());

    // Somebody holds the bank's database: every sum times out, until the circuit opens.
    let bank = rusqlite::Connection::open(home.data().join("bank.sqlite")).unwrap();
    bank.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let both: BTreeSet<String> = ALERTS.map(str::to_owned).into();
    wait_for("both fire", || (watchers.alerts_in("firing") == both).then_some(()));
    for name in ALERTS {
        let was = watchers
            .number(&format!(r#"count(last_over_time(ALERTS{{alertname="{name}",alertstate="pending"}}[1m]))"#));
        assert_eq!(was, Some(1.0), "{name} was pending before it fired");
    }
    watchers.webhook.wait_for("firing");
    let opened = r#"glassbox_circuit_transitions_total{kind="tool",name="txn_sum",to="open"} > 0"#;
    wait_for("the circuit opens", || watchers.number(opened));

    bank.execute_batch("ROLLBACK").unwrap();
    wait_for("neither fires", || watchers.alerts_in("firing").is_empty().then_some(()));
    watchers.webhook.wait_for("resolved");

    rules_find_their_series(&watchers);
    panels_find_data(&watchers);
    annotations_find_the_circuit(&watchers);
    drop(load);
    assert_eq!(server.stop().code, Some(0));
}

/// What recording rules make is there, and so is each series that an alert asks for.
fn rules_find_their_series(watchers: &Watchers) {
    let mut missing = Vec::new();
    for rule in rules().into_iter().filter(|rule| !is_coming(&rule.expr)) {
        let wanted = if rule.is_alert {
            selectors(&rule.expr).iter().flat_map(Selector::each_value).collect()
        } else {
            vec![rule.name.clone()]
        };
        let there = |query: &&String| !watchers.query(query).is_empty();
        missing.extend(wanted.iter().filter(|query| !there(query)).map(|query| format!("{}: {query}", rule.name)));
        // The rule as it runs.
        watchers.query(&shorten(&rule.expr, TIMES));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

fn panels_find_data(watchers: &Watchers) {
    let mut empty = Vec::new();
    for query in queries().into_iter().filter(|query| !is_coming(&query.expr)) {
        let expr = with_everything_chosen(&query.expr);
        let found = watchers.query(&shorten(&expr, TIMES));
        let reason = NOTHING.iter().find(|(part, _)| query.expr.contains(part));
        assert!(found.is_empty() || reason.is_none(), "{} has data, though {reason:?}", query.place);
        if found.is_empty() && reason.is_none() {
            empty.push(format!("{}: {expr}", query.place));
        }
    }
    assert!(empty.is_empty(), "{empty:#?}");
}

/// The query of a panel as Grafana sends it when everything is chosen, before it is shortened.
fn with_everything_chosen(expr: &str) -> String {
    let mut expr = expr.replace("$__rate_interval", "5m");
    for variable in ["task_type", "tool", "model", "request_model", "instance"] {
        expr = expr.replace(&format!("\"${variable}\""), "\".*\"");
    }
    assert!(!expr.contains('$'), "{expr}");
    expr
}

/// The marks of a dashboard stand where the circuit moved.
fn annotations_find_the_circuit(watchers: &Watchers) {
    let end = watchers.number("vector(time())").unwrap();
    for (file, dashboard) in dashboards() {
        for note in list(&dashboard["annotations"]["list"]) {
            // A window of a second may hold one scrape alone.
            let expr = shorten(note["expr"].as_str().unwrap(), TIMES / 5);
            let path = format!(
                "/api/v1/query_range?query={}&start={}&end={end}&step=0.5",
                encoded(&expr),
                end - 2.0 * PATIENCE.as_secs_f64()
            );
            let found = watchers.get(&path, &expr);
            let moves: BTreeSet<_> =
                found.iter().filter_map(|series| series["metric"]["to"].as_str().map(str::to_owned)).collect();
            assert!(moves.contains("open") && moves.contains("closed"), "{file}: {moves:?}");
        }
    }
}
