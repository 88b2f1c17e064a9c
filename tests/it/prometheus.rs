//! Prometheus in each version that rules, dashboards and the page of metrics must be right under:
//! Debian's, of the second series, and a current one of the third. What differs between the two is
//! known to whoever asks; how one is found and started stands here.

use std::{net::SocketAddr, path::PathBuf, process::Command};

use serde_json::Value;

use crate::{
    process::{Home, Running, have},
    promql::data,
    real_parts::shelf,
};

/// The third series, as `tests/real-parts.sh` builds it.
const CURRENT: &str = "prometheus-3.16.0";

/// The programs of one version.
#[derive(Clone, Debug)]
pub(crate) struct Prometheus {
    pub(crate) program: PathBuf,
    promtool: PathBuf,
}

/// What Debian packages: 2.42 in Debian 12.
pub(crate) fn debian() -> Option<Prometheus> {
    let there = have("prometheus") && have("promtool");
    there.then(|| Prometheus { program: "prometheus".into(), promtool: "promtool".into() })
}

/// A current one.
pub(crate) fn current() -> Option<Prometheus> {
    let folder = shelf(CURRENT)?;
    Some(Prometheus { program: folder.join("prometheus"), promtool: folder.join("promtool") })
}

impl Prometheus {
    /// Starts it with this configuration and further options; it is ready when this returns.
    pub(crate) fn start(&self, home: &Home, address: SocketAddr, config: &Value, options: &[&str]) -> Running {
        // JSON is YAML.
        let file = home.write("prometheus.yml", &config.to_string());
        let mut command = Command::new(&self.program);
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", home.path("prometheus").display()));
        command.arg(format!("--web.listen-address={address}")).args(options);
        let mut running = Running::start(&mut command);
        running.err.until(|line| line.contains("ready to receive web requests"));
        running
    }

    /// Its tool for files of rules, configurations and pages of metrics.
    pub(crate) fn promtool(&self) -> Command {
        Command::new(&self.promtool)
    }
}

/// What was built is what its name says, both programs of it, and what `deploy/` names.
#[test]
fn the_current_one_is_the_one_that_is_deployed() {
    let version = CURRENT.trim_start_matches("prometheus-");
    assert!(version.starts_with("3."), "{version} is not of the third series");
    assert_eq!(data("deploy/compose.yaml")["services"]["prometheus"]["image"], format!("prom/prometheus:v{version}"));
    let Some(prometheus) = current() else { return };
    for program in [&prometheus.program, &prometheus.promtool] {
        let said = Command::new(program).arg("--version").output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains(&format!("version {version} ")), "{program:?}: {said}");
    }
}
