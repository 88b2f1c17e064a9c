//! What line each fact gives, if any.
//!
//! It must never write a text that a person, a model or a service made: only hashes, numbers,
//! configured names and closed words.

#![warn(clippy::wildcard_enum_match_arm)]

use serde::Serialize;
use serde_json::{Value, json};

use super::words;
use crate::{
    core::{
        Entry, Fact, Money, SessionId, SpanId, StreamId, TraceId,
        circuit::CircuitChange,
        fact::{ConfirmationEnd, DefinitionChange, ModelCallEnd, SessionEnd, SessionStarted, ToolCallEnd},
        id::ProcessId,
    },
    signal::{
        KeyedHash, UNKNOWN,
        memory::{Memory, Open},
    },
};

/// What the lines remember of a session.
#[derive(Debug)]
pub(super) struct Identity {
    agent: String,
    task_type: String,
    user_hash: String,
    trace_id: TraceId,
    root: SpanId,
}

pub(super) type Sessions = Memory<Identity>;

/// A line that grows field by field.
struct Line<'a> {
    text: Vec<u8>,
    session: SessionId,
    entry: &'a Entry,
    open: Option<&'a Open<Identity>>,
    span: SpanId,
}

/// Reads who a session is.
pub(super) fn identify(hash: &KeyedHash, started: &SessionStarted) -> Identity {
    Identity {
        agent: started.agent.clone(),
        task_type: started.task_type.clone(),
        user_hash: hash.hash(&started.principal.id),
        trace_id: started.trace.trace_id,
        root: started.trace.root,
    }
}

/// The line of one committed fact, its line end included.
pub(super) fn line(hash: &KeyedHash, sessions: &mut Sessions, entry: &Entry) -> Option<Vec<u8>> {
    let session = match entry.stream {
        StreamId::Session(session) => session,
        StreamId::System(process) => return system_line(hash, process, entry),
    };
    sessions.open(entry, |started| identify(hash, started));
    let line = write_fact(hash, sessions.get(session), session, entry);
    sessions.close(entry);
    line
}

/// The same of a fact after which its stream went on: what was suspended is not forgotten. Where
/// the line is not `owed`, the fact is only remembered.
pub(super) fn line_of_past(hash: &KeyedHash, sessions: &mut Sessions, entry: &Entry, owed: bool) -> Option<Vec<u8>> {
    let session = match entry.stream {
        StreamId::Session(session) => session,
        StreamId::System(process) => return owed.then(|| system_line(hash, process, entry)).flatten(),
    };
    sessions.open(entry, |started| identify(hash, started));
    let line = owed.then(|| write_fact(hash, sessions.get(session), session, entry)).flatten();
    sessions.close_past(entry);
    line
}

/// From which place on lines are owed once this fact is committed; nothing where it changes
/// nothing about that. Whoever begins a session or goes on with one owes what nobody has told of
/// it; a process owes a line when it has one to tell.
pub(super) fn owes_from(entry: &Entry) -> Option<u64> {
    match entry.stream {
        StreamId::Session(_) => {
            matches!(entry.fact, Fact::SessionStarted(_) | Fact::SessionResumed { .. }).then_some(0)
        }
        StreamId::System(_) => {
            matches!(entry.fact, Fact::CircuitChanged(_) | Fact::ToolDefinitionChanged(_)).then_some(entry.seq)
        }
    }
}

fn write_fact(hash: &KeyedHash, open: Option<&Open<Identity>>, session: SessionId, entry: &Entry) -> Option<Vec<u8>> {
    let line = |event| Line::new(event, session, entry, open);
    let line = match &entry.fact {
        Fact::SessionStarted(started) => line("agent_session_started").started(hash, started),
        Fact::SessionSuspended { cause } => line("session_suspended").with("cause", cause.label()),
        Fact::SessionResumed { .. } => line("session_resumed"),
        Fact::ModelAttemptStarted { call, attempt, wait_ms, .. } => {
            let reason = open?.model_call(*call)?.retry_after()?;
            line("model_retry").model(*call).repeats(*attempt, *wait_ms, reason.label())
        }
        Fact::ModelCallFinished { op, end } => line("model_called").model_called(*op, end),
        Fact::ModelFallback { step, from, to, cause } => line("model_fallback")
            .with("step", step)
            .with("model", from)
            .with("fallback", to)
            .with("cause", cause.label()),
        Fact::ToolAttemptStarted { call, attempt, wait_ms, .. } => {
            let reason = open?.tool_call(*call)?.retry_after()?;
            line("tool_retry").tool(*call).repeats(*attempt, *wait_ms, reason.label())
        }
        Fact::ToolCallFinished { op, end } => line("tool_called").tool_called(*op, end),
        Fact::ConfirmationRequested { op, request } => {
            line("confirmation_requested").confirmation(*op).with("expires_at", request.expires.to_string())
        }
        Fact::ConfirmationDecided { op, end } => line("confirmation_decided").decided(hash, *op, end),
        Fact::RateLimited { limit, tool, wait_ms, .. } => {
            line("rate_limited").with("limit", limit.label()).with("tool_name", tool).with("wait_ms", wait_ms)
        }
        Fact::ContextCompacted { calls, pairs, steps, tokens_before, tokens_after, .. } => line("context_compacted")
            .with("results", calls.len())
            .with("pairs", pairs)
            .with("steps", steps)
            .with("tokens_before", *tokens_before)
            .with("tokens_after", *tokens_after),
        Fact::AnswerChecked { problems } => line("answer_checked").with("problems", problems.expose().len()),
        Fact::LimitReached { limit, value } => line("limit_reached").with("limit", limit.label()).with("value", value),
        Fact::HandedOver { cause, .. } => line("handed_over").with("cause", cause.label()),
        Fact::SessionFinished(end) => line("agent_session_finished").finished(end),
        Fact::CancelRequested { .. }
        | Fact::ModelCallStarted { .. }
        | Fact::ModelAttemptFinished { .. }
        | Fact::ToolCallStarted { .. }
        | Fact::ToolAttemptFinished { .. }
        | Fact::CircuitChanged(_)
        | Fact::ToolDefinitionChanged(_)
        | Fact::PrimaryChanged { .. }
        | Fact::ModelChecked { .. }
        | Fact::ProcessStarted { .. }
        | Fact::ProcessStopped { .. }
        | Fact::ConfigReloaded { .. }
        | Fact::HandoverChanged(_)
        | Fact::SessionsErased { .. } => return None,
    };
    Some(line.close())
}

/// The line of a fact that belongs to no session.
fn system_line(hash: &KeyedHash, process: ProcessId, entry: &Entry) -> Option<Vec<u8>> {
    let (event, fields) = if let Fact::CircuitChanged(change) = &entry.fact {
        ("circuit_changed", circuit(hash, change))
    } else if let Fact::ToolDefinitionChanged(change) = &entry.fact {
        ("tool_definition_changed", definition(change))
    } else {
        return None;
    };
    let mut line = json!({ "event": event, "process_id": process });
    let ends = json!({ "timestamp": entry.at.to_string(), "seq": entry.seq });
    for part in [fields, ends] {
        line.as_object_mut().expect("made as an object").extend(part.as_object().cloned().unwrap_or_default());
    }
    let mut text = serde_json::to_vec(&line).expect("plain JSON");
    text.push(b'\n');
    Some(text)
}

fn circuit(hash: &KeyedHash, change: &CircuitChange) -> Value {
    json!({
        "kind": change.circuit.kind.label(),
        "name": change.circuit.name,
        "from": change.from.label(),
        "to": change.to.label(),
        "cause": change.cause.label(),
        "forced": change.forced,
        "until": change.until.map(|until| until.to_string()),
        "by_hash": change.by.as_ref().map(|by| hash.hash(by.expose())),
    })
}

/// Neither the server's own name of the tool nor its text, which may be anything.
fn definition(change: &DefinitionChange) -> Value {
    json!({
        "server": change.server,
        "tool_name": change.called.as_deref().unwrap_or(UNKNOWN),
        "verdict": change.verdict().label(),
        "old_hash": change.old,
        "new_hash": change.new,
    })
}

impl<'a> Line<'a> {
    fn new(event: &str, session: SessionId, entry: &'a Entry, open: Option<&'a Open<Identity>>) -> Self {
        // Where its start was not seen, the root is what the first fact of a session opens.
        let root = open.and_then(|open| open.identity.as_ref()).map(|identity| identity.root);
        let span = root.unwrap_or_else(|| SpanId::of_fact(session, 0));
        let line = Self { text: Vec::with_capacity(512), session, entry, open, span };
        line.with("event", event).with("session_id", session)
    }

    /// Adds a field.
    fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.text.push(if self.text.is_empty() { b'{' } else { b',' });
        self.text.push(b'"');
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b"\":");
        serde_json::to_writer(&mut self.text, &value).expect("memory takes any plain value");
        self
    }

    /// An attempt that repeats one.
    fn repeats(self, attempt: u32, wait_ms: u64, reason: &'static str) -> Self {
        self.with("attempt", attempt).with("wait_ms", wait_ms).with("reason", reason)
    }

    fn identity(&self) -> Option<&'a Identity> {
        self.open.and_then(|open| open.identity.as_ref())
    }

    fn started(self, hash: &KeyedHash, started: &SessionStarted) -> Self {
        self.with("task_hash", hash.hash(started.task.expose()))
            .with("task_type", &started.task_type)
            .with("model", &started.model.name)
            .with("max_iterations", started.limits.max_iterations)
            .with("token_budget", started.limits.token_budget)
            .with("previous_session_id", started.follows.as_ref().map(|follows| follows.session))
    }

    /// The step and model of a call, whose span the line belongs to.
    fn model(mut self, op: SpanId) -> Self {
        self.span = op;
        let call = self.open.and_then(|open| open.model_call(op));
        self.with("step", call.map(|call| call.call.step))
            .with("model", call.map_or(UNKNOWN, |call| call.asked.as_str()))
    }

    fn model_called(self, op: SpanId, end: &ModelCallEnd) -> Self {
        let call = self.open.and_then(|open| open.model_call(op));
        let latency = call.map(|call| self.entry.at.since(call.started).as_millis());
        self.model(op)
            .with("purpose", call.map(|call| call.call.purpose.label()))
            .with("outcome", end.outcome.label())
            .with("latency_ms", latency)
            .with("input_tokens", end.usage.input)
            .with("output_tokens", end.usage.output)
            .with("cost_usd", call.and_then(|call| call.call.model.cost(&end.usage)).map(Money::usd))
            .with("finish_reason", end.reply.as_ref().map(|reply| words::finish_reason(&reply.finish_reason)))
            .with("attempts", end.attempts)
    }

    /// The step and tool of a call, whose span the line belongs to.
    fn tool(mut self, op: SpanId) -> Self {
        self.span = op;
        let call = self.open.and_then(|open| open.tool_call(op));
        let tool = call.and_then(|call| call.tool.as_deref()).unwrap_or(UNKNOWN);
        self.with("step", call.map(|call| call.step)).with("tool_name", tool)
    }

    fn tool_called(self, op: SpanId, end: &ToolCallEnd) -> Self {
        let call = self.open.and_then(|open| open.tool_call(op));
        let latency = call.map(|call| self.entry.at.since(call.started).as_millis());
        self.tool(op)
            .with("arguments_schema_valid", end.arguments_valid)
            .with("outcome", end.outcome.label())
            .with("latency_ms", latency)
            .with("is_error", end.observation.is_error)
            .with("result_tokens", end.observation.tokens)
            .with("attempts", end.attempts)
            .with("cached", end.cached)
    }

    /// The step and tool of a call that waits, whose span the line belongs to.
    fn confirmation(mut self, op: SpanId) -> Self {
        self.span = op;
        let asked = self.open.and_then(|open| open.confirmation(op));
        self.with("step", asked.map(|asked| asked.step))
            .with("tool_name", asked.map_or(UNKNOWN, |asked| asked.tool.as_str()))
    }

    fn decided(self, hash: &KeyedHash, op: SpanId, end: &ConfirmationEnd) -> Self {
        let asked = self.open.and_then(|open| open.confirmation(op));
        let waited = asked.map(|asked| self.entry.at.since(asked.started).as_millis());
        self.confirmation(op)
            .with("decision", end.decision.label())
            .with("decided_by_hash", hash.hash(end.by.expose()))
            .with("waited_ms", waited)
    }

    fn finished(self, end: &SessionEnd) -> Self {
        let started = self.open.and_then(|open| open.started);
        let latency = started.map(|started| self.entry.at.since(started).as_millis());
        let task_type = self.identity().map_or(UNKNOWN, |identity| &identity.task_type);
        self.with("task_type", task_type)
            .with("status", end.status.label())
            .with("reason", end.reason.map(crate::core::EndReason::label))
            .with("degraded", end.degraded)
            .with("total_steps", end.steps)
            .with("total_input_tokens", end.usage.input)
            .with("total_output_tokens", end.usage.output)
            .with("cost_usd", end.cost.map(Money::usd))
            .with("total_latency_ms", latency)
            .with("tools_called", &end.tools_called)
    }

    /// Adds the fields of every event and ends the line.
    fn close(self) -> Vec<u8> {
        let identity = self.identity();
        let (span, entry, session) = (self.span, self.entry, self.session);
        let mut text = self
            .with("timestamp", entry.at.to_string())
            .with("trace_id", identity.map_or(session.trace_id(), |identity| identity.trace_id))
            .with("span_id", span)
            .with("seq", entry.seq)
            .with("agent", identity.map_or(UNKNOWN, |identity| &identity.agent))
            .with("user_hash", identity.map(|identity| &identity.user_hash))
            .text;
        text.extend_from_slice(b"}\n");
        text
    }
}
