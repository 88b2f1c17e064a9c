//! Real parts: programs of others that tests run against.

use std::process::{Command, Stdio};

/// Whether a program is here. In CI a missing one is a failure; elsewhere a visible skip.
pub fn real_part(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if found {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "{program} is missing; tests/real-parts.sh installs it");
    eprintln!("SKIP: {program} is missing; tests/real-parts.sh installs it");
    false
}
