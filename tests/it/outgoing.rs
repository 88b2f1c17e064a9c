//! How the program reaches a provider: https under a user's own authority, the proxies of the
//! environment, and a credential that nothing shows.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod servers;

use std::{fs, path::Path};

use crate::{
    collector::{Collector, Manner},
    process::{Finished, Home},
};

use self::servers::{Play, Proxy, Server};

/// The mark that must stand nowhere but in the request.
const KEY: &str = "sk-marked-hunter2-7f3a9c";
const ANSWER: &str = "Seventeen degrees.";

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tls").join(name);
    path.to_str().unwrap().to_owned()
}

/// A program whose only model is there.
fn home(provider: &str, base_url: &str, more: &str) -> Home {
    let config = format!(
        "agents:\n  one: {{system_prompt: Help., model: one, language: en, task_types: [other]}}\n\
         models:\n  one: {{provider: {provider}, model: m-1, base_url: '{base_url}', api_key: {{env: MODEL_KEY}}, stream: false, timeout: 500ms}}\n\
         llm_retry_policy: {{max_attempts: 1}}\n{more}"
    );
    Home::configured(&config).variable("MODEL_KEY", KEY)
}

fn run(home: &Home) -> Finished {
    home.run(&["run", "What is the weather?"])
}

fn answered(finished: &Finished) {
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.out.contains(ANSWER), "{finished:?}");
}

/// Everything that is known of the sessions, as an operator reads it.
fn told(home: &Home) -> String {
    let listed = home.ask(&["--json", "session", "list"]);
    let ids = listed.split('"').filter(|word| word.starts_with("sess_")).map(str::to_owned).collect::<Vec<_>>();
    assert!(!ids.is_empty(), "{listed}");
    let shown = ids
        .iter()
        .map(|id| home.ask(&["--json", "session", "show", id]) + &home.ask(&["session", "show", "--raw", id]));
    shown.fold(listed, |all, one| all + &one)
}

#[test]
fn an_own_authority_is_named_by_ssl_cert_file_and_nothing_else_is_believed() {
    let server = Server::https(Play::Answer);
    let url = format!("https://localhost:{}/v1", server.port());
    let home = home("openai", &url, "").variable("SSL_CERT_FILE", data("ca.pem"));
    answered(&run(&home));
    assert_eq!(server.keys(), [format!("Bearer {KEY}")]);

    let stranger = self::home("openai", &url, "");
    let finished = run(&stranger);
    assert_ne!(finished.code, Some(0), "{finished:?}");
    let told = told(&stranger);
    assert!(told.contains("no connection to the provider") && told.contains("certificate"), "{told}");
    assert!(!told.contains("hunter2") && !format!("{finished:?}").contains("hunter2"));
    assert_eq!(server.keys().len(), 1, "nothing was sent to a server that nobody vouches for");
}

#[test]
fn https_without_any_authority_is_said_at_the_start() {
    let home = home("openai", "https://localhost:1/v1", "");
    let empty = home.write("none.pem", "");
    let home = home.variable("SSL_CERT_FILE", empty.to_str().unwrap()).variable("SSL_CERT_DIR", "/nonexistent");
    let finished = run(&home);
    assert_ne!(finished.code, Some(0), "{finished:?}");
    assert!(finished.err.contains("models.one: https needs the system's CA certificates"), "{finished:?}");
}

#[test]
fn proxies_of_the_environment_are_used_for_what_they_are_for() {
    let (plain, tls) = (Server::http(Play::Answer), Server::https(Play::Answer));
    let proxy = Proxy::start(&plain);

    let http = home("openai", "http://model.invalid/v1", "").variable("HTTP_PROXY", proxy.url());
    answered(&run(&http));
    assert_eq!(proxy.asked(), ["POST http://model.invalid/v1/chat/completions HTTP/1.1"]);

    let url = format!("https://localhost:{}/v1", tls.port());
    let https = home("openai", &url, "").variable("HTTPS_PROXY", proxy.url()).variable("SSL_CERT_FILE", data("ca.pem"));
    answered(&run(&https));
    assert_eq!(proxy.asked()[1..], [format!("CONNECT localhost:{} HTTP/1.1", tls.port())]);

    let url = format!("http://127.0.0.1:{}/v1", plain.port());
    let direct = home("openai", &url, "").variable("HTTP_PROXY", proxy.url()).variable("NO_PROXY", "127.0.0.1");
    answered(&run(&direct));
    assert_eq!(proxy.asked().len(), 2, "what NO_PROXY names goes past it");
}

/// Agents and models of these names, each reached there over a wire of its own.
fn config_of(models: &[(String, &str, String)], collector: &str) -> String {
    let agents = models.iter().map(|(name, ..)| {
        format!("  {name}: {{system_prompt: Help., model: {name}, language: en, task_types: [other]}}\n")
    });
    let models = models.iter().map(|(name, provider, url)| {
        format!("  {name}: {{provider: {provider}, model: m-1, base_url: '{url}', api_key: {{env: MODEL_KEY}}, stream: false, timeout: 500ms}}\n")
    });
    let telemetry = format!(
        "telemetry: {{log: trace, events: events.jsonl, otlp: {{endpoint: '{collector}', protocol: http/protobuf}}}}\n"
    );
    let retry = "llm_retry_policy: {max_attempts: 1}\n";
    format!("agents:\n{}models:\n{}{retry}{telemetry}", agents.collect::<String>(), models.collect::<String>())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_stands_in_its_header_and_nowhere_else() {
    let collector = Collector::start(Manner::Accept).await;
    let troubles = Play::troubles(KEY);
    let wires = [("openai", "/v1"), ("anthropic", "")];
    let servers: Vec<_> = wires.iter().flat_map(|wire| troubles.iter().map(move |play| (wire, play))).collect();
    let servers: Vec<_> = servers.into_iter().map(|(wire, play)| (wire, Server::http(play.clone()))).collect();
    let met = servers.iter().enumerate().map(|(number, (wire, server))| {
        (format!("m{number}"), wire.0, format!("http://127.0.0.1:{}{}", server.port(), wire.1))
    });
    // A certificate that nobody vouches for, and nobody at all.
    let tls = Server::https(Play::Answer);
    let never = wires.iter().flat_map(|(provider, path)| {
        let urls = [format!("https://localhost:{}{path}", tls.port()), format!("http://127.0.0.1:1{path}")];
        urls.into_iter().enumerate().map(move |(number, url)| (format!("n{number}_{provider}"), *provider, url))
    });
    let models: Vec<_> = met.chain(never).collect();
    let home = Home::configured(&config_of(&models, &collector.http())).variable("MODEL_KEY", KEY);

    let mut seen = home.ask(&["check", "config"]);
    let service = home.serve();
    for (name, ..) in &models {
        let task = serde_json::json!({"agent": name, "task": "What is the weather?"});
        let answer = service.post("/v1/sessions?wait=20s", &task.to_string());
        let id = answer.json()["session_id"].as_str().map(str::to_owned).unwrap_or_else(|| panic!("{answer:?}"));
        assert_ne!(answer.json()["status"], "done", "{name}: {answer:?}");
        seen += &(answer.body + &service.get(&format!("/v1/sessions/{id}/journal")).body);
    }
    seen += &(service.get("/metrics").body + &service.get("/v1/circuits").body);
    let finished = service.stop();
    assert!(finished.err.contains("TRACE") && finished.err.contains("DEBUG"), "the log is as loud as it gets");
    seen += &(finished.out + &finished.err + &files(home.data()) + &format!("{:?}", collector.resources()));

    for (wire, server) in &servers {
        let keys = server.keys();
        assert!(keys.len() == 1 && keys[0].ends_with(KEY), "{wire:?}: the credential was sent: {keys:?}");
    }
    assert_eq!(tls.keys().len(), 0);
    assert!(seen.contains("chat m-1") && seen.contains("m0"), "there is something to look through");
    for word in [KEY, "hunter2", "7f3a9c"] {
        let place = seen
            .find(word)
            .map(|at| String::from_utf8_lossy(&seen.as_bytes()[at.saturating_sub(300)..at]).into_owned());
        assert_eq!(place, None, "{word}");
    }
}

/// The bytes of all files of a folder, as far as they are text.
fn files(folder: &Path) -> String {
    let read = |entry: fs::DirEntry| String::from_utf8_lossy(&fs::read(entry.path()).unwrap_or_default()).into_owned();
    fs::read_dir(folder).unwrap().map(|entry| read(entry.unwrap())).collect()
}
