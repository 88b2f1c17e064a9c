//! The integration tests, one binary: one link, one module a subject.

#![allow(unreachable_pub, reason = "nothing here is reached from outside; modules share plain pub items")]
#![allow(clippy::disallowed_methods, reason = "tests measure, read their own variables and start tasks as they like")]

mod alerting;
mod alerts;
mod auth;
mod check_models;
mod circuits;
mod cli;
mod collector;
mod config;
mod confirm_process;
mod confirmations;
mod context;
mod corpus;
mod crash;
mod dashboards;
mod dependencies;
mod deploy;
mod docs;
mod facts;
mod fallback;
mod faults;
mod feed;
mod fuzz;
mod journal_trouble;
mod kinds;
mod live_answer;
mod mcp;
mod mcp_schemas;
mod models;
mod openapi;
mod origin;
mod otlp;
mod outgoing;
mod own_tool;
mod owners;
mod policy;
mod process;
mod promql;
mod real_models;
mod real_parts;
mod retention;
mod scenarios;
mod semconv;
mod serve;
mod session_data;
mod signals_agree;
mod store_conformance;
mod store_erase;
mod store_sqlite;
mod streams;
mod takeover;
mod terminal;
mod tidy;
mod world;
