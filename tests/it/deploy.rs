//! What `deploy/` promises of containers: pinned, confined, healthy, stopped in time; the same
//! configuration everywhere.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::{
    net::TcpListener,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::Value;

use crate::{
    process::{Home, have, skip},
    prometheus,
    promql::{check_printed, data, files, list, path, text},
    real_parts::shelf,
};

const COMPOSE: &str = "deploy/compose.yaml";

/// The manifest of this name in `deploy/kubernetes`.
fn manifest(name: &str) -> Value {
    data(&format!("deploy/kubernetes/{name}.yaml"))
}

fn services() -> Vec<(String, Value)> {
    let file = data(COMPOSE);
    let services = file["services"].as_object().unwrap();
    services.iter().map(|(name, service)| (name.clone(), service.clone())).collect()
}

/// The compose program: what the tests installed, or the machine's.
pub(crate) fn compose() -> Option<PathBuf> {
    let own = path("target/real-parts/docker-compose-5.6.1/bin/docker-compose");
    if own.exists() {
        return Some(own);
    }
    have("docker-compose").then(|| "docker-compose".into())
}

#[test]
fn compose_takes_the_file() {
    let Some(program) = compose() else { return };
    let taken = taken(&program, &[]);
    for (name, service) in taken["services"].as_object().unwrap() {
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(service["cap_drop"][0], "ALL", "{name}");
        assert_eq!(service["security_opt"][0], "no-new-privileges:true", "{name}");
        let limits = &service["deploy"]["resources"]["limits"];
        assert!(limits["memory"].is_string() && !limits["cpus"].is_null(), "{name} has no limits");
        for volume in list(&service["volumes"]).iter().filter(|volume| volume["type"] == "bind") {
            assert_eq!(volume["read_only"], true, "{name}: {volume}");
            let source = volume["source"].as_str().unwrap();
            assert!(std::path::Path::new(source).exists(), "{name} mounts {source}, which is not there");
        }
    }
    assert_eq!(taken["services"]["glassbox"]["stop_grace_period"], "35s");
    assert!(taken["services"].get("traffic").is_none(), "traffic is for the demonstration alone");
}

/// The file as compose takes it, with these options.
fn taken(program: &std::path::Path, options: &[&str]) -> Value {
    let mut command = Command::new(program);
    command.args(options).args(["-f", COMPOSE, "config", "--no-env-resolution", "--format", "json"]);
    let Output { status, stdout, stderr } = command.current_dir(path(".")).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    serde_json::from_slice(&stdout).unwrap()
}

/// The place that `glassbox.yaml` of the container comes from.
fn configured_by(taken: &Value) -> &str {
    let volumes = list(&taken["services"]["glassbox"]["volumes"]);
    let mount = volumes.iter().find(|volume| volume["target"] == "/etc/glassbox/glassbox.yaml").unwrap();
    mount["source"].as_str().unwrap()
}

#[test]
fn the_demonstration_is_the_stack_with_traffic_and_faults() {
    let Some(program) = compose() else { return };
    let (plain, demo) = (taken(&program, &[]), taken(&program, &["--env-file", "deploy/demo.env"]));
    assert!(configured_by(&plain).ends_with("deploy/glassbox/glassbox.yaml"));
    assert!(configured_by(&demo).ends_with("deploy/glassbox/demo.yaml"));
    let traffic = &demo["services"]["traffic"];
    assert_eq!(traffic["image"], plain["services"]["glassbox"]["image"]);
    assert_eq!(traffic["read_only"], true);
    assert_eq!(traffic["cap_drop"][0], "ALL");
    assert_eq!(traffic["restart"], "unless-stopped", "a run has an end, traffic has none");
    let command: Vec<_> = list(&traffic["command"]).iter().map(|word| word.as_str().unwrap()).collect();
    // Its key must not go over a network in the clear.
    assert_eq!(command[..3], ["load", "--server", "http://127.0.0.1:8080"]);
    assert_eq!(traffic["network_mode"], "service:glassbox");
    // The profile by its name gives the same services.
    let by_name = taken(&program, &["--profile", "demo"]);
    let names = |taken: &Value| taken["services"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&by_name), names(&demo));
    assert_eq!(names(&demo).len(), names(&plain).len() + 1);
}

/// The two configurations differ in what fails on purpose, in the quota and in how long is kept.
#[test]
fn the_demonstration_is_configured_as_the_service_but_for_its_faults() {
    let (plain, mut demo) = (data("deploy/glassbox/glassbox.yaml"), data("deploy/glassbox/demo.yaml"));
    for (part, failures) in [("/models/bank", 0.02), ("/tools/txn_sum", 0.1)] {
        let inject = demo.pointer_mut(part).unwrap().as_object_mut().unwrap().remove("inject").unwrap();
        assert_eq!(inject["failures"], failures, "{part}");
    }
    let quota = demo.as_object_mut().unwrap().remove("rate_limits").unwrap();
    assert_eq!(quota["sessions_per_user_per_hour"], "unlimited");
    demo["retention"]["sessions"] = plain["retention"]["sessions"].clone();
    assert_eq!(demo, plain);
}

/// A short run of the same traffic, with the key that its container gets.
#[test]
fn the_traffic_of_the_demonstration_is_let_in() {
    let secrets = tempfile::tempdir().unwrap();
    make_demo_keys(secrets.path());
    let given = std::fs::read_to_string(secrets.path().join("traffic.env")).unwrap();
    let key = demo_key(secrets.path(), "traffic");
    assert_eq!(given, format!("GLASSBOX_API_KEY={key}\n"), "one key, of this caller");
    let hashes = secrets.path().join("glassbox_api_keys");
    let home = Home::configured(&text("deploy/glassbox/demo.yaml"))
        .variable("GLASSBOX__AUTH__API_KEYS_FILE", hashes.to_str().unwrap());
    let server = home.serve();
    let url = format!("http://{}", server.address());
    // The options of the container; as many sessions as are looked at, in the place of its ten minutes.
    let caller = Home::new().variable("GLASSBOX_API_KEY", key);
    let said = caller.run(&["load", "--server", &url, "--sessions", "100", "--concurrency", "20", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report["stages"][0]["refused"], serde_json::json!({}), "{report:#}");
    let metrics = server.get("/metrics").body;
    let failed = metrics.lines().any(|line| {
        line.starts_with("glassbox_tool_attempts_total{")
            && line.contains("txn_sum")
            && !line.contains("\"ok\"")
            && !line.ends_with(" 0")
    });
    assert!(failed, "no attempt of txn_sum failed:\n{metrics}");
}

#[test]
fn services_are_pinned_healthy_and_on_loopback() {
    for (name, service) in services() {
        let image = service["image"].as_str().unwrap();
        let (_, tag) = image.split_once(':').unwrap_or_else(|| panic!("{image} has no tag"));
        assert!(tag.chars().any(|letter| letter.is_ascii_digit()), "{image} is not pinned");
        let user = service["user"].as_str().unwrap();
        assert!(user.split(':').next().unwrap().parse::<u32>().unwrap() > 0, "{name} runs as root");
        assert!(!list(&service["healthcheck"]["test"]).is_empty(), "{name} has no health check");
        for port in list(&service["ports"]) {
            assert!(port.as_str().unwrap().starts_with("127.0.0.1:"), "{name} publishes {port} to everybody");
        }
        for (other, condition) in service["depends_on"].as_object().into_iter().flatten() {
            assert_eq!(condition["condition"], "service_healthy", "{name} does not wait for {other}");
        }
    }
    let names: Vec<_> = services().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["glassbox", "traffic", "prometheus", "alertmanager", "jaeger", "grafana"]);
}

#[test]
fn the_image_is_of_this_version_and_toolchain() {
    let version = env!("CARGO_PKG_VERSION");
    let dockerfile = text("deploy/Dockerfile");
    let toolchain = text("rust-toolchain.toml");
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
    assert!(dockerfile.contains(&format!("ARG RUST_VERSION={channel}\n")), "rust-toolchain.toml says {channel}");
    assert!(dockerfile.contains(&format!("ARG VERSION={version}\n")), "Cargo.toml says {version}");
    for part in ["USER 10001:10001", "HEALTHCHECK", "STOPSIGNAL SIGTERM", "org.opencontainers.image.revision"] {
        assert!(dockerfile.contains(part), "the Dockerfile lacks {part}");
    }
    // Without BuildKit there are no mounts of a RUN and no texts in the file.
    assert!(!dockerfile.contains("--mount") && !dockerfile.contains("<<"));
    // What is copied from the repository is let through by .dockerignore.
    let let_through = text(".dockerignore");
    for line in dockerfile.lines().filter(|line| line.starts_with("COPY ") && !line.contains("--from")) {
        let mut words: Vec<_> = line.split_whitespace().skip(1).collect();
        words.pop();
        for source in words {
            assert!(path(source).exists(), "{line}: {source} is not there");
            assert!(let_through.contains(&format!("!{source}\n")), ".dockerignore keeps {source} out");
        }
    }
    // Without it the crate's templates are looked for where there are none.
    assert!(dockerfile.contains("COPY askama.toml ./\n"), "the Dockerfile leaves askama.toml out");
    assert_eq!(data(COMPOSE)["services"]["glassbox"]["image"], format!("glassbox:{version}"));
    assert_eq!(manifest("kustomization")["images"][0]["newTag"], version);
}

/// Whoever stops a container waits for the grace period of the service inside it.
#[test]
fn a_stop_has_the_time_that_the_service_takes() {
    let config = data("deploy/glassbox/glassbox.yaml");
    assert_eq!(config["server"]["grace_period"], "25s");
    assert_eq!(data(COMPOSE)["services"]["glassbox"]["stop_grace_period"], "35s");
    assert_eq!(manifest("statefulset")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], 35);
}

/// Runs the script of the demo's keys in a folder of its own.
pub(crate) fn make_demo_keys(folder: &std::path::Path) {
    let made = Command::new(path("deploy/make-demo-keys.sh")).arg(folder).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// What the script wrote under this name.
pub(crate) fn demo_key(folder: &std::path::Path, caller: &str) -> String {
    let keys = std::fs::read_to_string(folder.join("demo_keys")).unwrap();
    keys.lines().find_map(|line| line.strip_prefix(&format!("{caller}="))).unwrap().to_owned()
}

#[test]
fn the_configuration_of_the_containers_works_with_the_keys_of_the_demo() {
    let secrets = tempfile::tempdir().unwrap();
    make_demo_keys(secrets.path());
    let hashes = secrets.path().join("glassbox_api_keys");
    let home = Home::configured(&text("deploy/glassbox/glassbox.yaml"))
        .variable("GLASSBOX__AUTH__API_KEYS_FILE", hashes.to_str().unwrap());
    let said = home.run(&["check"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    check_printed("deploy/kubernetes/glassbox.yaml", &text("deploy/glassbox/glassbox.yaml"));

    let server = home.serve();
    let ask = |caller: &str, method: &str, path: &str, body: &str| {
        let bearer = format!("Bearer {}", demo_key(secrets.path(), caller));
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        server.request(method, path, &headers, body)
    };
    let task = r#"{"task": "Сколько я потратил на такси в сентябре?"}"#;
    let answer = ask("customer", "POST", "/v1/sessions?wait=15s", task);
    assert_eq!(answer.json()["answer"], "Такси в сентябре: 2 поездки, 5000 ₸.", "{answer:?}");
    assert_eq!(ask("traffic", "GET", "/v1/sessions", "").json()["sessions"], serde_json::json!([]));
    let all = ask("operator", "GET", "/v1/sessions", "").json();
    assert_eq!(all["sessions"][0]["principal"], "C-001");
    assert_eq!(ask("approver", "GET", "/v1/confirmations", "").status, 200);
    assert_eq!(server.get("/v1/sessions").status, 401, "without a key");

    // A second run changes no key.
    let before = demo_key(secrets.path(), "customer");
    make_demo_keys(secrets.path());
    assert_eq!(demo_key(secrets.path(), "customer"), before);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&secrets.path().join("demo_keys").metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600, "the keys are their maker's alone");
}

/// The file of hashes is where the containers have it.
#[test]
fn the_keys_are_where_the_configuration_looks() {
    let place = data("deploy/glassbox/glassbox.yaml")["auth"]["api_keys_file"].as_str().unwrap().to_owned();
    assert_eq!(data(COMPOSE)["services"]["glassbox"]["secrets"][0]["target"], place);
    let container = manifest("statefulset")["spec"]["template"]["spec"]["containers"][0].clone();
    let mounts = list(&container["volumeMounts"]);
    let mount = mounts.iter().find(|mount| mount["name"] == "api-keys").unwrap();
    assert_eq!(format!("{}/api_keys", mount["mountPath"].as_str().unwrap()), place);
}

#[test]
fn the_manifests_fit_together() {
    let name = |value: &Value| value["metadata"]["labels"]["app.kubernetes.io/name"].clone();
    let (service, set) = (manifest("service"), manifest("statefulset"));
    let labels = &set["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&service["spec"]["selector"], labels);
    assert_eq!(&set["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(set["spec"]["serviceName"], service["metadata"]["name"]);
    // The job label that the alerts know is the name of the service.
    assert_eq!(service["metadata"]["name"], "glassbox");
    let monitor = manifest("servicemonitor");
    assert_eq!(monitor["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"], name(&service));
    assert_eq!(monitor["spec"]["endpoints"][0]["port"], service["spec"]["ports"][0]["name"]);

    let pod = &set["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(container["ports"][0]["name"], service["spec"]["ports"][0]["targetPort"]);
    for (probe, path) in [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        assert_eq!(container[probe]["httpGet"]["path"], path);
        assert_eq!(container[probe]["httpGet"]["port"], "http");
    }
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    let volumes: Vec<_> = list(&pod["volumes"]).iter().chain(list(&set["spec"]["volumeClaimTemplates"])).collect();
    for mount in list(&container["volumeMounts"]) {
        let found =
            volumes.iter().any(|volume| volume["name"] == mount["name"] || volume["metadata"]["name"] == mount["name"]);
        assert!(found, "nothing is mounted at {mount}");
    }
    for file in list(&manifest("kustomization")["resources"]) {
        assert!(path("deploy/kubernetes").join(file.as_str().unwrap()).exists(), "{file}");
    }
}

#[test]
fn every_file_is_yaml() {
    for folder in ["alertmanager", "jaeger", "otel-collector", "grafana/provisioning/datasources", "kubernetes"] {
        for ending in [".yml", ".yaml"] {
            let all = std::fs::read_dir(path("deploy").join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
            if all.into_iter().any(|name| name.to_string_lossy().ends_with(ending)) {
                for file in files(&format!("deploy/{folder}"), ending) {
                    assert!(data(&file).is_object(), "{file}");
                }
            }
        }
    }
    // The names that the dashboards' data sources are given by compose.
    let sources = data("deploy/grafana/provisioning/datasources/glassbox.yaml");
    let kinds: Vec<_> = list(&sources["datasources"]).iter().map(|source| source["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["prometheus", "jaeger", "alertmanager"]);
}

/// Jaeger is a Collector, which knows all of the pipeline of traces; the scraper of the pipeline of
/// metrics is Prometheus. The remote write is known to neither.
#[test]
fn a_collector_takes_the_example() {
    let (Some(jaeger), Some(prometheus)) = (shelf("jaeger-1.76.0"), prometheus::current()) else { return };
    let home = Home::new();
    let mut example = data("deploy/otel-collector/collector.yaml");
    let scraper = example["receivers"].as_object_mut().unwrap().remove("prometheus").unwrap();
    example["exporters"].as_object_mut().unwrap().remove("prometheusremotewrite").unwrap();
    example["service"]["pipelines"].as_object_mut().unwrap().remove("metrics").unwrap();
    let taken = |command: &mut Command, file: &std::path::Path| {
        let said = command.arg(file).env("LANGFUSE_BASIC", "a2V5").output().unwrap();
        (said.status.success(), String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned())
    };
    let validated = |example: &Value| {
        let file = home.write("collector.yaml", &example.to_string());
        taken(Command::new(jaeger.join("jaeger")).args(["validate", "--config"]), &file)
    };
    let (good, said) = validated(&example);
    assert!(good, "{said}");
    example["processors"]["memory_limiter"]["limit"] = "256 MB".into();
    let (good, said) = validated(&example);
    assert!(!good && said.contains("invalid keys: limit"), "a wrong key is noticed: {said}");

    let file = home.write("prometheus.yml", &scraper["config"].to_string());
    let (good, said) = taken(prometheus.promtool().args(["check", "config"]), &file);
    assert!(good && said.contains("SUCCESS"), "{said}");
}

#[test]
fn the_health_check_knows_a_service_that_is_ready() {
    if !have("bash") {
        return skip("the health check needs bash");
    }
    let home = Home::new();
    let server = home.serve();
    let healthy = |address: String| {
        let check = Command::new("bash").arg(path("deploy/healthcheck.sh")).env("HEALTH_ADDRESS", address).output();
        check.unwrap().status.success()
    };
    assert!(healthy(server.address().to_string()));
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(!healthy(nobody.to_string()), "nobody listens there any more");
}
