//! A container engine of the tests' own: its own images, containers and socket, in a folder that
//! goes with it, so that nothing of the machine's engine is touched. It pulls nothing; what images
//! stand on is Debian as `tests/real-parts.sh` fetched it, under the names that `deploy/` gives.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::Duration,
};

use super::apart::Network;
use crate::{
    process::{Running, skip},
    promql::path,
};

/// Between two looks at something that takes seconds.
const PACE: Duration = Duration::from_millis(250);

pub(super) struct Engine {
    process: Running,
    socket: PathBuf,
}

impl Engine {
    /// Starts one in this folder. Where it does not come up it says so, also in CI: the kernel may
    /// refuse what it needs, which no package mends.
    pub(super) fn start(folder: &Path, network: Network) -> Option<Self> {
        let place = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let mut command = Command::new("dockerd");
        command.args(["--host", &format!("unix://{}", place("socket")), "--data-root", &place("data")]);
        // The default bridge is nobody's.
        command.args(["--exec-root", &place("exec"), "--pidfile", &place("pid"), "--bridge", "none"]);
        if network == Network::Machine {
            command.args(["--iptables=false", "--ip-forward=false", "--ip-masq=false"]);
        }
        let mut engine = Self { process: Running::start(&mut command), socket: folder.join("socket") };
        for _ in 0..240 {
            if engine.command("docker").arg("version").output().unwrap().status.success() {
                return Some(engine);
            }
            thread::sleep(PACE);
        }
        engine.process.signal("KILL");
        let _ = engine.process.wait();
        let last = engine.process.err.seen.last().cloned().unwrap_or_default();
        skip(&format!("no containers are started: dockerd does not come up; its last words: {last}"));
        None
    }

    /// This program, as a client of the engine.
    pub(super) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("DOCKER_HOST", format!("unix://{}", self.socket.display()));
        // Debian's engine has no BuildKit.
        command.env("DOCKER_BUILDKIT", "0").current_dir(path("."));
        command
    }

    /// Runs docker, which must end well; gives what it printed.
    pub(super) fn docker(&self, arguments: &[&str]) -> String {
        said(self.command("docker").args(arguments))
    }

    /// Takes Debian as it was fetched for an image of this name.
    pub(super) fn import(&self, fetched: &Path, image: &str) {
        self.docker(&["import", fetched.join("root.tar").to_str().unwrap(), image]);
    }

    /// Whether it can run anything: confined, limited, and in a network of its own. Where it cannot
    /// it says so, also in CI, as at its start: nothing of ours is in it yet.
    pub(super) fn runs(&self, image: &str) -> bool {
        let script = "docker network create probe >/dev/null
            docker run --rm --network probe --publish 127.0.0.1::9 --read-only --cap-drop ALL \
                --security-opt no-new-privileges --memory 64m --cpus 1 \"$1\" true
            docker network rm probe >/dev/null";
        let Output { status, stderr, .. } = self.command("sh").args(["-ec", script, "sh", image]).output().unwrap();
        if !status.success() {
            let said = String::from_utf8_lossy(&stderr);
            let last = said.lines().rfind(|line| line.contains("rror")).unwrap_or_default();
            skip(&format!("no containers are started: the engine can run none; its words: {last}"));
        }
        status.success()
    }

    /// Builds a stand-in from `tests/data/containers/NAME.Dockerfile` and a program.
    pub(super) fn stand_in(&self, name: &str, image: &str, program: &Path) {
        let context = tempfile::tempdir().unwrap();
        std::fs::copy(program, context.path().join("program")).unwrap();
        std::fs::copy(path("tests/data/containers/cargo"), context.path().join("cargo")).unwrap();
        self.build_stand_in(name, image, context.path());
    }

    /// Builds one from all that is in this folder.
    pub(super) fn build_stand_in(&self, name: &str, image: &str, context: &Path) {
        let file = path(&format!("tests/data/containers/{name}.Dockerfile"));
        self.docker(&["build", "-t", image, "-f", file.to_str().unwrap(), context.to_str().unwrap()]);
    }

    /// One thing that the engine knows of a container or an image, by a template.
    pub(super) fn inspect(&self, what: &str, template: &str) -> String {
        self.docker(&["inspect", "--format", template, what])
    }

    /// Waits until a look gives this.
    pub(super) fn await_state(&self, container: &str, template: &str, wanted: &str) {
        for _ in 0..480 {
            if self.inspect(container, template) == wanted {
                return;
            }
            thread::sleep(PACE);
        }
        panic!("{container} does not become {wanted}: {}", self.inspect(container, "{{json .State}}"));
    }

    /// Whether nobody in this container is root, as the machine sees it.
    pub(super) fn has_no_root(&self, container: &str) -> bool {
        let table = self.docker(&["top", container, "-eo", "uid,pid,comm"]);
        let users: Vec<_> = table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        !users.is_empty() && users.iter().all(|user| *user != "0" && *user != "root")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Containers that are still there would be waited for, each for its grace period.
        let mut sweep = self.command("sh");
        let _ = sweep
            .args(["-c", "docker ps --all --quiet | xargs --no-run-if-empty docker rm --force --volumes"])
            .output();
        self.process.signal("TERM");
        let _ = self.process.wait();
    }
}

/// Runs a command, which must end well; gives what it printed, without the line's end.
pub(super) fn said(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let out = String::from_utf8_lossy(&stdout).trim_end().to_owned();
    assert!(status.success(), "{command:?}: {status}\n{out}\n{}", String::from_utf8_lossy(&stderr));
    out
}
