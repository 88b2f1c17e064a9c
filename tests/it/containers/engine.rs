//! A container engine of the tests' own: its own images, containers and socket, in a folder that
//! goes with it, so that nothing of the machine's engine is touched. It pulls nothing; what images
//! stand on is Debian as `tests/real-parts.sh` fetched it, under the names that `deploy/` gives.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use crate::{
    process::{Running, skip},
    promql::path,
};

/// Between two looks at something that takes seconds.
const PACE: Duration = Duration::from_millis(250);

pub(super) struct Engine {
    process: Running,
    folder: TempDir,
}

impl Engine {
    /// Starts one, in the longer checks and where that can be; else says why not.
    pub(super) fn start() -> Option<Self> {
        match Self::try_start() {
            Ok(engine) => Some(engine),
            Err(why) => {
                skip(&format!("no containers are started: {why}"));
                None
            }
        }
    }

    fn try_start() -> Result<Self, String> {
        if std::env::var_os("GLASSBOX_TEST_FULL").is_none() {
            return Err("`make full` does".to_owned());
        }
        let root = Command::new("id").arg("-u").output().is_ok_and(|said| said.stdout == b"0\n");
        if !root {
            return Err("an engine is started by root alone".to_owned());
        }
        let debian = path("target/real-parts/bookworm-1/root.tar");
        let there = |program: &str| Command::new(program).arg("--version").output().is_ok();
        for (program, there) in [
            ("dockerd", there("dockerd")),
            ("docker", there("docker")),
            ("target/real-parts/bookworm-1", debian.exists()),
        ] {
            if !there {
                return Err(format!("{program} is not there: run GLASSBOX_TEST_FULL=1 tests/real-parts.sh"));
            }
        }
        let engine = Self::launch()?;
        engine.docker(&["import", debian.to_str().unwrap(), "debian:bookworm-slim"]);
        Ok(engine)
    }

    fn launch() -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let mut command = Command::new("dockerd");
        command.args(["--host", &format!("unix://{}", place("socket")), "--data-root", &place("data")]);
        command.args(["--exec-root", &place("exec"), "--pidfile", &place("pid")]);
        // What is built has no network, and the machine's own bridge is left alone.
        let process = Running::start(command.args(["--bridge", "none"]));
        let mut engine = Self { process, folder };
        for _ in 0..120 {
            if engine.command("docker").arg("version").output().unwrap().status.success() {
                return Ok(engine);
            }
            thread::sleep(PACE);
        }
        engine.process.signal("TERM");
        let _ = engine.process.wait();
        let last = engine.process.err.seen.last().cloned().unwrap_or_default();
        Err(format!("dockerd does not answer; its last words: {last}"))
    }

    /// This program, as a client of the engine.
    pub(super) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("DOCKER_HOST", format!("unix://{}", self.folder.path().join("socket").display()));
        // Debian's engine has no BuildKit.
        command.env("DOCKER_BUILDKIT", "0").current_dir(path("."));
        command
    }

    /// Runs docker, which must end well; gives what it printed.
    pub(super) fn docker(&self, arguments: &[&str]) -> String {
        said(self.command("docker").args(arguments))
    }

    /// Builds a stand-in from `tests/data/containers/NAME.Dockerfile` and a program.
    pub(super) fn stand_in(&self, name: &str, image: &str, program: &Path) {
        let context = tempfile::tempdir().unwrap();
        let folder = path("tests/data/containers");
        std::fs::copy(program, context.path().join("program")).unwrap();
        std::fs::copy(folder.join("cargo"), context.path().join("cargo")).unwrap();
        let file: PathBuf = folder.join(format!("{name}.Dockerfile"));
        self.docker(&["build", "-t", image, "-f", file.to_str().unwrap(), context.path().to_str().unwrap()]);
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
        // It ends its containers, and takes their file systems down.
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
