//! The compose project of `deploy/`, which ends with its value, however far it came.

use std::{io::Write as _, net::SocketAddr, path::PathBuf, process::Command, thread};

use super::engine::{Engine, said};
use crate::{deploy::make_demo_keys, process::Client, promql::path};

/// What the project changes in the compose file: ports that are free, and health that is asked for
/// more often, and in vain more often too, since the machine of a test is a busy one.
fn changed() -> String {
    let often = "healthcheck: {interval: 1s, timeout: 10s, retries: 60}";
    let ports =
        [("glassbox", 8080), ("prometheus", 9090), ("alertmanager", 9093), ("jaeger", 16686), ("grafana", 3000)];
    let moved = ports.map(|(name, port)| format!("  {name}: {{ports: !override [\"127.0.0.1::{port}\"], {often}}}\n"));
    format!("services:\n{}  traffic: {{{often}}}\n", moved.concat())
}

/// A copy of `deploy/` with secrets of its own, which publishes on free ports.
pub(super) struct Project<'engine> {
    pub(super) engine: &'engine Engine,
    program: PathBuf,
    pub(super) folder: tempfile::TempDir,
}

impl<'engine> Project<'engine> {
    pub(super) fn new(engine: &'engine Engine, program: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        said(Command::new("cp").arg("-r").args([path("deploy"), path("dashboards")]).arg(folder.path()));
        // Others than root read what is mounted.
        said(Command::new("chmod").args(["-R", "a+rX"]).arg(folder.path()));
        let secrets = folder.path().join("deploy/secrets");
        std::fs::remove_dir_all(&secrets).unwrap();
        make_demo_keys(&secrets);
        std::fs::write(folder.path().join("here.yaml"), changed()).unwrap();
        Self { engine, program, folder }
    }

    fn command(&self, options: &[&str]) -> Command {
        let place = |name: &str| self.folder.path().join(name);
        let mut command = self.engine.command(&self.program);
        command.args(options).arg("-f").arg(place("deploy/compose.yaml")).arg("-f").arg(place("here.yaml"));
        command.current_dir(self.folder.path());
        command
    }

    fn compose(&self, options: &[&str], arguments: &[&str]) -> String {
        said(self.command(options).args(arguments))
    }

    /// Starts what is not there yet, and waits until all are healthy.
    pub(super) fn up(&self, options: &[&str]) {
        self.compose(options, &["up", "--detach", "--wait", "--wait-timeout", "300", "--no-build", "--pull", "never"]);
    }

    pub(super) fn container(&self, options: &[&str], service: &str) -> String {
        self.compose(options, &["ps", "--all", "--quiet", service])
    }

    /// The published port of a service.
    pub(super) fn client(&self, service: &str, port: u16) -> Client {
        let address: SocketAddr = self.compose(&[], &["port", service, &port.to_string()]).parse().unwrap();
        assert!(address.ip().is_loopback(), "{service} is published at {address}");
        Client::of(address)
    }
}

impl Drop for Project<'_> {
    /// Takes it down, also where it came up in part; then it says how far it was.
    fn drop(&mut self) {
        if thread::panicking() {
            for look in [&["ps", "--all"][..], &["logs", "--no-color", "--tail", "20"]] {
                let said = self.command(&["--profile", "demo"]).args(look).output();
                let said = said.map(|said| [said.stdout, said.stderr].concat()).unwrap_or_default();
                let _ = std::io::stderr().write_all(&said);
            }
        }
        let down = ["down", "--volumes", "--remove-orphans", "--timeout", "5"];
        let ended = self.command(&["--profile", "demo"]).args(down).output();
        assert!(thread::panicking() || ended.is_ok_and(|ended| ended.status.success()), "it could not be taken down");
    }
}
