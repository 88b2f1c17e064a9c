//! The official conformance suite, run against our client: the example, inside this binary.

use std::{path::Path, process::Command};

use super::real::{LOOPBACK, node_22};
use crate::real_parts::shelf;

#[path = "../../../examples/mcp_client.rs"]
mod example;

/// The variable that makes this binary the client that is judged.
const FOLDER: &str = "GLASSBOX_TEST_MCP_CLIENT";

#[tokio::test]
async fn life_of_a_client() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let url = std::env::args().next_back().expect("the suite appends its address");
    example::try_every_tool(&url, Path::new(&folder)).await.expect("a session");
}

/// Whether the suite is content with our client in this scenario, at the latest the last time: it
/// also measures how long the client takes, which says nothing on a busy machine.
fn passes(scenario: &str, times: usize) {
    let Some(suite) = shelf("mcp-conformance-0.1.16") else { return };
    let tries: Vec<_> = (0..times).map_while(|_| judge(&suite, scenario).err()).collect();
    assert!(tries.len() < times, "{scenario}: {tries:#?}");
}

fn judge(suite: &Path, scenario: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let this = std::env::current_exe().expect("this binary");
    let client = format!("{} mcp::conformance::life_of_a_client --exact --nocapture", this.display());
    let said = Command::new(node_22())
        .args(["--require", LOOPBACK])
        .arg(suite.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .args(["client", "--command", &client, "--scenario", scenario])
        .arg("-o")
        .arg(folder.path().join("out"))
        .env(FOLDER, folder.path().join("data"))
        .current_dir(folder.path())
        .output()
        .expect("node");
    let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    if said.status.success() && text.contains("0 failed") { Ok(()) } else { Err(text) }
}

#[test]
fn initialize_conforms() {
    passes("initialize", 1);
}

#[test]
fn tools_call_conforms() {
    passes("tools_call", 1);
}

#[test]
fn sse_retry_conforms() {
    passes("sse-retry", 3);
}
