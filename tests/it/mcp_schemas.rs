//! Schemas that others wrote: each compiles closed, or is refused with a place.

use std::{fs, path::Path};

use glassbox::{
    core::Arguments,
    tool::{Schema, Strict},
};
use serde_json::{Value, json};

fn tools() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/mcp-tools");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the data").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let mut tools = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "json")) {
        let server: Value = serde_json::from_slice(&fs::read(file).expect("readable")).expect("JSON");
        for tool in server["tools"].as_array().expect("a list") {
            let name =
                format!("{}/{}", server["server"].as_str().expect("a name"), tool["name"].as_str().expect("a name"));
            tools.push((name, tool["inputSchema"].clone()));
        }
    }
    tools
}

#[test]
fn every_schema_of_fifteen_servers_compiles_and_is_closed() {
    let tools = tools();
    assert_eq!(tools.len(), 96);
    for (name, schema) in tools {
        let compiled = Schema::compile(&schema, Strict::Close).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        let extra = Arguments::Json(json!({"not_declared_anywhere": 1}));
        let words = compiled.check(&extra).expect_err("an extra field").to_string();
        assert!(words.contains("/not_declared_anywhere: not an allowed field"), "{name}: {words}");
    }
}

#[test]
fn only_the_servers_that_close_their_schemas_pass_as_they_are() {
    let mut servers: Vec<String> = tools()
        .into_iter()
        .filter(|(_, schema)| Schema::compile(schema, Strict::Refuse).is_ok())
        .map(|(name, _)| name.split('/').next().unwrap_or_default().to_owned())
        .collect();
    servers.dedup();
    assert_eq!(servers, ["gitlab"]);
}
