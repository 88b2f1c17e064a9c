//! What went wrong on the way to a server, in our own kinds of fault.
//!
//! It must never repeat a header or an address with its query: both may hold a credential.

use std::{error::Error, time::Duration};

use rmcp::{
    ErrorData,
    model::ErrorCode,
    service::{ClientInitializeError, ServiceError},
    transport::streamable_http_client::{
        AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpError,
    },
};

use crate::core::{Fault, FaultKind};

/// Characters of a server's text that are repeated.
const SHOWN: usize = 300;

/// The fault of a call.
pub(super) fn of_call(server: &str, error: &ServiceError) -> Fault {
    let told = |kind, what: &str| Fault::new(kind, format!("the MCP server {server} {what}"));
    match error {
        ServiceError::McpError(error) => of_answer(server, error),
        ServiceError::TransportSend(error) => of_transport(server, &*error.error),
        ServiceError::TransportClosed => told(FaultKind::Transport, "closed the connection in the middle"),
        ServiceError::Cancelled { .. } => told(FaultKind::Transport, "gave the call up"),
        ServiceError::Timeout { .. } => told(FaultKind::Timeout, "gave no answer in time"),
        ServiceError::UnexpectedResponse => told(FaultKind::Malformed, "gave an answer of another kind"),
        other => told(FaultKind::Malformed, &format!("broke the protocol: {}", short(&other.to_string()))),
    }
}

/// Why no connection could be made, in a phrase.
pub(super) fn of_start(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => of_transport("", &*error.error).detail,
        ClientInitializeError::JsonRpcError(error) => format!("it refused: {}", short(&error.message)),
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".to_owned(),
        other => short(&other.to_string()),
    }
}

/// A protocol error is an answer: the request was wrong, or the server failed at it.
fn of_answer(server: &str, error: &ErrorData) -> Fault {
    let kind = match error.code {
        ErrorCode::INTERNAL_ERROR => FaultKind::Server,
        // -32000 to -32099 are the server's own; most of them say that it failed.
        ErrorCode(-32000) => FaultKind::Server,
        _ => FaultKind::Refused,
    };
    Fault::new(kind, format!("the MCP server {server} answered {}: {}", error.code.0, short(&error.message)))
}

fn of_transport(server: &str, error: &(dyn Error + 'static)) -> Fault {
    let who = if server.is_empty() { "it".to_owned() } else { format!("the MCP server {server}") };
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(fault) = of_cause(&who, error) {
            return fault;
        }
        next = error.source();
    }
    Fault::new(FaultKind::Transport, format!("the connection to {who} broke"))
}

fn of_cause(who: &str, error: &(dyn Error + 'static)) -> Option<Fault> {
    if error.is::<AuthRequiredError>() || error.is::<InsufficientScopeError>() {
        return Some(Fault::new(FaultKind::Auth, format!("{who} refuses our credential")));
    }
    match error.downcast_ref::<StreamableHttpError<reqwest::Error>>()? {
        StreamableHttpError::HttpStatus(HttpStatusError { status, retry_after, .. }) => {
            let wait = retry_after.as_deref().and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
            Some(of_status(who, *status, wait))
        }
        StreamableHttpError::Client(error) => Some(of_request(who, error)),
        StreamableHttpError::SessionExpired | StreamableHttpError::ReinitializationFailed(_) => {
            Some(Fault::new(FaultKind::Connection, format!("{who} no longer knows our session")))
        }
        StreamableHttpError::ResponseBodyTooLarge { .. } => {
            Some(Fault::new(FaultKind::Malformed, format!("{who} gave an answer that is too large")))
        }
        StreamableHttpError::UnexpectedContentType(_) | StreamableHttpError::Deserialize(_) => {
            Some(Fault::new(FaultKind::Malformed, format!("{who} gave an answer that cannot be read")))
        }
        StreamableHttpError::UnexpectedServerResponse(text) => {
            Some(Fault::new(FaultKind::Malformed, format!("{who} gave an answer that cannot be read: {}", short(text))))
        }
        _ => None,
    }
}

fn of_status(who: &str, status: u16, wait: Option<Duration>) -> Fault {
    let kind = FaultKind::of_status(status).unwrap_or(FaultKind::Malformed);
    let fault = Fault::new(kind, format!("{who} answered HTTP {status}")).status(status);
    match wait {
        Some(wait) => fault.retry_after(wait),
        None => fault,
    }
}

fn of_request(who: &str, error: &reqwest::Error) -> Fault {
    if error.is_connect() {
        return Fault::new(FaultKind::Connection, format!("{who} cannot be reached"));
    }
    match error.status() {
        Some(status) => of_status(who, status.as_u16(), None),
        None => Fault::new(FaultKind::Transport, format!("the connection to {who} broke")),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: i32) -> FaultKind {
        of_call("files", &ServiceError::McpError(ErrorData::new(ErrorCode(code), "no", None))).kind
    }

    #[test]
    fn protocol_errors_are_answers() {
        for (code, kind) in [
            (-32602, FaultKind::Refused),
            (-32601, FaultKind::Refused),
            (-32600, FaultKind::Refused),
            (-32002, FaultKind::Refused),
            (-32603, FaultKind::Server),
            (-32000, FaultKind::Server),
        ] {
            assert_eq!(answered(code), kind, "{code}");
        }
    }

    #[test]
    fn a_lost_connection_may_have_done_its_work() {
        let fault = of_call("files", &ServiceError::TransportClosed);
        assert_eq!(fault, Fault::new(FaultKind::Transport, "the MCP server files closed the connection in the middle"));
    }

    #[test]
    fn an_expired_session_proves_that_nothing_was_done() {
        let error = StreamableHttpError::<reqwest::Error>::SessionExpired;
        assert_eq!(of_transport("files", &error).kind, FaultKind::Connection);
        let busy = StreamableHttpError::<reqwest::Error>::HttpStatus(HttpStatusError::new(429, Some("7".into())));
        let fault = of_transport("files", &busy);
        assert_eq!((fault.kind, fault.retry_after), (FaultKind::RateLimited, Some(Duration::from_secs(7))));
    }
}
