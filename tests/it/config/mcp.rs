//! `mcp_servers`: what is read, what is implied, and what cannot be meant.

use std::time::Duration;

use glassbox::{
    core::Effect,
    tool::{
        Strict,
        mcp::{OnDrift, Reach},
    },
};

use super::{SMALL, loaded, mistakes};

#[test]
fn a_server_needs_no_more_than_its_command() {
    let text = format!("{SMALL}mcp_servers: {{files: {{command: [serve, -v, -v]}}}}\n");
    let config = loaded(&text, &[("PATH", "/bin"), ("SECRET", "s")]);
    let files = &config.mcp_servers["files"];
    assert_eq!((files.prefix.as_str(), files.strict, files.trusted), ("files_", Strict::Close, false));
    assert_eq!((files.start_timeout, files.on_drift), (Duration::from_secs(30), OnDrift::BlockPinned));
    let Reach::Stdio { command, inherited, .. } = &files.reach else { panic!("a child process") };
    assert_eq!(command, &["serve", "-v", "-v"]);
    assert_eq!(inherited.iter().collect::<Vec<_>>(), [(&"PATH".to_owned(), &"/bin".to_owned())]);
    assert_eq!(config.hints(), ["mcp_servers.files: no agent uses it"]);
}

#[test]
fn what_is_said_of_a_server_takes_effect_and_shows_no_secret() {
    let zeros = "0".repeat(64);
    let agents = SMALL.replace("    model: bank\n", "    model: bank\n    tools: [fs_*, web_find]\n");
    let text = format!(
        "{agents}mcp_servers:\n  files: {{command: [serve], prefix: fs_, tools: [a.b], env: {{K: {{env: KEY}}}}, \
         effect: idempotent, on_drift: block, pin: {{a.b: 'sha256:{zeros}'}}, \
         overrides: {{a.b: {{effect: read, description: Reads.}}}}}}\n  \
         web: {{url: 'http://127.0.0.1:1/mcp', headers: {{Authorization: {{env: KEY}}}}, trusted: true}}\n\
         rate_limits: {{tools: {{web_find: {{per_minute: 3}}}}}}\n"
    );
    let config = loaded(&text, &[("KEY", "hunter2")]);
    let files = &config.mcp_servers["files"];
    assert_eq!(files.all.effect, Some(Effect::Idempotent));
    assert_eq!(files.each["a.b"].effect, Some(Effect::Read));
    assert_eq!(files.each["a.b"].description.as_deref(), Some("Reads."));
    assert_eq!((files.on_drift, files.pins["a.b"].to_string()), (OnDrift::Block, format!("sha256:{zeros}")));
    assert_eq!(config.agents["bank"].tools, ["fs_*", "web_find"]);
    let shown = config.effective_yaml();
    assert!(!shown.contains("hunter2") && !format!("{config:?}").contains("hunter2"), "{shown}");
    assert!(shown.contains("authorization: \"[secret]\"") && shown.contains("on_drift: block"), "{shown}");
    let again = loaded(&shown, &[]);
    assert_eq!(again.effective_yaml(), shown);
    assert!(config.agent_fingerprint("bank").is_some_and(|text| text.contains("127.0.0.1:1/mcp")));
}

#[test]
fn what_cannot_be_meant_is_told() {
    for (lines, expected) in [
        ("mcp_servers: {a: {}}", "7:15: mcp_servers.a: must have either command, for a child process, or url"),
        (
            "mcp_servers: {a: {command: [x], url: 'http://h/'}}",
            "7:15: mcp_servers.a: must have either command, for a child process, or url",
        ),
        (
            "mcp_servers: {a: {command: []}}",
            "7:28: mcp_servers.a.command: must name a program and its arguments, such as [mcp-server-time, --utc]",
        ),
        (
            "mcp_servers: {a: {command: [x], headers: {K: v}}}",
            "7:42: mcp_servers.a.headers: is for servers with url only",
        ),
        ("mcp_servers: {a: {url: 'http://h/', cwd: x}}", "7:42: mcp_servers.a.cwd: is for servers with command only"),
        (
            "mcp_servers: {a: {command: [x], prefix: 'a.'}}",
            "7:41: mcp_servers.a.prefix: must be 1 to 32 letters, digits, _ and -",
        ),
        (
            "mcp_servers: {a: {command: [x], pin: {t: '00'}}}",
            "7:42: mcp_servers.a.pin.t: must be sha256: and 64 hex digits, not \"00\"",
        ),
        (
            "mcp_servers: {a: {command: [x]}, b: {command: [x], prefix: a_b}}",
            "7:60: mcp_servers.b.prefix: a_b and a_ of mcp_servers.a cannot be told apart; choose another",
        ),
        (
            "tools: {a_x: {builtin: txn_sum}}\nmcp_servers: {a: {command: [x]}}",
            "8:15: mcp_servers.a.prefix: a_ begins the name of tools.a_x; choose another",
        ),
    ] {
        assert_eq!(mistakes(&format!("{SMALL}{lines}\n"), &[]), [format!("glassbox.yaml:{expected}")], "{lines}");
    }
}
