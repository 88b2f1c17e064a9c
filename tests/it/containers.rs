//! `deploy/` under a real container engine: the real Dockerfile is built, and the real compose file
//! comes up, with stand-ins for images that cannot be pulled (`tests/data/containers`). A part of
//! `make test`; elsewhere it says that it is skipped. `make full` also compiles the program in it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod apart;
mod engine;
mod project;

use std::{
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use self::{
    apart::Network,
    engine::{Engine, said},
    project::Project,
};
use crate::{
    deploy::{compose, demo_key},
    process::{have, skip},
    prometheus,
    promql::{data, path, text},
    real_parts::shelf,
};

/// How a container of ours is confined everywhere.
const CONFINED: &[&str] =
    &["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--tmpfs", "/tmp"];
const HEALTH: &str = "{{.State.Health.Status}}";
const ANSWER: &str = "Такси в сентябре: 2 поездки, 5000 ₸.";

#[test]
fn the_image_and_the_stack_keep_what_deploy_promises() {
    let name = "containers::the_image_and_the_stack_keep_what_deploy_promises";
    apart::run(name, Network::Own, image_and_stack);
}

fn image_and_stack(folder: &Path) {
    let Some(engine) = Engine::start(folder, Network::Own) else { return };
    let Some(debian) = shelf("bookworm-1") else { return };
    engine.import(&debian, "debian:bookworm-slim");
    if !engine.runs("debian:bookworm-slim") {
        return;
    }
    engine.stand_in("rust", &rust_image(), Path::new(env!("CARGO_BIN_EXE_glassbox")));
    build_the_image(&engine, &[]);
    the_image_is_confined_healthy_and_stops_in_time(&engine);
    let (Some(program), Some(jaeger), Some(prometheus), true) =
        (compose(), shelf("jaeger-1.76.0"), prometheus::current(), have("prometheus-alertmanager"))
    else {
        return;
    };
    build_stand_ins(&engine, &jaeger.join("jaeger"), &prometheus.program);
    let project = Project::new(&engine, program);
    the_stack_is_healthy_and_its_signals_arrive(&project);
    the_demonstration_fills_the_dashboards(&project);
    stops_well(&engine, &project.container(&[], "glassbox"), 35);
}

/// Minutes of compiling, for the longer checks alone.
#[test]
fn the_dockerfile_compiles_a_program_that_works() {
    if std::env::var_os("GLASSBOX_TEST_FULL").is_none() {
        return skip("nothing is compiled in an image: `make full` does");
    }
    apart::run("containers::the_dockerfile_compiles_a_program_that_works", Network::Machine, compiled_image);
}

fn compiled_image(folder: &Path) {
    let Some(engine) = Engine::start(folder, Network::Machine) else { return };
    let (Some(debian), Some(compiler)) = (shelf("bookworm-1"), shelf("bookworm-gcc-1")) else { return };
    engine.import(&debian, "debian:bookworm-slim");
    engine.import(&compiler, "debian:bookworm-gcc");
    make_the_toolchain(&engine, folder);
    // The registry is reached as the machine reaches it: by its network and by its proxies.
    let proxies = ["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];
    let given = proxies.into_iter().filter(|name| std::env::var_os(name).is_some());
    let options: Vec<_> =
        ["--network", "host"].into_iter().chain(given.flat_map(|name| ["--build-arg", name])).collect();
    build_the_image(&engine, &options);
    the_image_is_confined_healthy_and_stops_in_time(&engine);
}

/// The base of the builder, as the Dockerfile names it.
fn rust_image() -> String {
    format!("rust:{}-bookworm", channel())
}

fn channel() -> String {
    let toolchain = text("rust-toolchain.toml");
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap();
    channel.trim_matches('"').to_owned()
}

/// The real Dockerfile, with whatever cargo its base has.
fn build_the_image(engine: &Engine, options: &[&str]) {
    let build = ["build", "-f", "deploy/Dockerfile", "-t", &image(), "--build-arg", "REVISION=abc123"];
    engine.docker(&[&build, options, &["."]].concat());
}

/// A base with the machine's own toolchain, the roots that it trusts and its configuration of cargo.
fn make_the_toolchain(engine: &Engine, folder: &Path) {
    let context = folder.join("toolchain");
    std::fs::create_dir_all(context.join("cargo")).unwrap();
    let mut rustc = Command::new("rustc");
    let sysroot = said(rustc.args(["--print", "sysroot"]).env("RUSTUP_TOOLCHAIN", channel()).current_dir(path(".")));
    let tar = context.join("toolchain.tar");
    said(Command::new("tar").arg("-C").arg(sysroot).arg("-cf").arg(tar).args(["bin", "lib"]));
    let trusted = std::env::var_os("SSL_CERT_FILE").map_or("/etc/ssl/certs/ca-certificates.crt".into(), PathBuf::from);
    std::fs::copy(trusted, context.join("ca-certificates.crt")).unwrap();
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let config = home.map(|home| home.join("config.toml")).filter(|config| config.exists());
    if let Some(config) = config {
        std::fs::copy(config, context.join("cargo/config.toml")).unwrap();
    }
    engine.build_stand_in("toolchain", &rust_image(), &context);
}

fn image() -> String {
    format!("glassbox:{}", env!("CARGO_PKG_VERSION"))
}

fn the_image_is_confined_healthy_and_stops_in_time(engine: &Engine) {
    let label = |name: &str| {
        engine.inspect(&image(), &format!("{{{{index .Config.Labels \"org.opencontainers.image.{name}\"}}}}"))
    };
    assert_eq!([label("title"), label("version")], ["glassbox", env!("CARGO_PKG_VERSION")]);
    assert_eq!([label("revision"), label("licenses")], ["abc123", "Apache-2.0"]);
    assert_eq!(engine.inspect(&image(), "{{.Config.User}}"), "10001:10001");

    let image = image();
    let run = [&["run", "--detach", "--name", "alone", "--network", "none"], CONFINED, &[&image]].concat();
    engine.docker(&run);
    engine.await_state("alone", HEALTH, "healthy");
    assert!(engine.has_no_root("alone"));
    let inside = |script: &str| {
        let output = engine.command("docker").args(["exec", "alone", "bash", "-c", script]).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    assert_eq!(inside("id -u; id -g"), (true, "10001\n10001".to_owned()));
    assert!(!inside("touch /etc/mine").0 && !inside("touch /usr/local/bin/mine").0, "the file system can be written");
    assert_eq!(inside("stat -c '%u %a' /data"), (true, "10001 750".to_owned()));
    assert_eq!(
        inside("glassbox run 'Сколько я потратил на такси в сентябре?' 2>/dev/null | grep -c 5000"),
        (true, "1".to_owned())
    );

    stops_well(engine, "alone", 35);
    engine.docker(&["rm", "--volumes", "alone"]);
}

/// SIGTERM, and an end of its own accord within the time that it is given.
fn stops_well(engine: &Engine, container: &str, grace: u64) {
    let begun = Instant::now();
    engine.docker(&["stop", "--time", &grace.to_string(), container]);
    assert!(begun.elapsed() < Duration::from_secs(grace), "{container} had to be killed");
    assert_eq!(engine.inspect(container, "{{.State.ExitCode}} {{.State.OOMKilled}}"), "0 false", "{container}");
}

/// Under the names of the compose file: what Debian packages, what is on the shelf, and for Grafana
/// something that reads the same files.
fn build_stand_ins(engine: &Engine, jaeger: &Path, prometheus: &Path) {
    let installed = |name: &str| PathBuf::from(said(Command::new("sh").args(["-c", &format!("command -v {name}")])));
    let services = data("deploy/compose.yaml")["services"].clone();
    let stand_in =
        |name: &str, program: &Path| engine.stand_in(name, services[name]["image"].as_str().unwrap(), program);
    stand_in("prometheus", prometheus);
    stand_in("alertmanager", &installed("prometheus-alertmanager"));
    stand_in("jaeger", jaeger);
    stand_in("grafana", &path("tests/data/containers/grafana"));
}

fn all_are_healthy_and_confined(project: &Project<'_>, options: &[&str], services: &[&str]) {
    for service in services {
        let container = project.container(options, service);
        assert_eq!(project.engine.inspect(&container, HEALTH), "healthy", "{service}");
        assert_eq!(project.engine.inspect(&container, "{{.RestartCount}}"), "0", "{service}");
        assert_eq!(project.engine.inspect(&container, "{{.HostConfig.ReadonlyRootfs}}"), "true", "{service}");
        assert!(project.engine.has_no_root(&container), "{service} runs as root");
    }
}

fn the_stack_is_healthy_and_its_signals_arrive(project: &Project<'_>) {
    project.up(&[]);
    all_are_healthy_and_confined(project, &[], &["glassbox", "prometheus", "alertmanager", "jaeger", "grafana"]);

    let glassbox = project.client("glassbox", 8080);
    let body = json!({"task": "Сколько я потратил на такси в сентябре?"}).to_string();
    assert_eq!(glassbox.post("/v1/sessions", &body).status, 401, "without a key");
    let bearer = format!("Bearer {}", demo_key(&project.folder.path().join("deploy/secrets"), "customer"));
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let report = glassbox.request("POST", "/v1/sessions?wait=15s", &headers, &body).json();
    assert_eq!(report["answer"], ANSWER, "{report:#}");

    let id = report["session_id"].as_str().unwrap().trim_start_matches("sess_").to_owned();
    let names = until("the trace of the session is in Jaeger", || {
        let answer = project.client("jaeger", 16686).get(&format!("/api/traces/{id}"));
        let spans = (answer.status == 200).then(|| answer.json()["data"][0]["spans"].clone())?;
        let names: Vec<_> =
            spans.as_array()?.iter().map(|span| span["operationName"].as_str().unwrap().to_owned()).collect();
        names.contains(&"invoke_agent bank".to_owned()).then_some(names)
    });
    assert!(names.contains(&"execute_tool txn_sum".to_owned()), "{names:?}");

    // Prometheus asks every 15 seconds.
    let done = "sum(glassbox_sessions_total{job=%22glassbox%22,status=%22done%22})";
    assert!((until_number(project, done, |number| number >= 1.0) - 1.0).abs() < f64::EPSILON);
    let up = until_number(project, "sum(up)", |number| number >= 3.0);
    assert!((up - 3.0).abs() < f64::EPSILON, "glassbox, Prometheus and Alertmanager are scraped");
    let prometheus = project.client("prometheus", 9090);
    let managers = until("Prometheus knows its Alertmanager", || {
        let found = prometheus.get("/api/v1/alertmanagers").json()["data"]["activeAlertmanagers"].clone();
        found.as_array().is_some_and(|all| !all.is_empty()).then_some(found)
    });
    assert_eq!(managers, json!([{"url": "http://alertmanager:9093/api/v2/alerts"}]));
}

fn the_demonstration_fills_the_dashboards(project: &Project<'_>) {
    let folder = project.folder.path().join("deploy/demo.env");
    let demo = ["--env-file", folder.to_str().unwrap()];
    project.up(&demo);
    all_are_healthy_and_confined(project, &demo, &["glassbox", "traffic"]);
    let many = "sum(glassbox_sessions_total{status=%22done%22})";
    until_number(project, many, |number| number >= 20.0);
    let failing = "sum(glassbox_tool_attempts_total{tool=%22txn_sum%22,outcome!=%22ok%22})";
    until_number(project, failing, |number| number >= 1.0);
}

/// Asks Prometheus until its number is as wanted.
fn until_number(project: &Project<'_>, query: &str, wanted: impl Fn(f64) -> bool) -> f64 {
    let prometheus = project.client("prometheus", 9090);
    until(query, || {
        let answer: Value = prometheus.get(&format!("/api/v1/query?query={query}")).json();
        let number = answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()?;
        wanted(number).then_some(number)
    })
}

/// Looks again until there is something to see, for two minutes.
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    for _ in 0..240 {
        if let Some(seen) = look() {
            return seen;
        }
        thread::sleep(Duration::from_millis(500));
    }
    panic!("never: {what}");
}
