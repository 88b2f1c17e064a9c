//! Statements on a real Postgres server: values, limits, and a server that goes and comes back.

use std::{sync::Arc, time::Duration};

use glassbox::{
    Effect, Fault, FaultKind, Tool as _, ToolReply,
    tool::{
        SqlTool,
        sql::{Database, Plan, Statement},
    },
};
use serde_json::{Value, json};

use super::{context, postgres_server::Server, spec};

fn tool(server: &Server, statement: &str, write: bool) -> SqlTool {
    let statement = Statement::parse(statement).expect("a statement");
    let plan = Plan { database: server.database(), statement, max_rows: 3, write };
    let spec = spec(Effect::Read, &[]).timeout(Duration::from_secs(10));
    SqlTool::new(spec, plan).expect("a good address")
}

async fn ask(tool: &SqlTool, arguments: Value) -> Result<Value, Fault> {
    match tool.call(&context(), arguments).await? {
        ToolReply::Json(value) => Ok(value),
        ToolReply::Text(text) => panic!("{text}"),
    }
}

const TABLES: &str = "
    create table accounts (id int primary key, owner text not null, balance numeric(20, 2) check (balance >= 0));
    insert into accounts values (1, 'C-001', 12345678901234567.89), (2, 'C-002', 0.10), (3, 'C-001', 7);
";

#[tokio::test]
async fn a_server_is_asked_changed_and_found_again() {
    let Some(server) = Server::start() else { return };
    server.run(TABLES).await;
    values_keep_their_types(&server).await;
    arguments_are_read_by_the_type_that_the_statement_gives_them(&server).await;
    rows_are_limited(&server).await;
    a_tool_that_reads_cannot_change_anything(&server).await;
    a_tool_that_writes_does(&server).await;
    what_the_tables_refuse_is_refused(&server).await;
    a_call_that_nobody_waits_for_is_stopped(&server).await;
    a_lost_server_is_found_again(&server).await;
}

async fn values_keep_their_types(server: &Server) {
    let statement = "select 1::int2 as small, 9007199254740993::int8 as big, 1.5::float8 as real, 'NaN'::float8 as nan, \
                     12345678901234567.89::numeric as exact, true as yes, null::text as none, 'т' as text, \
                     date '2026-09-30' as day, timestamptz '2026-09-30 10:00+00' at time zone 'utc' as time, \
                     '{\"a\": [1]}'::jsonb as json, array[1, 2] as list, interval '1 day' as span, 2 as small";
    let rows = ask(&tool(server, statement, false), json!({})).await.expect("rows");
    let row = json!({
        "small": 1, "big": 9_007_199_254_740_993_u64, "real": 1.5, "nan": "NaN", "exact": "12345678901234567.89",
        "yes": true, "none": null, "text": "т", "day": "2026-09-30", "time": "2026-09-30 10:00:00",
        "json": {"a": [1]}, "list": "{1,2}", "span": "1 day", "small_2": 2
    });
    assert_eq!(rows, json!({ "rows": [row] }));
}

async fn arguments_are_read_by_the_type_that_the_statement_gives_them(server: &Server) {
    let statement = "select id from accounts where owner = :owner and balance > :least and id = any(:ids) \
                     and (:day::date is null or :day < date '2027-01-01')";
    let by = tool(server, statement, false);
    let all = json!({"owner": "C-001", "least": 6.5, "ids": "{1,2,3}", "day": "2026-01-01"});
    assert_eq!(ask(&by, all).await.expect("rows"), json!({"rows": [{"id": 1}, {"id": 3}]}));
    let none = json!({"owner": "C-001", "least": "12345678901234567.88", "ids": "{1,3}"});
    assert_eq!(ask(&by, none).await.expect("rows"), json!({"rows": [{"id": 1}]}));
    let fault = ask(&by, json!({"owner": "C-001", "least": "much", "ids": "{}"})).await.expect_err("no number");
    assert_eq!(fault.kind, FaultKind::Refused, "{fault}");
}

async fn rows_are_limited(server: &Server) {
    let numbers = |last: u8| format!("select n from generate_series(1, {last}) as n order by n desc");
    let rows = ask(&tool(server, &numbers(5), false), json!({})).await.expect("rows");
    assert_eq!(rows, json!({"rows": [{"n": 5}, {"n": 4}, {"n": 3}], "more": true}));
    let rows = ask(&tool(server, &numbers(3), false), json!({})).await.expect("rows");
    assert_eq!(rows, json!({"rows": [{"n": 3}, {"n": 2}, {"n": 1}]}));
}

async fn count(server: &Server, sql: &str) -> i64 {
    server.connect().await.query_one(sql, &[]).await.expect("a row").get(0)
}

async fn a_tool_that_reads_cannot_change_anything(server: &Server) {
    for statement in [
        "delete from accounts",
        "insert into accounts values (9, 'x', 0)",
        "update accounts set balance = 0 returning id",
        "create table other (a int)",
        "select setval(pg_get_serial_sequence('x', 'y'), 1)",
    ] {
        assert!(ask(&tool(server, statement, false), json!({})).await.is_err(), "{statement}");
    }
    assert_eq!(count(server, "select count(*) from accounts where balance > 0").await, 3);
}

async fn a_tool_that_writes_does(server: &Server) {
    let pay = tool(server, "update accounts set balance = balance - :amount where id = :id", true);
    assert_eq!(ask(&pay, json!({"amount": 7, "id": 3})).await.expect("paid"), json!({"affected": 1}));
    let add = tool(server, "insert into accounts values (4, :owner, 1) returning id, balance", true);
    let row = json!({"rows": [{"id": 4, "balance": "1.00"}]});
    assert_eq!(ask(&add, json!({"owner": "C-003"})).await.expect("added"), row);
    assert_eq!(count(server, "select count(*) from accounts where balance = 0 or owner = 'C-003'").await, 2);
}

async fn what_the_tables_refuse_is_refused(server: &Server) {
    let pay = tool(server, "update accounts set balance = balance - :amount where id = :id", true);
    let fault = ask(&pay, json!({"amount": 5, "id": 2})).await.expect_err("no money");
    assert_eq!(fault.kind, FaultKind::Refused, "{fault}");
    // The connection is good for the next call.
    assert_eq!(ask(&pay, json!({"amount": "0.10", "id": 2})).await.expect("paid"), json!({"affected": 1}));
    let wrong = ask(&tool(server, "select nothing from nowhere", false), json!({})).await.expect_err("no table");
    assert_eq!(wrong.kind, FaultKind::Internal, "{wrong}");
}

const SLEEPING: &str = "select count(*) from pg_stat_activity where state = 'active' and query like '%pg_sleep(1000)%' \
                        and pid <> pg_backend_pid()";

async fn a_call_that_nobody_waits_for_is_stopped(server: &Server) {
    let sleep = Arc::new(tool(server, "select pg_sleep(1000)::text as a", false));
    let task = tokio::spawn({
        let sleep = sleep.clone();
        async move { ask(&sleep, json!({})).await }
    });
    wait_until(server, 1).await;
    task.abort();
    assert!(task.await.expect_err("aborted").is_cancelled());
    wait_until(server, 0).await;
}

/// Waits until so many sessions of the server sleep.
async fn wait_until(server: &Server, sessions: i64) {
    let client = server.connect().await;
    let reached = async { while client.query_one(SLEEPING, &[]).await.expect("a row").get::<_, i64>(0) != sessions {} };
    tokio::time::timeout(Duration::from_secs(20), reached).await.expect("in time");
}

async fn a_lost_server_is_found_again(server: &Server) {
    let one = tool(server, "select 1 as one", false);
    let row = json!({"rows": [{"one": 1}]});
    assert_eq!(ask(&one, json!({})).await.expect("a row"), row);
    server.stop();
    let fault = ask(&one, json!({})).await.expect_err("nobody is there");
    assert!(matches!(fault.kind, FaultKind::Connection | FaultKind::Transport), "{fault}");
    let fault = ask(&one, json!({})).await.expect_err("nobody is there");
    assert_eq!(fault.kind, FaultKind::Connection, "{fault}");
    server.begin();
    assert_eq!(ask(&one, json!({})).await.expect("a row"), row);
}

async fn encrypted(address: &str) -> Result<Value, Fault> {
    let statement = Statement::parse("select ssl from pg_stat_ssl where pid = pg_backend_pid()").expect("a statement");
    let database = Database::Postgres(glassbox::Sensitive::new(address.to_owned()));
    let plan = Plan { database, statement, max_rows: 1, write: false };
    let spec = spec(Effect::Read, &[]).timeout(Duration::from_secs(10));
    ask(&SqlTool::new(spec, plan).expect("a good address"), json!({})).await
}

#[tokio::test]
async fn a_server_with_a_certificate_is_spoken_to_as_far_as_it_is_trusted() {
    let Some(server) = Server::start_secure() else { return };
    let ca = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls/ca.pem");
    // The certificate is for 127.0.0.1, not for this name.
    let (right, other) = (server.url(), format!("postgres://postgres@other.example:{}/postgres", server.port()));
    for (address, under_tls) in [
        (right.clone(), true),
        (format!("{right}?sslmode=disable"), false),
        (format!("{right}?sslmode=prefer"), true),
        (format!("{right}?sslmode=require"), true),
        (format!("{right}?sslmode=verify-ca&sslrootcert={ca}"), true),
        (format!("{right}?sslmode=verify-full&sslrootcert={ca}"), true),
        (format!("{other}?hostaddr=127.0.0.1&sslmode=require"), true),
        (format!("{other}?hostaddr=127.0.0.1&sslmode=verify-ca&sslrootcert={ca}"), true),
    ] {
        let row = json!({"rows": [{"ssl": under_tls}]});
        assert_eq!(encrypted(&address).await.unwrap_or_else(|fault| panic!("{address}: {fault}")), row, "{address}");
    }
    for address in [
        // The system knows nothing of the authority of this certificate.
        format!("{right}?sslmode=verify-full"),
        format!("{right}?sslmode=verify-ca"),
        format!("{other}?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={ca}"),
    ] {
        let fault = encrypted(&address).await.expect_err("not trusted");
        assert_eq!(fault.kind, FaultKind::Connection, "{address}: {fault}");
    }
    a_call_that_nobody_waits_for_is_stopped(&server).await;
}

#[tokio::test]
async fn where_tls_is_required_a_server_without_it_is_not_asked() {
    let Some(server) = Server::start() else { return };
    let fault = encrypted(&format!("{}?sslmode=require", server.url())).await.expect_err("no TLS");
    assert_eq!(fault.kind, FaultKind::Connection, "{fault}");
    let row = json!({"rows": [{"ssl": false}]});
    assert_eq!(encrypted(&server.url()).await.expect("a row"), row, "without TLS where it is only preferred");
}

#[tokio::test]
async fn the_servers_own_limit_of_time_holds() {
    let Some(server) = Server::start() else { return };
    let statement = Statement::parse("select pg_sleep(1000)::text as a").expect("a statement");
    let plan = Plan { database: server.database(), statement, max_rows: 1, write: false };
    let spec = spec(Effect::Read, &[]).timeout(Duration::from_millis(100));
    let fault = ask(&SqlTool::new(spec, plan).expect("a tool"), json!({})).await.expect_err("too slow");
    assert_eq!(fault.kind, FaultKind::Timeout, "{fault}");
}

#[test]
fn an_address_that_cannot_be_read_is_told_without_its_text() {
    let database = Database::Postgres(glassbox::Sensitive::new("postgres://me:sesame@host:port/x".to_owned()));
    let statement = Statement::parse("select 1").expect("a statement");
    let error = SqlTool::new(spec(Effect::Read, &[]), Plan { database, statement, max_rows: 1, write: false });
    let text = error.expect_err("no port").to_string();
    assert!(!text.contains("sesame"), "{text}");
}
