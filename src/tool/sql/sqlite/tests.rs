//! Tests of statements in a file of SQLite: values, limits, and what a statement may not do.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::tool::sql::Database;

const TABLES: &str = "
    create table t (id integer primary key, name text unique, price real, raw blob);
    insert into t values (1, 'one', 1.5, x'0001'), (2, 'two', null, null), (3, 'three', 3.0, null);
";

struct World {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn world() -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("test.sqlite");
    Connection::open(&path).expect("a file").execute_batch(TABLES).expect("tables");
    World { _folder: folder, path }
}

impl World {
    fn tool(&self, statement: &str, max_rows: usize, write: bool) -> Sqlite {
        let statement = Statement::parse(statement).expect("a statement");
        let plan = Plan { database: Database::Sqlite(self.path.clone()), statement, max_rows, write };
        Sqlite::new(self.path.clone(), &plan)
    }

    async fn ask(&self, statement: &str, arguments: Value) -> Result<Rows, Fault> {
        self.tool(statement, 100, false).run(arguments.as_object().cloned().unwrap_or_default()).await
    }

    async fn change(&self, statement: &str, arguments: Value) -> Result<Rows, Fault> {
        self.tool(statement, 100, true).run(arguments.as_object().cloned().unwrap_or_default()).await
    }

    fn names(&self) -> Vec<String> {
        let connection = Connection::open(&self.path).expect("the file");
        let mut statement = connection.prepare("select name from t order by id").expect("a statement");
        let names = statement.query_map([], |row| row.get(0)).expect("rows");
        names.collect::<rusqlite::Result<_>>().expect("names")
    }
}

#[tokio::test]
async fn values_keep_their_types() {
    let rows = world().ask("select *, name as id from t where id = :id", json!({"id": 1})).await.expect("rows");
    let row = json!({"id": 1, "name": "one", "price": 1.5, "raw": "AAE=", "id_2": "one"});
    assert_eq!(rows.into_json(), json!({ "rows": [row] }));
}

#[tokio::test]
async fn a_missing_argument_is_null_and_a_list_is_its_json() {
    let statement = "select :none as none, :flag as flag, value from json_each(:list)";
    let rows = world().ask(statement, json!({"flag": true, "list": ["a"]})).await.expect("rows");
    assert_eq!(rows.into_json(), json!({"rows": [{"none": null, "flag": 1, "value": "a"}]}));
}

#[tokio::test]
async fn more_rows_than_are_wanted_are_left_out_and_said() {
    let world = world();
    let few = world.tool("select id from t order by id", 2, false).run(Map::new()).await.expect("rows");
    assert_eq!(few.into_json(), json!({"rows": [{"id": 1}, {"id": 2}], "more": true}));
    let all = world.tool("select id from t order by id", 3, false).run(Map::new()).await.expect("rows");
    assert_eq!(all.into_json(), json!({"rows": [{"id": 1}, {"id": 2}, {"id": 3}]}));
}

#[tokio::test]
async fn a_tool_that_reads_cannot_change_anything() {
    let world = world();
    for statement in [
        "delete from t",
        "insert into t (name) values ('x')",
        "update t set name = 'x'",
        "drop table t",
        "create table u (a)",
        "attach 'other.sqlite' as other",
        "pragma query_only = off",
        "delete from t returning id",
    ] {
        let fault = world.ask(statement, json!({})).await.expect_err(statement);
        assert_eq!(fault.kind, FaultKind::Internal, "{statement}: {fault}");
    }
    assert_eq!(world.names(), ["one", "two", "three"]);
}

#[tokio::test]
async fn a_tool_that_writes_changes_rows_and_nothing_else() {
    let world = world();
    let changed = world.change("update t set name = :name where id = 2", json!({"name": "zwei"})).await.expect("ok");
    assert_eq!(changed.into_json(), json!({"affected": 1}));
    let gone = world.change("delete from t where id = 3 returning name", json!({})).await.expect("ok");
    assert_eq!(gone.into_json(), json!({"rows": [{"name": "three"}]}));
    let taken = world.change("insert into t (name) values ('one')", json!({})).await.expect_err("taken");
    assert_eq!(taken.kind, FaultKind::Refused);
    for statement in ["drop table t", "attach 'x' as y", "pragma writable_schema = on", "create table u (a)"] {
        assert!(world.change(statement, json!({})).await.is_err(), "{statement}");
    }
    assert_eq!(world.names(), ["one", "zwei"]);
}

#[tokio::test]
async fn a_file_that_is_not_there_is_no_connection_and_is_not_made() {
    let world = world();
    let path = world.path.with_file_name("none.sqlite");
    let plan = Plan {
        database: Database::Sqlite(path.clone()),
        statement: Statement::parse("select 1").expect("a statement"),
        max_rows: 1,
        write: true,
    };
    let fault = Sqlite::new(path.clone(), &plan).run(Map::new()).await.expect_err("no file");
    assert_eq!(fault.kind, FaultKind::Connection);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_statement_stops_when_nobody_waits_for_it() {
    let world = world();
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    let tool = world.tool(endless, 1, false);
    let inner = Arc::clone(&tool.inner);
    let cut = tokio::time::timeout(Duration::from_millis(50), tool.run(Map::new())).await;
    assert!(cut.is_err(), "it has no end");
    // The thread lets go of its share once the statement has stopped; the runtime waits for it.
    drop(tool);
    while Arc::strong_count(&inner) > 1 {
        tokio::task::yield_now().await;
    }
}
