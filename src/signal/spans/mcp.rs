//! The attributes of the MCP conventions, which stand on the span of the call: a client's span of
//! its own would count each call twice. Knows no session.

use opentelemetry::KeyValue;

use super::attributes::{foreign, integer, string};
use crate::{
    core::fact::{McpPeer, McpWay},
    signal::names,
};

/// What the span of a call says of the MCP server that was asked.
pub(super) fn attributes(peer: &McpPeer) -> Vec<KeyValue> {
    let mut attributes = vec![string(names::MCP_METHOD_NAME, names::MCP_TOOLS_CALL)];
    attributes.extend(peer.protocol.as_ref().map(|version| foreign(names::MCP_PROTOCOL_VERSION, version)));
    match &peer.way {
        McpWay::Pipe => attributes.push(string(names::NETWORK_TRANSPORT, "pipe")),
        McpWay::Http { host, port } => attributes.extend([
            string(names::NETWORK_TRANSPORT, "tcp"),
            string(names::NETWORK_PROTOCOL_NAME, "http"),
            string(names::SERVER_ADDRESS, host),
            integer(names::SERVER_PORT, *port),
        ]),
    }
    attributes
}
