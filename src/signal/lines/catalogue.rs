//! The catalogue of event lines: every event, its fields, their types and meanings. The page
//! `docs/events.md` and the schema `docs/events.schema.json` are printed from it.
//!
//! It must never list a field for free text of people.

use super::words;

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The value of `event`.
    pub name: &'static str,
    /// When it is written.
    pub meaning: &'static str,
    /// Whose it is.
    pub scope: Scope,
    /// Its own fields; those of its scope come on top.
    pub fields: &'static [Field],
}

/// Whose an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One session's, with the fields [`COMMON`].
    Session,
    /// The process's, with the fields [`SYSTEM`].
    System,
}

/// One field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The name.
    pub name: &'static str,
    /// What its values look like.
    pub shape: Shape,
    /// Whether it may be null.
    pub nullable: bool,
    /// What it says.
    pub meaning: &'static str,
}

/// What values look like.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// Text that matches an expression.
    Pattern(&'static str),
    /// A name from configuration, or `unknown`.
    Name,
    /// Several names.
    Names,
    /// A whole number from 0.
    Count,
    /// A number from 0 with digits after its point.
    Amount,
    /// True or false.
    Flag,
    /// RFC 3339 in UTC.
    Timestamp,
    /// A word of a closed set.
    Word(fn() -> Vec<&'static str>),
}

const BLOB: Shape = Shape::Pattern("^sha256:[0-9a-f]{64}$");
const SESSION: Shape = Shape::Pattern("^sess_[0-9a-f]{32}$");
const HASH: Shape = Shape::Pattern("^hmac-sha256:[0-9a-f]{8}:[0-9a-f]{64}$");

const fn field(name: &'static str, shape: Shape, meaning: &'static str) -> Field {
    Field { name, shape, nullable: false, meaning }
}

/// A field that is null where `meaning` says so.
const fn maybe(name: &'static str, shape: Shape, meaning: &'static str) -> Field {
    Field { name, shape, nullable: true, meaning }
}

/// The fields of every event.
pub const COMMON: &[Field] = &[
    field("session_id", SESSION, "the session"),
    field("timestamp", Shape::Timestamp, "when the fact was recorded"),
    field("trace_id", Shape::Pattern("^[0-9a-f]{32}$"), "the trace of the session"),
    field("span_id", Shape::Pattern("^[0-9a-f]{16}$"), "the span that the event belongs to"),
    field("seq", Shape::Count, "the place in the journal; readers drop repeats by (session_id, seq)"),
    field("agent", Shape::Name, "the configured agent"),
    maybe("user_hash", HASH, "keyed hash of the principal's id; null where the start was not seen"),
];

/// The fields of every event that belongs to no session.
pub const SYSTEM: &[Field] = &[
    field("process_id", Shape::Pattern("^proc_[0-9a-f]{32}$"), "the life of the process"),
    field("timestamp", Shape::Timestamp, "when the fact was recorded"),
    field("seq", Shape::Count, "the place in its journal; readers drop repeats by (process_id, seq)"),
];

const STEP: Field = maybe("step", Shape::Count, "the step, from 1; null where the start was not seen");
const LATENCY: Field = maybe("latency_ms", Shape::Count, "from start to end; null where the start was not seen");
const MODEL: Field = field("model", Shape::Name, "the configured model asked last");
const TOOL: Field = field("tool_name", Shape::Name, "the tool; `unknown` for a name that no tool has");
const TASK_TYPE: Field = field("task_type", Shape::Name, "the configured kind of task");
const ATTEMPTS: Field = field("attempts", Shape::Count, "attempts made");
const WAIT: Field = field("wait_ms", Shape::Count, "the wait between the two");
const ATTEMPT: Field = field("attempt", Shape::Count, "the attempt that begins, from 2");

/// Every event, in the order of the page.
pub const EVENTS: &[Event] = &[
    Event {
        name: "agent_session_started",
        meaning: "A session began.",
        scope: Scope::Session,
        fields: &[
            field("task_hash", HASH, "keyed hash of the task"),
            TASK_TYPE,
            field("model", Shape::Name, "the configured model that it begins with"),
            field("max_iterations", Shape::Count, "steps at the most"),
            field("token_budget", Shape::Count, "tokens of all model calls at the most"),
            maybe("previous_session_id", SESSION, "the session before in its conversation; null where it is the first"),
        ],
    },
    Event {
        name: "model_called",
        meaning: "A model call ended.",
        scope: Scope::Session,
        fields: &[
            STEP,
            maybe("purpose", Shape::Word(words::purposes), "why it was made; null where the start was not seen"),
            MODEL,
            field("outcome", Shape::Word(words::model_outcomes), "how it ended"),
            LATENCY,
            field("input_tokens", Shape::Count, "input tokens of all attempts, cached ones included"),
            field("output_tokens", Shape::Count, "output tokens of all attempts"),
            maybe("cost_usd", Shape::Amount, "what they cost in US dollars; null where the model has no prices"),
            maybe("finish_reason", Shape::Word(words::finish_reasons), "the provider's word; null without a reply"),
            ATTEMPTS,
        ],
    },
    Event {
        name: "model_retry",
        meaning: "An attempt is repeated at the same model.",
        scope: Scope::Session,
        fields: &[
            STEP,
            MODEL,
            ATTEMPT,
            WAIT,
            field("reason", Shape::Word(words::model_outcomes), "how the attempt before ended"),
        ],
    },
    Event {
        name: "model_fallback",
        meaning: "The next model call goes to the fallback.",
        scope: Scope::Session,
        fields: &[
            field("step", Shape::Count, "the step of that call, from 1"),
            field("model", Shape::Name, "the configured model that is not asked, or not again"),
            field("fallback", Shape::Name, "the configured model that is asked instead"),
            field("cause", Shape::Word(words::fallback_causes), "why"),
        ],
    },
    Event {
        name: "tool_called",
        meaning: "A tool call ended.",
        scope: Scope::Session,
        fields: &[
            STEP,
            TOOL,
            maybe("arguments_schema_valid", Shape::Flag, "whether they fit the schema; null where it was not asked"),
            field("outcome", Shape::Word(words::tool_outcomes), "how it ended"),
            LATENCY,
            field("is_error", Shape::Flag, "whether the model was told that it went wrong"),
            field("result_tokens", Shape::Count, "tokens of what the model reads back"),
            ATTEMPTS,
            field("cached", Shape::Flag, "whether the result is one that an earlier call got"),
        ],
    },
    Event {
        name: "tool_retry",
        meaning: "An attempt of a tool call is repeated.",
        scope: Scope::Session,
        fields: &[
            STEP,
            TOOL,
            ATTEMPT,
            WAIT,
            field("reason", Shape::Word(words::tool_outcomes), "how the attempt before ended"),
        ],
    },
    Event {
        name: "rate_limited",
        meaning: "A rate limit of ours refused a call.",
        scope: Scope::Session,
        fields: &[
            field("limit", Shape::Word(words::rate_limits), "which one"),
            maybe("tool_name", Shape::Name, "the tool that was asked for; null where there is none"),
            field("wait_ms", Shape::Count, "time until it is allowed again"),
        ],
    },
    Event {
        name: "confirmation_requested",
        meaning: "A tool call waits for a person.",
        scope: Scope::Session,
        fields: &[STEP, TOOL, field("expires_at", Shape::Timestamp, "from when on nobody can agree any more")],
    },
    Event {
        name: "confirmation_decided",
        meaning: "The waiting for a person ended.",
        scope: Scope::Session,
        fields: &[
            STEP,
            TOOL,
            field("decision", Shape::Word(words::decisions), "what became of it"),
            field("decided_by_hash", HASH, "keyed hash of who decided; of `glassbox` where no person did"),
            maybe("waited_ms", Shape::Count, "from request to decision; null where the request was not seen"),
        ],
    },
    Event {
        name: "context_compacted",
        meaning: "Old results of tools, whole steps or pairs of earlier sessions were left out, to make room for the next call.",
        scope: Scope::Session,
        fields: &[
            field("results", Shape::Count, "results left out"),
            field("pairs", Shape::Count, "tasks of earlier sessions left out, with their answers"),
            field("steps", Shape::Count, "steps left out, in whose place a summary stands"),
            field("tokens_before", Shape::Count, "estimated input tokens of the next call before"),
            field("tokens_after", Shape::Count, "and after"),
        ],
    },
    Event {
        name: "answer_checked",
        meaning: "The answer was held against the schema of its agent (`output_schema`).",
        scope: Scope::Session,
        fields: &[field("problems", Shape::Count, "what is wrong with it; 0 where it fits")],
    },
    Event {
        name: "limit_reached",
        meaning: "A limit stops the session.",
        scope: Scope::Session,
        fields: &[
            field("limit", Shape::Word(words::limits), "which one"),
            field("value", Shape::Count, "the value at which it stands; of `cost_limit` in billionths of a US dollar"),
        ],
    },
    Event {
        name: "handed_over",
        meaning: "A person has to take over.",
        scope: Scope::Session,
        fields: &[field("cause", Shape::Word(words::handover_causes), "why")],
    },
    Event {
        name: "session_suspended",
        meaning: "The session stopped for now and goes on by itself, or once a person has decided.",
        scope: Scope::Session,
        fields: &[field("cause", Shape::Word(words::suspend_causes), "why")],
    },
    Event {
        name: "session_resumed",
        meaning: "A process took the session up again.",
        scope: Scope::Session,
        fields: &[],
    },
    Event {
        name: "agent_session_finished",
        meaning: "The session ended; the last event of a session.",
        scope: Scope::Session,
        fields: &[
            TASK_TYPE,
            field("status", Shape::Word(words::statuses), "how it ended"),
            maybe("reason", Shape::Word(words::reasons), "what refines the status; null where nothing does"),
            field("degraded", Shape::Flag, "whether it answered without tools because all were unavailable"),
            field("total_steps", Shape::Count, "steps done"),
            field("total_input_tokens", Shape::Count, "input tokens of all model calls"),
            field("total_output_tokens", Shape::Count, "output tokens of all model calls"),
            maybe("cost_usd", Shape::Amount, "what they cost in US dollars; null where no model has prices"),
            maybe("total_latency_ms", Shape::Count, "from first fact to last; null where the start was not seen"),
            field("tools_called", Shape::Names, "tools called, each once, in order of their first call"),
        ],
    },
    Event {
        name: "circuit_changed",
        meaning: "A circuit breaker moved, or an operator switched it.",
        scope: Scope::System,
        fields: &[
            field("kind", Shape::Word(words::circuit_kinds), "what it guards"),
            field("name", Shape::Name, "the configured name of that"),
            field("from", Shape::Word(words::circuit_states), "how it stood"),
            field("to", Shape::Word(words::circuit_states), "how it stands"),
            field("cause", Shape::Word(words::circuit_causes), "why"),
            field("forced", Shape::Flag, "whether an operator holds it there"),
            maybe("until", Shape::Timestamp, "until when, if nothing else moves it; null where there is no end"),
            maybe("by_hash", HASH, "keyed hash of the operator's id; null where it is nobody's act"),
        ],
    },
    Event {
        name: "tool_definition_changed",
        meaning: "A tool of an MCP server was seen for the first time, or is defined otherwise than before.",
        scope: Scope::System,
        fields: &[
            field("server", Shape::Name, "the configured server"),
            TOOL,
            field(
                "verdict",
                Shape::Word(words::definition_verdicts),
                "what became of it; calls of what is blocked are refused",
            ),
            maybe("old_hash", BLOB, "the hash of the definition before; null where there is none"),
            field("new_hash", BLOB, "the hash of the definition now, which `pin` accepts"),
        ],
    },
];
