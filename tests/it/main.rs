//! Integration tests, one binary.

mod mcp_schemas;
