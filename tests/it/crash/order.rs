//! The order of the system calls themselves: the intent of an effect is on the disk before the
//! effect goes out.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use super::{LIFE, PLAN, Plan, USUAL};
use crate::process::have;

/// Traces one undisturbed life; gives its system calls in order, a line each.
fn calls(folder: &Path) -> Vec<String> {
    let plan = Plan { folder: folder.to_owned(), life: 0, config: USUAL.to_owned(), sessions: 1, kill: None };
    let output = folder.join("calls");
    let status = Command::new("strace")
        .args(["-f", "-y", "-s", "70000", "-e", "trace=fsync,fdatasync,write,pwrite64", "-o"])
        .arg(&output)
        .arg(std::env::current_exe().expect("this binary"))
        .args([LIFE, "--exact", "--nocapture"])
        .env(PLAN, serde_json::to_string(&plan).expect("a plan"))
        .stdout(Stdio::null())
        .status()
        .expect("strace");
    assert!(status.success(), "{status}");
    String::from_utf8_lossy(&fs::read(output).expect("the calls")).lines().map(str::to_owned).collect()
}

/// Where the first sync of the journal that begins at `from` or later has come back. A call that
/// others interrupt in the trace has two lines: one where it begins, one where it is resumed.
fn synced_after(calls: &[String], from: usize) -> Option<usize> {
    let begun = |line: &String| line.contains("sync(") && line.contains("/journal.db-wal>");
    let start = calls.iter().skip(from).position(begun)? + from;
    if !calls[start].contains("<unfinished") {
        return calls[start].contains("= 0").then_some(start);
    }
    let thread = calls[start].split(' ').next()?;
    let resumed = |line: &String| line.starts_with(thread) && line.contains("sync resumed>");
    let end = calls.iter().skip(start).position(resumed)? + start;
    calls[end].contains("= 0").then_some(end)
}

#[test]
fn the_intent_is_synced_before_the_effect_goes_out() {
    if !have("strace") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let calls = calls(folder.path());
    let place = |what: &dyn Fn(&str) -> bool, from: usize| {
        calls.iter().skip(from).position(|line| what(line)).map(|place| place + from)
    };
    let of_journal = |line: &str| line.contains("/journal.db-wal>");
    let intent = place(&|line| of_journal(line) && line.contains(r#"\"effect\":\"unsafe\""#), 0);
    let intent = intent.expect("the intent is written to the journal");
    let synced = synced_after(&calls, intent).expect("the journal is synced");
    let effect = place(&|line| line.contains("/effects>") && line.contains("\"pay "), 0).expect("the effect");
    assert!(intent < synced && synced < effect, "intent at {intent}, synced at {synced}, effect at {effect}");
    let result = place(&|line| of_journal(line) && line.contains("tool_call_finished"), effect);
    let result = result.expect("the result is written");
    assert!(synced_after(&calls, result).is_some(), "the result is synced right after");
}
