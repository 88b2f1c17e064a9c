//! What a model could send to break out of the shape of a tool. Either the call is refused and the
//! other side hears nothing, or the other side gets exactly this value in exactly its place.

use std::{collections::BTreeSet, sync::Arc};

use glassbox::{
    Effect, ToolReply,
    core::ToolOutcome,
    tool::{
        SqlTool,
        http::{Address, Body, Header, Method, Plan},
        sql::{self, Database, Statement},
        template::Shape,
    },
};
use serde_json::{Value, json};

use super::{
    ask, command_plan, command_tool, http_tool, outcome,
    postgres_server::Server,
    service::{Service, pairs},
    spec, template, templates,
};
use crate::mcp::{World, server::Fake};

/// Values of every bad sort.
pub fn hostile() -> Vec<String> {
    let mut values: Vec<String> = [
        // SQL
        "' OR '1'='1",
        "'; DROP TABLE t; --",
        "\" OR 1=1 --",
        "1); DELETE FROM t; --",
        "x' UNION SELECT name FROM sqlite_master --",
        "$1",
        ":value",
        "?1",
        "$$; drop table t; $$",
        "\\'; drop table t; --",
        // paths
        "..",
        ".",
        "../../etc/passwd",
        "..\\..\\windows",
        "%2e%2e",
        "%2E%2E%2Fadmin",
        "%252e%252e/",
        "a/../../b",
        "/etc/passwd",
        "//evil.example/x",
        "..;/admin",
        // addresses
        "http://evil.example/",
        "@evil.example",
        ":80@evil.example",
        "evil.example:443",
        "x?admin=1",
        "x#fragment",
        "x&admin=1",
        "x;admin=1",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://169.254.169.254/latest/meta-data/",
        "[::1]",
        // lines
        "x\r\nX-Admin: 1",
        "x\nSet-Cookie: a=b",
        "x\r\n\r\nGET /admin HTTP/1.1",
        "x\0y",
        "\u{2028}x",
        // options and shells
        "-rf",
        "--help",
        "--output=/etc/passwd",
        "-",
        "--",
        "$(touch /tmp/pwned)",
        "`id`",
        "; rm -rf /",
        "| cat /etc/passwd",
        "&& id",
        "$HOME",
        "*",
        "~",
        "a b  c",
        "\"quoted\" 'twice'",
        // templates
        "{value}",
        "{{value}}",
        "{{ principal.id }}",
        "${value}",
        "{{7*7}}",
        "%s%n",
        "{idempotency_key}",
        // look-alikes
        "．．／admin",
        "⁄etc⁄passwd",
        "‥/x",
        "ʼ OR 1=1",
        "＇; DROP TABLE t; --",
        "－－help",
        "аdmin",
        "x\u{202e}gpj.exe",
        "\u{feff}x",
        // JSON
        "\", \"admin\": true, \"x\": \"",
        "null",
        "",
        " ",
    ]
    .map(str::to_owned)
    .to_vec();
    values.push("x".repeat(7000));
    values.push("é".repeat(60_000));
    // Larger than all arguments together may be.
    values.push("x".repeat(1 << 20));
    values
}

/// What may be refused, and as what.
fn is_refusal(outcome: ToolOutcome) -> bool {
    matches!(outcome, ToolOutcome::Refused | ToolOutcome::InvalidArguments)
}

#[test]
fn the_list_holds_every_sort_once() {
    let values = hostile();
    assert_eq!(values.iter().collect::<BTreeSet<_>>().len(), values.len());
}

#[tokio::test]
async fn a_request_keeps_its_shape() {
    let service = Service::saying(200, "{}").await;
    let mut plan = Plan::get(Address::parse(&service.url("/v1/{value}/end")).expect("an address"));
    plan.method = Method::Post;
    plan.query = templates(&[("q", "a {value}")]);
    plan.body = Some(Body::Json(Shape::parse(&json!({"v": "{value}", "w": "<{value}>"})).expect("a shape")));
    let tool = Arc::new(http_tool(spec(Effect::Read, &["value"]), plan));
    let (mut sent, mut names) = (0, BTreeSet::new());
    for value in hostile() {
        let end = ask(tool.clone(), json!({ "value": value })).await;
        let asked = service.asked();
        match end {
            Err(refusal) => assert!(is_refusal(refusal.outcome), "{refusal:?}"),
            Ok(Err(fault)) => assert!(is_refusal(outcome(&fault)), "{fault}"),
            Ok(Ok(_)) => {
                sent += 1;
                let last = asked.last().expect("a request");
                assert_eq!(last.method, "POST");
                assert_eq!(last.segments(), ["v1", &value, "end"], "{}", last.uri);
                assert_eq!(last.query(), [("q".to_owned(), format!("a {value}"))], "{}", last.uri);
                let body: Value = serde_json::from_slice(&last.body).expect("JSON");
                assert_eq!(body, json!({"v": value, "w": format!("<{value}>")}));
                assert_eq!(last.header("host"), Some(service.address.to_string().as_str()));
                names.insert(last.headers.keys().map(ToString::to_string).collect::<Vec<_>>());
            }
        }
        assert_eq!(asked.len(), sent, "refused and yet sent: {value:?}");
    }
    assert_eq!(names.len(), 1, "the same headers each time: {names:?}");
    // All but "", ".", ".." and the two that are too long.
    assert_eq!(sent, hostile().len() - 5);
}

#[tokio::test]
async fn a_header_and_a_form_keep_their_shape() {
    let service = Service::saying(200, "{}").await;
    let mut plan = Plan::get(Address::parse(&service.url("/form")).expect("an address"));
    plan.method = Method::Post;
    plan.headers.insert("x-value".into(), Header::Text(template("v {value}.")));
    plan.body = Some(Body::Form(templates(&[("v", "{value}"), ("fixed", "1")])));
    let tool = Arc::new(http_tool(spec(Effect::Read, &["value"]), plan));
    let (mut sent, mut names) = (0, BTreeSet::new());
    for value in hostile() {
        let end = ask(tool.clone(), json!({ "value": value })).await;
        if let Ok(Ok(_)) = end {
            sent += 1;
            let last = service.asked().last().expect("a request").clone();
            assert_eq!(last.header("x-value"), Some(format!("v {value}.").as_str()));
            let form = pairs(std::str::from_utf8(&last.body).expect("plain letters"));
            assert_eq!(form, [("fixed".to_owned(), "1".to_owned()), ("v".to_owned(), value.clone())]);
            names.insert(last.headers.keys().map(ToString::to_string).collect::<Vec<_>>());
            assert!(value.chars().all(|c| (' '..='~').contains(&c)), "only plain lines go into a header: {value:?}");
        }
        assert_eq!(service.asked().len(), sent, "{value:?}");
    }
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(sent > 50, "{sent}");
}

/// Whatever is sent comes back as the value that it is, and the table is still as it was.
async fn statement_keeps_its_shape(tool: Arc<SqlTool>, refuses: fn(&str) -> bool) {
    for value in hostile() {
        match ask(tool.clone(), json!({ "value": value })).await {
            Err(refusal) => assert!(value.len() > 256 << 10, "{refusal:?}"),
            Ok(Ok(ToolReply::Json(reply))) => {
                assert_eq!(reply, json!({"rows": [{"v": value, "hits": 0, "all_rows": 2}]}));
            }
            Ok(end) => assert!(refuses(&value) && end.is_err_and(|fault| is_refusal(outcome(&fault))), "{value:?}"),
        }
    }
}

const ECHO: &str = "select :value as v, (select count(*) from t where name = :value) as hits, \
                    (select count(*) from t) as all_rows -- not :a parameter";

#[tokio::test]
async fn a_statement_keeps_its_shape_in_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.sqlite");
    let tables = "create table t (name text); insert into t values ('one'), ('two');";
    rusqlite::Connection::open(&path).expect("a file").execute_batch(tables).expect("tables");
    for write in [false, true] {
        let statement = Statement::parse(ECHO).expect("a statement");
        let plan = sql::Plan { database: Database::Sqlite(path.clone()), statement, max_rows: 5, write };
        let tool = SqlTool::new(spec(Effect::Read, &["value"]), plan).expect("a tool");
        statement_keeps_its_shape(Arc::new(tool), |_| false).await;
    }
}

#[tokio::test]
async fn a_statement_keeps_its_shape_in_postgres() {
    let Some(server) = Server::start() else { return };
    server.run("create table t (name text); insert into t values ('one'), ('two');").await;
    let statement = Statement::parse(&ECHO.replace(":value as v", ":value::text as v")).expect("a statement");
    let plan = sql::Plan { database: server.database(), statement, max_rows: 5, write: true };
    let tool = SqlTool::new(spec(Effect::Read, &["value"]), plan).expect("a tool");
    // Postgres has no text with U+0000 in it.
    statement_keeps_its_shape(Arc::new(tool), |value| value.contains('\0')).await;
}

/// Shows its words in brackets, then its standard input.
const SHOW: &str = r#"printf '[%s]' "$@"; printf '|'; cat"#;

#[tokio::test]
async fn a_program_gets_words_and_never_options() {
    let mut plan = command_plan(&["sh", "-c", SHOW, "show", "--v={value}", "{value}", "--", "{value}!"]);
    plan.stdin = Some(Shape::parse(&json!({"v": "{value}"})).expect("a shape"));
    let tool = Arc::new(command_tool(plan, &["value"]));
    let mut shown = 0;
    for value in hostile() {
        match ask(tool.clone(), json!({ "value": value })).await {
            Err(refusal) => assert!(value.len() > 256 << 10, "{refusal:?}"),
            Ok(Ok(ToolReply::Text(text))) => {
                shown += 1;
                let stdin = json!({ "v": value });
                assert_eq!(text, format!("[--v={value}][{value}][--][{value}!]|{stdin}"));
            }
            Ok(end) => {
                let refused = end.is_err_and(|fault| is_refusal(outcome(&fault)));
                assert!(refused && (value.starts_with('-') || value.contains('\0')), "{value:?}");
            }
        }
    }
    // Five begin with a dash, one holds U+0000, one is too long for any call.
    assert_eq!(shown, hostile().len() - 7);
}

#[tokio::test]
async fn after_two_dashes_nothing_is_an_option() {
    let plan = command_plan(&["sh", "-c", SHOW, "show", "--", "{value}"]);
    let tool = Arc::new(command_tool(plan, &["value"]));
    let end = ask(tool, json!({"value": "-rf"})).await.expect("admitted").expect("it runs");
    assert_eq!(end, ToolReply::Text("[--][-rf]|".into()));
}

#[tokio::test]
async fn an_mcp_server_gets_the_value_and_nothing_else() {
    let fake = Fake::new();
    let world = World::new(&fake.yaml("effect: read"));
    let (mut sent, all) = (0, hostile());
    // The one that is too long for any call is refused before.
    for value in all.iter().filter(|value| value.len() <= 256 << 10) {
        let end = world.call("fake_echo", json!({ "text": value })).await;
        assert_eq!(end.outcome, ToolOutcome::Ok, "{value:?}: {end:?}");
        let calls: Vec<_> = fake.heard().into_iter().filter(|heard| heard["method"] == "tools/call").collect();
        sent += 1;
        assert_eq!(calls.len(), sent, "{value:?}");
        let last = &calls[sent - 1]["params"];
        assert_eq!((&last["name"], &last["arguments"]), (&json!("echo"), &json!({ "text": value })));
    }
    assert_eq!(sent, all.len() - 1);
    world.stop().await;
}
