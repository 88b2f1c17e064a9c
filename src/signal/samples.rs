//! Journals made by hand for the tests of the folds.

use std::{sync::Arc, time::Duration};

use serde_json::Map;

use crate::core::{
    Arguments, BlobHash, Effect, EndReason, Entry, Fact, Limits, ModelReply, Money, Prices, Principal, SessionId,
    SessionStatus, SpanId, StreamId, Timestamp, ToolOutcome, Usage,
    fact::{
        AttemptEnd, CallPurpose, ConfirmationEnd, ConfirmationRequest, CountedBy, Decision, Language, ModelCall,
        ModelCallEnd, ModelInfo, ModelOutcome, Observation, PromptRef, SessionEnd, SessionStarted, SpanContent,
        ToolCallBegin, ToolCallEnd, TraceStart,
    },
};

/// 2026-02-18T10:23:45Z.
const START: u64 = 1_771_410_225_000_000_000;

/// One session's journal while it grows.
pub(crate) struct Journal {
    pub(crate) session: SessionId,
    pub(crate) entries: Vec<Entry>,
    now: Timestamp,
}

impl Journal {
    pub(crate) fn new(id: u8) -> Self {
        Self { session: SessionId::from_bytes([id; 16]), entries: Vec::new(), now: Timestamp::from_nanos(START) }
    }

    pub(crate) fn after(&mut self, wait: Duration) -> &mut Self {
        self.now = self.now.plus(wait);
        self
    }

    /// Records a fact and gives the span that it would open.
    pub(crate) fn push(&mut self, fact: Fact) -> SpanId {
        let op = self.next_op();
        let stream = StreamId::Session(self.session);
        self.entries.push(Entry { stream, seq: self.entries.len() as u64, at: self.now, fact });
        op
    }

    pub(crate) fn started(&mut self, agent: &str, task_type: &str) {
        let root = self.next_op();
        let hash = BlobHash::from_bytes([0; 32]);
        self.push(Fact::SessionStarted(Box::new(SessionStarted {
            version: 1,
            agent: agent.into(),
            task: "Call me at +7 701 123 45 67".into(),
            task_type: task_type.into(),
            principal: Principal {
                id: "C-001".into(),
                scopes: Vec::new(),
                roles: Vec::new(),
                attributes: [("name".into(), "Ivan Petrov".into())].into(),
            },
            conversation_id: None,
            follows: None,
            model: model("main"),
            limits: Limits::default(),
            language: Language::En,
            prompt: PromptRef { name: agent.into(), version: None, hash },
            tools_hash: hash,
            output_schema_hash: None,
            config_hash: hash,
            trace: TraceStart {
                trace_id: self.session.trace_id(),
                root,
                sampled: true,
                content: SpanContent::Off,
                parent: None,
                link: None,
            },
            metadata: Map::new(),
        })));
    }

    pub(crate) fn model_started(&mut self, step: u32, name: &str) -> SpanId {
        let op = self.next_op();
        self.push(Fact::ModelCallStarted {
            op,
            call: Arc::new(ModelCall {
                step,
                purpose: CallPurpose::Step,
                model: model(name),
                estimated_input_tokens: 1000,
                counted_by: CountedBy::Estimate,
                max_tokens: 4096,
                body_hash: BlobHash::from_bytes([1; 32]),
                summarized_steps: 0,
                summarized_pairs: 0,
            }),
        })
    }

    pub(crate) fn model_attempt(&mut self, call: SpanId, attempt: u32, name: &str, outcome: ModelOutcome) {
        self.push(Fact::ModelAttemptStarted { call, attempt, model: name.into(), wait_ms: 0 });
        let error = (outcome != ModelOutcome::Ok).then(|| "secret error text".into());
        self.push(Fact::ModelAttemptFinished { call, attempt, end: AttemptEnd::new(outcome, error) });
    }

    pub(crate) fn model_finished(&mut self, op: SpanId, outcome: ModelOutcome, (input, output): (u64, u64)) {
        let usage = Usage { input, output, ..Usage::default() };
        let reply = (outcome == ModelOutcome::Ok).then(|| ModelReply {
            text: "secret answer".into(),
            calls: Vec::new(),
            usage,
            model: "claude-x-20260101".into(),
            finish_reason: "tool_use".into(),
        });
        self.push(Fact::ModelCallFinished {
            op,
            end: Box::new(ModelCallEnd { outcome, reply, usage, error: Some("secret error text".into()), attempts: 1 }),
        });
    }

    pub(crate) fn tool_started(&mut self, step: u32, tool: &str, known: bool) -> SpanId {
        let op = self.next_op();
        self.push(Fact::ToolCallStarted {
            op,
            call: Box::new(ToolCallBegin {
                step,
                call_id: "call_1".into(),
                tool: tool.into(),
                known,
                arguments: Arguments::from_text("{\"q\":\"secret argument\"}"),
            }),
        })
    }

    pub(crate) fn tool_attempt(&mut self, call: SpanId, attempt: u32, outcome: ToolOutcome) {
        self.push(Fact::ToolAttemptStarted { call, attempt, effect: Effect::Read, wait_ms: 0, mcp: None });
        self.push(Fact::ToolAttemptFinished { call, attempt, end: AttemptEnd::new(outcome, None) });
    }

    pub(crate) fn tool_finished(&mut self, op: SpanId, outcome: ToolOutcome, valid: Option<bool>, attempts: u32) {
        let observation =
            Observation { content: "secret result".into(), is_error: outcome.is_error(), tokens: 187, whole: None };
        let end = ToolCallEnd {
            call_id: "call_1".into(),
            outcome,
            observation,
            arguments_valid: valid,
            error: Some("secret error text".into()),
            attempts,
            cached: false,
        };
        self.push(Fact::ToolCallFinished { op, end: Box::new(end) });
    }

    pub(crate) fn asked(&mut self, step: u32, tool: &str) -> SpanId {
        let op = self.next_op();
        let hash = BlobHash::from_bytes([2; 32]);
        self.push(Fact::ConfirmationRequested {
            op,
            request: Box::new(ConfirmationRequest {
                step,
                call_id: "call_1".into(),
                tool: tool.into(),
                arguments: serde_json::json!({"q": "secret argument"}),
                arguments_hash: hash,
                definition_hash: hash,
                principal: Principal {
                    id: "C-001".into(),
                    scopes: Vec::new(),
                    roles: Vec::new(),
                    attributes: [("name".into(), "Ivan Petrov".into())].into(),
                },
                expires: self.now.plus(Duration::from_secs(3600)),
            }),
        })
    }

    pub(crate) fn decided(&mut self, op: SpanId, decision: Decision) {
        let end = ConfirmationEnd { decision, by: "C-001".into(), comment: Some("secret comment".into()) };
        self.push(Fact::ConfirmationDecided { op, end });
    }

    fn next_op(&self) -> SpanId {
        SpanId::of_fact(self.session, self.entries.len() as u64)
    }
}

pub(crate) fn session_end(status: SessionStatus, reason: Option<EndReason>) -> SessionEnd {
    SessionEnd {
        status,
        reason,
        answer: Some("secret answer".into()),
        partial: None,
        explanation: None,
        degraded: false,
        steps: 1,
        usage: Usage { input: 12_400, output: 3200, ..Usage::default() },
        cost: Some(Money::from_nanos(85_200_000)),
        tools_called: vec!["search".into()],
        context_peak: 0.1,
        active_ms: 0,
    }
}

fn model(name: &str) -> ModelInfo {
    ModelInfo {
        name: name.into(),
        request_model: "claude-x".into(),
        provider: "anthropic".into(),
        context_window: 200_000,
        max_output_tokens: 8192,
        // $3 in, $15 out, $0.30 from the cache, $3.75 into it.
        prices: (name == "main").then(|| Prices {
            input: Money::from_nanos(3_000_000_000),
            output: Money::from_nanos(15_000_000_000),
            cache_read: Money::from_nanos(300_000_000),
            cache_write: Money::from_nanos(3_750_000_000),
        }),
    }
}

/// Compares a page in the repository with what its catalogue prints. Where they differ, the
/// right text is left under `target/printed` to be copied.
#[track_caller]
pub(crate) fn check_document(path: &str, printed: &str) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    if std::fs::read_to_string(root.join(path)).ok().as_deref() != Some(printed) {
        let right = root.join("target/printed").join(path);
        std::fs::create_dir_all(right.parent().expect("it has a folder")).expect("target can be written");
        std::fs::write(&right, printed).expect("target can be written");
        panic!("{path} differs from its catalogue: run `cp target/printed/{path} {path}`");
    }
}
