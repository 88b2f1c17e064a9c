//! Every name that a span carries, in one place.
//!
//! The `gen_ai.*`, `mcp.*`, `network.*`, `server.*` and `error.*` names are those of the
//! OpenTelemetry GenAI and MCP conventions (main of 2026-05-11); a test holds them against a copy
//! of their registry. What has no name there lives
//! under `glassbox.*`. This module knows nothing of how spans are made.

/// The instrumentation scope of all own spans.
pub const SCOPE: &str = "glassbox";

/// Values of [`GEN_AI_OPERATION_NAME`], which are also the first word of a span's name.
pub mod operation {
    /// A session.
    pub const INVOKE_AGENT: &str = "invoke_agent";
    /// A model call.
    pub const CHAT: &str = "chat";
    /// A tool call.
    pub const EXECUTE_TOOL: &str = "execute_tool";
}

/// Which operation a span shows.
pub const GEN_AI_OPERATION_NAME: &str = "gen_ai.operation.name";
/// Who provides the model.
pub const GEN_AI_PROVIDER_NAME: &str = "gen_ai.provider.name";
/// The configured agent.
pub const GEN_AI_AGENT_NAME: &str = "gen_ai.agent.name";
/// The conversation that a session belongs to.
pub const GEN_AI_CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// The model as the provider knows it.
pub const GEN_AI_REQUEST_MODEL: &str = "gen_ai.request.model";
/// Output tokens allowed.
pub const GEN_AI_REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
/// The model that answered.
pub const GEN_AI_RESPONSE_MODEL: &str = "gen_ai.response.model";
/// Why it stopped; a list.
pub const GEN_AI_RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// Input tokens, cached ones included.
pub const GEN_AI_USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Output tokens, reasoning included.
pub const GEN_AI_USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// Of the input: read from a cache.
pub const GEN_AI_USAGE_CACHE_READ: &str = "gen_ai.usage.cache_read.input_tokens";
/// Of the input: written to a cache.
pub const GEN_AI_USAGE_CACHE_CREATION: &str = "gen_ai.usage.cache_creation.input_tokens";
/// Of the output: reasoning.
pub const GEN_AI_USAGE_REASONING: &str = "gen_ai.usage.reasoning.output_tokens";
/// The tool that was asked for.
pub const GEN_AI_TOOL_NAME: &str = "gen_ai.tool.name";
/// The id that the observation answers to.
pub const GEN_AI_TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// What sort of tool; ours run on the client's side, which the conventions call `function`.
pub const GEN_AI_TOOL_TYPE: &str = "gen_ai.tool.type";
/// What was said to the model before all messages; opt-in, as the five below.
pub const GEN_AI_SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
/// The messages that a model or an agent was given.
pub const GEN_AI_INPUT_MESSAGES: &str = "gen_ai.input.messages";
/// What it answered.
pub const GEN_AI_OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
/// The tools on offer.
pub const GEN_AI_TOOL_DEFINITIONS: &str = "gen_ai.tool.definitions";
/// The arguments of a tool call.
pub const GEN_AI_TOOL_CALL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// What it gave back.
pub const GEN_AI_TOOL_CALL_RESULT: &str = "gen_ai.tool.call.result";
/// What an operation failed with: an outcome, a fault or an end reason.
pub const ERROR_TYPE: &str = "error.type";

/// What an MCP server is asked.
pub const MCP_METHOD_NAME: &str = "mcp.method.name";
/// The one value of [`MCP_METHOD_NAME`]: what else a server is asked belongs to no session.
pub const MCP_TOOLS_CALL: &str = "tools/call";
/// The version of MCP that both sides agreed on.
pub const MCP_PROTOCOL_VERSION: &str = "mcp.protocol.version";
/// Over what the server is reached: `pipe` or `tcp`.
pub const NETWORK_TRANSPORT: &str = "network.transport";
/// `http` for an MCP server that is reached so.
pub const NETWORK_PROTOCOL_NAME: &str = "network.protocol.name";
/// The host of a server that is reached over the network.
pub const SERVER_ADDRESS: &str = "server.address";
/// Its port.
pub const SERVER_PORT: &str = "server.port";

/// The session.
pub const SESSION_ID: &str = "glassbox.session.id";
/// Steps that a session did.
pub const SESSION_STEPS: &str = "glassbox.session.steps";
/// Input tokens of a whole session; a name of its own, so that sums over spans count no token twice.
pub const SESSION_INPUT_TOKENS: &str = "glassbox.session.input_tokens";
/// Output tokens of a whole session.
pub const SESSION_OUTPUT_TOKENS: &str = "glassbox.session.output_tokens";
/// What all model calls of a session cost in US dollars; a name of its own, as for its tokens.
pub const SESSION_COST_USD: &str = "glassbox.session.cost_usd";
/// Active time of a session; waiting for a person does not count.
pub const SESSION_ACTIVE_MS: &str = "glassbox.session.active_ms";
/// The configured kind of task.
pub const TASK_TYPE: &str = "glassbox.task_type";
/// How a session ended.
pub const STATUS: &str = "glassbox.status";
/// What refines the status.
pub const REASON: &str = "glassbox.reason";
/// Whether the answer was given without tools.
pub const DEGRADED: &str = "glassbox.degraded";
/// The name of the system prompt.
pub const PROMPT_NAME: &str = "glassbox.prompt.name";
/// The version of the system prompt.
pub const PROMPT_VERSION: &str = "glassbox.prompt.version";
/// The step, from 1.
pub const STEP: &str = "glassbox.step";
/// Attempts beyond the first.
pub const RETRIES: &str = "glassbox.retries";
/// Whether the result of a tool call is one that an earlier call got; left out where it is not.
pub const TOOL_CACHED: &str = "glassbox.tool.cached";
/// The model's name in the configuration.
pub const MODEL_NAME: &str = "glassbox.model.name";
/// How a model call ended.
pub const MODEL_OUTCOME: &str = "glassbox.model.outcome";
/// Why a model was called.
pub const MODEL_PURPOSE: &str = "glassbox.model.purpose";
/// What a model call cost in US dollars.
pub const COST_USD: &str = "glassbox.cost_usd";
/// Who counted the input before the call.
pub const COUNTED_BY: &str = "glassbox.counted_by";
/// Whether the token counts are our estimate.
pub const USAGE_ESTIMATED: &str = "glassbox.usage.estimated";
/// How a tool call ended.
pub const TOOL_OUTCOME: &str = "glassbox.tool.outcome";
/// Whether the arguments fitted the schema.
pub const TOOL_ARGUMENTS_VALID: &str = "glassbox.tool.arguments_valid";
/// What a call of the tool changes.
pub const TOOL_EFFECT: &str = "glassbox.tool.effect";
/// Tokens of the observation, estimated.
pub const TOOL_RESULT_TOKENS: &str = "glassbox.tool.result_tokens";

/// How much of what was said a trace shows; left out where it shows nothing.
pub const CONTENT_MODE: &str = "glassbox.content.mode";
/// The attributes of a span whose content is not whole; left out where all is.
pub const CONTENT_TRUNCATED: &str = "glassbox.content.truncated";

/// The name of the span of a call that waits for a person.
pub const AWAIT_CONFIRMATION: &str = "await_confirmation";
/// What became of a confirmation.
pub const CONFIRMATION_DECISION: &str = "glassbox.confirmation.decision";

/// Event: one attempt of a call ended.
pub const EVENT_ATTEMPT: &str = "glassbox.attempt";
/// The number of an attempt, from 1.
pub const ATTEMPT_NUMBER: &str = "glassbox.attempt.number";
/// How an attempt ended.
pub const ATTEMPT_OUTCOME: &str = "glassbox.attempt.outcome";
/// The time of an attempt.
pub const ATTEMPT_DURATION_MS: &str = "glassbox.attempt.duration_ms";
/// The configured model that an attempt asked.
pub const ATTEMPT_MODEL: &str = "glassbox.attempt.model";
/// Milliseconds waited since the attempt before.
pub const ATTEMPT_WAIT_MS: &str = "glassbox.attempt.wait_ms";

/// Event: the session stopped for now.
pub const EVENT_SUSPENDED: &str = "glassbox.session.suspended";
/// Event: a process took the session up again.
pub const EVENT_RESUMED: &str = "glassbox.session.resumed";
/// Event: somebody asked for the session to stop.
pub const EVENT_CANCEL_REQUESTED: &str = "glassbox.session.cancel_requested";
/// Event: the answer was held against its schema.
pub const EVENT_ANSWER_CHECKED: &str = "glassbox.answer_checked";
/// How much was wrong with it.
pub const PROBLEMS: &str = "glassbox.problems";
/// Event: old results or steps were left out of the history.
pub const EVENT_COMPACTED: &str = "glassbox.context_compacted";
/// Results that a compaction left out.
pub const COMPACTED_RESULTS: &str = "glassbox.compacted.results";
/// Pairs of earlier sessions that a compaction left out.
pub const COMPACTED_PAIRS: &str = "glassbox.compacted.pairs";
/// Steps that a compaction left out.
pub const COMPACTED_STEPS: &str = "glassbox.compacted.steps";
/// Estimated input tokens before a compaction.
pub const TOKENS_BEFORE: &str = "glassbox.tokens_before";
/// Estimated input tokens after a compaction.
pub const TOKENS_AFTER: &str = "glassbox.tokens_after";
/// Event: a limit stops the session.
pub const EVENT_LIMIT_REACHED: &str = "glassbox.limit_reached";
/// A rate limit of ours refused a tool call.
pub const EVENT_RATE_LIMITED: &str = "glassbox.rate_limited";
/// Event: the next model call goes to the fallback.
pub const EVENT_MODEL_FALLBACK: &str = "glassbox.model_fallback";
/// The configured model in whose place another is asked.
pub const FALLBACK_FROM: &str = "glassbox.model.fallback_from";
/// The configured model that is asked in its place.
pub const FALLBACK_TO: &str = "glassbox.model.fallback_to";
/// Why it is asked.
pub const FALLBACK_CAUSE: &str = "glassbox.model.fallback_cause";
/// Event: a person has to take over.
pub const EVENT_HANDED_OVER: &str = "glassbox.handed_over";
/// Why, on an event.
pub const CAUSE: &str = "glassbox.cause";
/// Which limit.
pub const LIMIT: &str = "glassbox.limit";
/// The value at which a limit stands.
pub const LIMIT_VALUE: &str = "glassbox.limit.value";
