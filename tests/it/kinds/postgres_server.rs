//! A Postgres server of the test: the real one, in a folder of its own, on a free port of the
//! loopback. It is stopped with its value.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use glassbox::{Sensitive, tool::sql::Database};
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::process::have;

/// The running server.
pub struct Server {
    folder: TempDir,
    port: u16,
    /// Whether it has a certificate, of `tests/data/tls`.
    secure: bool,
}

impl Server {
    /// Starts one; nothing where there is no Postgres here, which is said.
    pub fn start() -> Option<Self> {
        Self::made(false)
    }

    /// The same, with a certificate for `localhost` and `127.0.0.1`.
    pub fn start_secure() -> Option<Self> {
        Self::made(true)
    }

    fn made(secure: bool) -> Option<Self> {
        if programs().is_none() && !have("initdb") {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        if is_root() {
            // The server refuses to be root.
            let owned = Command::new("chown").arg("postgres").arg(folder.path()).status();
            assert!(owned.is_ok_and(|status| status.success()), "the user postgres");
        }
        let data = folder.path().join("data");
        run("initdb", &["-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-sync", "-D", &text(&data)]);
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        let server = Self { folder, port, secure };
        if secure {
            server.take_certificate();
        }
        server.begin();
        Some(server)
    }

    /// Starts it again, on the same port.
    pub fn begin(&self) {
        let tls =
            if self.secure { "-c ssl=on -c ssl_cert_file=localhost.pem -c ssl_key_file=localhost.key" } else { "" };
        let folder = text(self.folder.path());
        let options = format!("-p {} -c listen_addresses=127.0.0.1 -c fsync=off {tls} -k {folder}", self.port);
        let log = self.folder.path().join("log");
        run("pg_ctl", &["-D", &self.data(), "-l", &text(&log), "-o", &options, "-w", "start"]);
    }

    /// Copies certificate and key into its folder; the key must be its own and nobody else's.
    fn take_certificate(&self) {
        use std::os::unix::fs::PermissionsExt as _;
        for name in ["localhost.pem", "localhost.key"] {
            let copy = Path::new(&self.data()).join(name);
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tls").join(name);
            std::fs::copy(source, &copy).expect("a file of the repository");
            std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o600)).expect("its rights");
            if is_root() {
                let owned = Command::new("chown").arg("postgres").arg(&copy).status();
                assert!(owned.is_ok_and(|status| status.success()), "the user postgres");
            }
        }
    }

    /// Stops it at once, as a crash does.
    pub fn stop(&self) {
        run("pg_ctl", &["-D", &self.data(), "-m", "immediate", "-w", "stop"]);
    }

    fn data(&self) -> String {
        text(&self.folder.path().join("data"))
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    pub fn database(&self) -> Database {
        Database::Postgres(Sensitive::new(self.url()))
    }

    /// A connection of the test's own.
    pub async fn connect(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client
    }

    pub async fn run(&self, sql: &str) {
        self.connect().await.batch_execute(sql).await.expect("good statements");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = program("pg_ctl");
        let _ = stop
            .args(["-D", &self.data(), "-m", "immediate", "-w", "stop"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// The folder of the newest Postgres; Debian does not put it into PATH.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.flatten().map(|version| version.path().join("bin"));
    folders.filter(|folder| folder.join("initdb").exists()).max()
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("a user");
    id.stdout.trim_ascii() == b"0"
}

fn program(name: &str) -> Command {
    let path = programs().map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
    if !is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(path);
    command
}

fn run(name: &str, arguments: &[&str]) {
    let output = program(name).args(arguments).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(output.as_ref().is_ok_and(|status| status.success()), "{name} {arguments:?}: {output:?}");
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
