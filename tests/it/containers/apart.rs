//! A test in namespaces of its own: its network, its mounts and its processes are apart from the
//! machine's, and the kernel takes them away with its first process, however the test ends. So an
//! engine that runs there changes no route, no firewall and no folder outside. The test that is
//! asked for runs itself again inside, and passes on what it says.

use std::{
    path::Path,
    process::{Command, Output},
};

use crate::{
    process::{have, skip},
    promql::path,
};

/// Names the folder of the one inside.
const INSIDE: &str = "GLASSBOX_TEST_APART";

/// What network there is inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// One of its own, which leads nowhere.
    Own,
    /// The machine's, to fetch from registries.
    Machine,
}

/// Runs a test of this name apart, with a folder that goes when it has ended; says where that
/// cannot be.
pub(super) fn run(name: &str, network: Network, test: impl FnOnce(&Path)) {
    if let Some(folder) = std::env::var_os(INSIDE) {
        return test(Path::new(&folder));
    }
    if let Err(why) = possible(network) {
        return skip(&format!("no containers are started: {why}"));
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = apart(network);
    command.arg(std::env::current_exe().unwrap()).args([name, "--exact", "--nocapture"]);
    let Output { status, stdout, stderr } =
        command.env(INSIDE, folder.path()).env("TMPDIR", folder.path()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    err.lines().filter_map(|line| line.strip_prefix("SKIP: ")).for_each(skip);
    assert!(status.success() && out.contains("1 passed"), "{name}: {status}\n{out}\n{err}");
}

/// A command in namespaces of its own, which dies with the one that started it.
fn apart(network: Network) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    if network == Network::Own {
        command.arg("--net");
    }
    command.arg("sh").arg(path("tests/data/containers/apart.sh"));
    command
}

/// Whether that can be here. What a package would mend is a failure in CI, which `have` sees to;
/// what the kernel refuses is not.
fn possible(network: Network) -> Result<(), String> {
    if ["GLASSBOX_TEST_CONTAINERS", "GLASSBOX_TEST_FULL"].iter().all(|name| std::env::var_os(name).is_none()) {
        return Err("`make test` does".to_owned());
    }
    let root = Command::new("id").arg("-u").output().is_ok_and(|said| said.stdout == b"0\n");
    let debian = Command::new("apt-get").arg("--version").output().is_ok();
    if !root || !debian {
        return Err("that is for root, on Debian".to_owned());
    }
    if ["dockerd", "docker", "unshare", "setpriv", "ip"].iter().any(|tool| !have(tool)) {
        return Err("their tools are missing".to_owned());
    }
    let tried = apart(network).arg("true").output().unwrap();
    if tried.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned()) }
}
