//! A collector of our own, to see whether every span arrives: OTLP over HTTP, on a free port of
//! this machine.
//!
//! It reads no more of a request than the two ids of each span, so that it costs the run little.
//! It must never refuse a span: what it does not understand is a fault of the service.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::post,
};
use tokio::net::TcpListener;

use crate::{
    core::{SpanId, TraceId},
    runtime::spawn,
};

/// The largest request that is read.
const LARGEST: usize = 64 << 20;

/// The fields that lead to a span: `resource_spans`, `scope_spans`, `spans`.
const PATH: [u64; 3] = [1, 2, 2];
const TRACE_ID: u64 = 1;
const SPAN_ID: u64 = 2;

/// Which span of which trace.
type Id = (TraceId, SpanId);

/// The collector.
#[derive(Clone, Debug)]
pub struct Sink {
    address: SocketAddr,
    taken: Arc<Mutex<HashSet<Id>>>,
}

impl Sink {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// Where there is none.
    pub async fn listen() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let sink = Self { address: listener.local_addr()?, taken: Arc::default() };
        let app = Router::new().route("/v1/traces", post(take)).layer(DefaultBodyLimit::max(LARGEST));
        let app = app.with_state(sink.clone());
        spawn(async move { axum::serve(listener, app).await });
        Ok(sink)
    }

    /// Where to send spans, as `telemetry.otlp.endpoint` is written.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many of these have arrived.
    pub(super) fn arrived(&self, wanted: &[Id]) -> u64 {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.iter().filter(|id| taken.contains(id)).count() as u64
    }
}

async fn take(State(sink): State<Sink>, body: Bytes) -> Response {
    let mut found = Vec::new();
    if collect(&body, &PATH, &mut found).is_none() {
        return StatusCode::BAD_REQUEST.into_response();
    }
    sink.taken.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
    // An empty message of protobuf says that all was taken.
    ([(header::CONTENT_TYPE, "application/x-protobuf")], Bytes::new()).into_response()
}

/// Walks down the path of fields to the spans. None where the bytes are no protobuf.
fn collect(message: &[u8], path: &[u64], found: &mut Vec<Id>) -> Option<()> {
    let Some((field, rest)) = path.split_first() else {
        found.extend(ids(message)?);
        return Some(());
    };
    each_field(message, |number, bytes| if number == *field { collect(bytes, rest, found) } else { Some(()) })
}

/// The ids of a span; `Some(None)` for one that lacks them.
fn ids(span: &[u8]) -> Option<Option<Id>> {
    let (mut trace, mut own) = (None, None);
    each_field(span, |number, bytes| {
        match number {
            TRACE_ID => trace = bytes.try_into().ok().map(TraceId::from_bytes),
            SPAN_ID => own = bytes.try_into().ok().map(SpanId::from_bytes),
            _ => {}
        }
        Some(())
    })?;
    Some(trace.zip(own))
}

/// Calls `with` for each field of a message that has a length; the others are skipped.
fn each_field<'a>(mut message: &'a [u8], mut with: impl FnMut(u64, &'a [u8]) -> Option<()>) -> Option<()> {
    while !message.is_empty() {
        let key = varint(&mut message)?;
        match key & 7 {
            0 => _ = varint(&mut message)?,
            1 => message = message.get(8..)?,
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                let bytes = message.get(..length)?;
                message = &message[length..];
                with(key >> 3, bytes)?;
            }
            5 => message = message.get(4..)?,
            _ => return None,
        }
    }
    Some(())
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::{
        collector::trace::v1::ExportTraceServiceRequest,
        trace::v1::{ResourceSpans, ScopeSpans, Span},
    };
    use prost::Message as _;

    use super::*;

    fn span(trace: u8, own: u8) -> Span {
        Span {
            trace_id: vec![trace; 16],
            span_id: vec![own; 8],
            parent_span_id: vec![9; 8],
            name: "a name of more than a hundred and twenty-eight letters ".repeat(5),
            start_time_unix_nano: u64::MAX,
            flags: 257,
            ..Span::default()
        }
    }

    fn request(spans: Vec<Span>) -> Vec<u8> {
        let (first, second) = spans.split_at(1);
        let scopes = [first, second].map(|spans| ScopeSpans { spans: spans.to_vec(), ..ScopeSpans::default() });
        let resource = ResourceSpans { scope_spans: scopes.into(), ..ResourceSpans::default() };
        ExportTraceServiceRequest { resource_spans: vec![resource.clone(), resource] }.encode_to_vec()
    }

    #[test]
    fn the_ids_of_all_spans_are_found() {
        let mut found = Vec::new();
        let bytes = request(vec![span(1, 2), span(1, 3), span(4, 5)]);
        assert_eq!(collect(&bytes, &PATH, &mut found), Some(()));
        let id = |trace, own| (TraceId::from_bytes([trace; 16]), SpanId::from_bytes([own; 8]));
        assert_eq!(found, [id(1, 2), id(1, 3), id(4, 5), id(1, 2), id(1, 3), id(4, 5)]);
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let bytes = request(vec![span(1, 2)]);
        for cut in 1..bytes.len() / 2 {
            assert_eq!(collect(&bytes[..cut], &PATH, &mut Vec::new()), None, "cut at {cut}");
        }
    }
}
