//! Programs: what their end means, what they are given, and that nothing of them is left.

use std::{fs, path::Path, sync::Arc, time::Duration};

use glassbox::{
    Fault, FaultKind, Sensitive, Tool as _, ToolReply,
    core::ToolOutcome,
    tool::{command::Plan, template::Shape},
};
use serde_json::json;

use super::{command_plan, command_tool, context, outcome};

fn shell(script: &str) -> Plan {
    command_plan(&["sh", "-c", &script.replace('{', "{{").replace('}', "}}")])
}

async fn run(plan: Plan) -> Result<ToolReply, Fault> {
    command_tool(plan, &[]).call(&context(), json!({})).await
}

#[tokio::test]
async fn exit_codes_mean_what_is_declared() {
    let plan = Plan { refused: vec![2], tool_error: vec![3], ..shell("echo why >&2; exit 2") };
    let fault = run(plan.clone()).await.expect_err("refused");
    assert_eq!(
        (outcome(&fault), fault.detail.as_str()),
        (ToolOutcome::Refused, "the program refused with exit code 2: why")
    );
    for (script, end) in
        [("exit 3", ToolOutcome::ToolError), ("exit 1", ToolOutcome::Failed), ("kill -9 $$", ToolOutcome::Failed)]
    {
        let fault = run(Plan { argv: shell(script).argv, ..plan.clone() }).await.expect_err(script);
        assert_eq!(outcome(&fault), end, "{script}: {fault}");
    }
    let signal = run(shell("kill -9 $$")).await.expect_err("killed");
    assert!(signal.kind.leaves_outcome_unknown(), "nobody knows how far it came");
}

#[tokio::test]
async fn output_is_text_or_json_and_bounded() {
    assert_eq!(run(shell("echo hello")).await, Ok(ToolReply::Text("hello".into())));
    let json = |script: &str| Plan { json: true, ..shell(script) };
    assert_eq!(run(json("echo '{\"a\": 1}'")).await, Ok(ToolReply::Json(json!({"a": 1}))));
    assert_eq!(run(json("echo oops")).await.expect_err("no JSON").kind, FaultKind::Malformed);
    assert_eq!(run(shell("printf '\\377'")).await.expect_err("no text").kind, FaultKind::Malformed);
    let small = |script: &str| Plan { max_bytes: 4, ..shell(script) };
    assert_eq!(run(small("printf 1234")).await, Ok(ToolReply::Text("1234".into())));
    let endless = run(small("while :; do echo more; echo more >&2; done")).await.expect_err("too much");
    assert_eq!((endless.kind, endless.detail.as_str()), (FaultKind::Malformed, "the program wrote more than 4 bytes"));
}

#[tokio::test]
async fn its_surroundings_are_clean() {
    let mut plan = shell("env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= | sort; pwd; cat");
    plan.env.insert("TOKEN".into(), Sensitive::new("t".to_owned()));
    plan.inherited.insert("LANG".into(), "C".into());
    plan.inherited.insert("PATH".into(), "/usr/bin:/bin".into());
    plan.cwd = Path::new("/usr").to_owned();
    plan.stdin = Some(Shape::parse(&json!({"key": "{idempotency_key}"})).expect("a shape"));
    let key = context().idempotency_key;
    let text = format!("LANG=C\nPATH=/usr/bin:/bin\nTOKEN=t\n/usr\n{{\"key\":\"{key}\"}}");
    assert_eq!(run(plan).await, Ok(ToolReply::Text(text)));
}

#[tokio::test]
async fn a_program_that_is_not_there_was_surely_not_run() {
    let fault = run(command_plan(&["/no/such/program"])).await.expect_err("nothing there");
    assert!(fault.kind.surely_not_executed(), "{fault}");
    assert!(fault.detail.starts_with("the program /no/such/program cannot be started"), "{fault}");
}

#[tokio::test]
async fn a_program_need_not_read_what_it_is_given() {
    let mut plan = command_plan(&["sh", "-c", "echo done"]);
    plan.stdin = Some(Shape::parse(&json!({"big": "x".repeat(1 << 20)})).expect("a shape"));
    assert_eq!(run(plan).await, Ok(ToolReply::Text("done".into())));
}

#[tokio::test]
async fn what_it_began_dies_with_it_when_nobody_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pid");
    let script = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", file.display());
    let tool = Arc::new(command_tool(shell(&script), &[]));
    let task = tokio::spawn(async move { tool.call(&context(), json!({})).await });
    let pid = patiently(|| fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u32>().ok())).await;
    assert!(lives(pid), "it has begun");
    task.abort();
    assert!(task.await.expect_err("aborted").is_cancelled());
    patiently(|| (!lives(pid)).then_some(())).await;
}

/// Whether a process is there and not merely waiting to be buried.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with('Z'))
}

async fn patiently<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            match look() {
                Some(found) => return found,
                None => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), found).await.expect("in time")
}
