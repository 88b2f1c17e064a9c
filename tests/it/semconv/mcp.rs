//! The spans of calls of MCP tools, held against the MCP conventions: a client whose calls are
//! traced already adds its attributes to their spans.

use std::collections::{BTreeMap, BTreeSet};

use glassbox::{
    core::{Entry, ToolOutcome},
    signal::spans::SpanFold,
};
use opentelemetry::Value;
use opentelemetry_sdk::trace::SpanData;
use serde_json::{Value as Json, json};

use super::{Attribute, REGISTRY, kind, operation, registry};
use crate::mcp::{World, http, server::Fake};

const MCP_REGISTRY: &str = include_str!("../../data/semconv-genai/mcp-registry.yaml");
const COMMON: &str = include_str!("../../data/semconv-genai/mcp-common.yaml");
const SPANS: &str = include_str!("../../data/semconv-genai/mcp-spans.yaml");

/// Of the general registry: name, type and the members of a set.
/// <https://opentelemetry.io/docs/specs/semconv/registry/attributes/network/> and `server/` there.
const GENERAL: [(&str, &str, &[&str]); 4] = [
    ("network.transport", "string", &["pipe", "quic", "tcp", "udp", "unix"]),
    ("network.protocol.name", "string", &[]),
    ("server.address", "string", &[]),
    ("server.port", "int", &[]),
];

/// What the conventions ask of a client's span, and none of ours has, with the reason.
const LEFT_OUT: [(&str, &str); 7] = [
    ("gen_ai.prompt.name", "no prompt of a server is ever asked for"),
    ("mcp.resource.uri", "no resource of a server is ever read"),
    ("mcp.session.id", "of a connection: it may be another for each attempt of a call, and the client keeps it"),
    ("jsonrpc.request.id", "one for each attempt of a call, and the client keeps it"),
    ("jsonrpc.protocol.version", "asked for only where it is not 2.0, and it always is"),
    ("rpc.response.status_code", "the journal holds an error that a server answered as a phrase, not by its number"),
    ("network.protocol.version", "the pool of connections agrees on it, and does not tell"),
];

/// What the conventions ask of a client's span, by its level.
fn asked() -> BTreeMap<String, String> {
    let [common, spans]: [Json; 2] = [COMMON, SPANS].map(|text| serde_saphyr::from_str(text).unwrap());
    let groups = [&common, &spans].into_iter().flat_map(|file| file["attribute_groups"].as_array().unwrap());
    let groups: BTreeMap<_, _> = groups.map(|group| (group["id"].as_str().unwrap(), &group["attributes"])).collect();
    let client = spans["spans"].as_array().unwrap().iter().find(|span| span["type"] == "mcp.client").unwrap();
    let (mut open, mut names) = (vec![&client["attributes"]], BTreeMap::new());
    while let Some(attributes) = open.pop() {
        for attribute in attributes.as_array().unwrap() {
            if let Some(group) = attribute["ref_group"].as_str() {
                open.push(groups[group]);
                continue;
            }
            let level = &attribute["requirement_level"];
            let conditional = || level.as_object().and_then(|level| level.keys().next()).map(String::as_str);
            // Where nothing is said, it is recommended.
            let level = level.as_str().or_else(conditional).unwrap_or("recommended");
            names.insert(attribute["ref"].as_str().unwrap().to_owned(), level.to_owned());
        }
    }
    names
}

/// Every attribute that a span of such a call may have, by the registries.
fn known() -> BTreeMap<String, Attribute> {
    let mut known = registry(REGISTRY);
    known.extend(registry(MCP_REGISTRY));
    known.extend(GENERAL.map(|(name, kind, members)| {
        let members = members.iter().map(|&member| member.to_owned()).collect();
        (name.to_owned(), Attribute { kind: kind.to_owned(), members })
    }));
    known
}

fn spans(entries: &[Entry]) -> Vec<SpanData> {
    let mut fold = SpanFold::new();
    entries.iter().filter_map(|entry| fold.apply(entry)).collect()
}

/// The tool spans of a world's one session: as they are, and the same of a later process.
fn tool_spans(world: &World) -> Vec<SpanData> {
    let [session] = world.store_sessions()[..] else { panic!("one session") };
    let entries = world.entries(session);
    let spans_of = |entries: &[Entry]| {
        let tools = spans(entries).into_iter().filter(|span| operation(span) == "execute_tool");
        tools.collect::<Vec<_>>()
    };
    let read_again = |entry: &Entry| {
        let fact = serde_json::from_str(&serde_json::to_string(&entry.fact).unwrap()).unwrap();
        Entry { fact, ..entry.clone() }
    };
    let read_again: Vec<_> = entries.iter().map(read_again).collect();
    let (now, later) = (spans_of(&entries), spans_of(&read_again));
    assert!(now.iter().map(of).eq(later.iter().map(of)));
    now
}

/// The attributes of a span by name.
fn of(span: &SpanData) -> BTreeMap<&str, &Value> {
    span.attributes.iter().map(|attribute| (attribute.key.as_str(), &attribute.value)).collect()
}

/// Those of them that say something of a server.
fn of_server(span: &SpanData) -> Vec<String> {
    let prefixes = ["mcp.", "network.", "server.", "rpc.", "jsonrpc."];
    let server = of(span).into_iter().filter(|(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)));
    server.map(|(name, value)| format!("{name}={value}")).collect()
}

/// Calls that went well, that the tool and the protocol said no to, and that asked nobody.
async fn over_pipes() -> Vec<SpanData> {
    let fake = Fake::new();
    let world = World::new(&fake.yaml("effect: read\ntimeout: 20s"));
    let calls = [
        ("fake_echo", json!({"text": "a"})),
        ("fake_fail", json!({})),
        ("fake_refuse", json!({})),
        ("fake_echo", json!({"invented": 1})),
        ("fake_invented", json!({})),
    ];
    let ends = world.session(&calls).await;
    let outcomes: Vec<_> = ends.iter().map(|end| end.outcome).collect();
    let [no, invalid, unknown] = [ToolOutcome::Refused, ToolOutcome::InvalidArguments, ToolOutcome::UnknownTool];
    assert_eq!(outcomes, [ToolOutcome::Ok, ToolOutcome::ToolError, no, invalid, unknown]);
    let spans = tool_spans(&world);
    world.stop().await;
    spans
}

/// A call that went well, and the port of the server.
async fn over_http() -> (SpanData, u16) {
    let (url, _book) = http::serve().await;
    let world = World::new(&http::yaml(&url));
    assert_eq!(world.call("fake_echo", json!({"text": "a"})).await.outcome, ToolOutcome::Ok);
    let span = tool_spans(&world).remove(0);
    world.stop().await;
    let port = url.split([':', '/']).nth(4).unwrap().parse().unwrap();
    (span, port)
}

#[tokio::test]
async fn a_call_says_which_server_it_asked_and_one_that_asked_none_says_nothing() {
    let spans = over_pipes().await;
    // The version is the one that the client offers: both servers of the test agree to it.
    let pipe = ["mcp.method.name=tools/call", "mcp.protocol.version=2025-11-25", "network.transport=pipe"];
    for span in &spans[..3] {
        assert_eq!(of_server(span), pipe, "{}", span.name);
    }
    for span in &spans[3..] {
        assert_eq!(of_server(span), [""; 0], "{}", span.name);
    }
    // What a tool says within a result is `tool_error`, by the conventions too.
    let errors: Vec<_> = spans.iter().map(|span| of(span).get("error.type").map(ToString::to_string)).collect();
    let errors: Vec<_> = errors.iter().map(Option::as_deref).collect();
    assert_eq!(errors, [None, Some("tool_error"), Some("refused"), Some("invalid_arguments"), Some("unknown_tool")]);

    let (span, port) = over_http().await;
    let http = [
        "mcp.method.name=tools/call",
        "mcp.protocol.version=2025-11-25",
        "network.protocol.name=http",
        "network.transport=tcp",
        "server.address=127.0.0.1",
        &format!("server.port={port}"),
    ];
    assert_eq!(of_server(&span), http);
}

#[tokio::test]
async fn what_the_mcp_conventions_ask_is_there_in_name_and_type_or_has_its_reason() {
    let mut spans: Vec<_> = over_pipes().await.drain(..3).collect();
    spans.push(over_http().await.0);
    let (asked, known) = (asked(), known());
    assert_eq!((asked["mcp.method.name"].as_str(), asked["server.port"].as_str()), ("required", "recommended"));
    let there: BTreeSet<_> = spans.iter().flat_map(|span| of(span).into_keys()).collect();
    for (name, level) in &asked {
        let reason = LEFT_OUT.iter().find(|(left_out, _)| left_out == name);
        match level.as_str() {
            "required" => assert!(spans.iter().all(|span| of(span).contains_key(name.as_str())), "{name}"),
            // Of content, for all tools alike: off unless somebody asks for it.
            "opt_in" => {}
            _ => assert_ne!(there.contains(name.as_str()), reason.is_some(), "{name} ({level}): {reason:?}"),
        }
    }
    for (name, _) in LEFT_OUT {
        assert!(asked.contains_key(name), "nobody asks for {name}");
    }
    for attribute in spans.iter().flat_map(|span| &span.attributes) {
        let (name, value) = (attribute.key.as_str(), &attribute.value);
        if name.starts_with("glassbox.") {
            continue;
        }
        let said = known.get(name).unwrap_or_else(|| panic!("{name} is not in the registry"));
        assert_eq!(said.kind, kind(value), "{name}");
        let member = said.members.is_empty() || said.members.iter().any(|member| *member == value.as_str());
        assert!(member, "{name} has no member {value}");
    }
}
