//! The state of a session: a fold of its facts, and nothing else.
//!
//! The same facts give the same state in any process. A fold of any prefix, or of facts that do
//! not fit together, never panics: it ignores what makes no sense.

mod active_time;
mod carried;
mod confirmations;
mod open;
mod room;
mod view;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use self::{active_time::ActiveTime, confirmations::Confirmations, room::Room};
pub use self::{carried::Carried, confirmations::Confirmation, open::Open, room::Summary};
use super::{
    answer::Answer,
    budget::share,
    prompt::{go_on_instruction, repair_instruction},
    repeats::Repeats,
    tokens::estimate_message,
};
use crate::core::{
    Entry, Fact, FaultKind, Finish, Limits, Message, Money, SessionStatus, SpanId, Timestamp, ToolCall, ToolOutcome,
    Usage,
    fact::{
        CallPurpose, Language, Limit, ModelCall, ModelCallEnd, ModelInfo, ModelOutcome, Observation, SessionStarted,
        ToolCallBegin, ToolCallEnd,
    },
    spec::Effect,
};

/// Where a session stands.
#[derive(Clone, Debug)]
pub struct State {
    status: Option<SessionStatus>,
    limits: Limits,
    model: ModelInfo,
    language: Language,
    /// What is shown of earlier sessions, before the history.
    carried: Carried,
    history: Vec<Message>,
    /// Of both.
    history_tokens: u64,
    /// Input tokens of the last call as its provider counted them, and the history then.
    counted: Option<Counted>,
    call_ids: HashSet<String>,
    step: u32,
    answered_steps: u32,
    pending: Vec<Pending>,
    answer: Answer,
    degraded: bool,
    empty_replies: u32,
    wrap_up: Option<Option<String>>,
    /// How the last model call failed, until another goes out in its place.
    model_failure: Option<(CallPurpose, FaultKind)>,
    /// The fallback that the call was sent to, until its reply is there.
    sent_to: Option<String>,
    usage: Usage,
    /// Of the calls whose models have prices.
    cost: Option<Money>,
    /// What is known on the way to more room in the window.
    room: Room,
    context_peak: f64,
    tools_called: Vec<String>,
    last_result: Option<String>,
    repeats: Repeats,
    limit: Option<Limit>,
    cancelled: bool,
    /// Times in a row that a process died with it and nothing was done in between.
    crashes: u32,
    open: BTreeMap<SpanId, Open>,
    confirmations: Confirmations,
    clock: ActiveTime,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    input: u64,
    history_tokens: u64,
}

/// A call of the last reply, until all of them have their results.
#[derive(Clone, Debug)]
struct Pending {
    call: ToolCall,
    result: Option<Observation>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            status: None,
            limits: Limits::default(),
            model: ModelInfo {
                name: String::new(),
                request_model: String::new(),
                provider: String::new(),
                context_window: 0,
                max_output_tokens: 0,
                prices: None,
            },
            language: Language::default(),
            carried: Carried::default(),
            history: Vec::new(),
            history_tokens: 0,
            counted: None,
            call_ids: HashSet::new(),
            step: 0,
            answered_steps: 0,
            pending: Vec::new(),
            answer: Answer::default(),
            degraded: false,
            empty_replies: 0,
            wrap_up: None,
            model_failure: None,
            sent_to: None,
            usage: Usage::default(),
            cost: None,
            room: Room::default(),
            context_peak: 0.0,
            tools_called: Vec::new(),
            last_result: None,
            repeats: Repeats::default(),
            limit: None,
            cancelled: false,
            crashes: 0,
            open: BTreeMap::new(),
            confirmations: Confirmations::default(),
            clock: ActiveTime::default(),
        }
    }
}

impl State {
    /// The state after these entries.
    pub fn fold<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut state = Self::default();
        for entry in entries {
            state.apply(&entry.fact, entry.at);
        }
        state
    }

    /// Takes in one fact.
    #[warn(clippy::wildcard_enum_match_arm)]
    pub fn apply(&mut self, fact: &Fact, at: Timestamp) {
        match fact {
            Fact::SessionStarted(started) => self.start(started, at),
            Fact::SessionSuspended { cause } => {
                self.status = Some(cause.status());
                self.clock.pause(at);
            }
            Fact::SessionResumed { .. } => self.resume(at),
            Fact::CancelRequested { .. } => self.cancelled = true,
            Fact::ModelCallStarted { op, call } => self.start_model_call(*op, call),
            Fact::ModelAttemptStarted { call, attempt, .. } => self.start_model_attempt(*call, *attempt),
            Fact::ModelAttemptFinished { call, .. } => self.end_model_attempt(*call),
            Fact::ModelCallFinished { op, end } => self.end_model_call(*op, end),
            Fact::ModelFallback { to, .. } => self.send_on(to),
            Fact::ToolCallStarted { op, call } => self.start_tool_call(*op, call),
            Fact::ToolAttemptStarted { call, attempt, effect, .. } => self.start_tool_attempt(*call, *attempt, *effect),
            Fact::ToolAttemptFinished { call, end, .. } => self.end_tool_attempt(*call, end.outcome, end.not_begun),
            Fact::ToolCallFinished { op, end } => self.end_tool_call(*op, end),
            Fact::ConfirmationRequested { op, request } => self.confirmations.ask(*op, request, at),
            Fact::ConfirmationDecided { op, end } => self.confirmations.decide(*op, end, at),
            Fact::ContextCompacted { .. } => self.compact(fact),
            Fact::AnswerChecked { problems } => self.check_answer(problems.expose()),
            Fact::LimitReached { limit, .. } => self.limit = self.limit.or(Some(*limit)),
            Fact::RateLimited { .. } | Fact::HandedOver { .. } => {}
            Fact::SessionFinished(end) => self.status = Some(end.status),
            Fact::CircuitChanged(_)
            | Fact::ToolDefinitionChanged(_)
            | Fact::PrimaryChanged { .. }
            | Fact::ModelChecked { .. }
            | Fact::ProcessStarted { .. }
            | Fact::ProcessStopped { .. }
            | Fact::ConfigReloaded { .. }
            | Fact::HandoverChanged(_)
            | Fact::SessionsErased { .. } => {}
        }
        self.clock.pass(at);
    }

    fn start(&mut self, started: &SessionStarted, at: Timestamp) {
        self.status = Some(SessionStatus::Running);
        self.limits = started.limits.clone();
        self.model = started.model.clone();
        self.language = started.language;
        self.answer = Answer::awaited(started.output_schema_hash.is_some());
        self.clock = ActiveTime::starting(at);
        let follows = started.follows.as_deref();
        self.confirmations = Confirmations::doubting(follows.map_or(&[], |follows| &follows.doubtful));
        self.carried = Carried::of(follows);
        self.history_tokens = self.carried.tokens();
        self.say(Message::User { content: started.task.expose().clone() });
    }

    /// Whoever resumes a session that was not suspended takes it from a process that died.
    fn resume(&mut self, at: Timestamp) {
        if self.status == Some(SessionStatus::Running) {
            self.crashes += 1;
        }
        self.status = Some(SessionStatus::Running);
        self.clock.resume(at);
    }

    fn start_model_call(&mut self, op: SpanId, call: &Arc<ModelCall>) {
        match call.purpose {
            CallPurpose::Step | CallPurpose::Direct => self.step = call.step,
            CallPurpose::WrapUp | CallPurpose::Summary | CallPurpose::Repair => {}
        }
        if call.purpose != CallPurpose::Summary {
            self.see_context(call.estimated_input_tokens, call);
        }
        self.open.insert(op, Open::Model { call: call.clone(), attempt: None, attempts: 0 });
    }

    fn end_model_call(&mut self, op: SpanId, end: &ModelCallEnd) {
        let Some(Open::Model { call, .. }) = self.open.remove(&op) else { return };
        self.usage.add(&end.usage);
        if let Some(cost) = call.model.cost(&end.usage) {
            self.cost = Some(self.cost.unwrap_or_default().plus(cost));
        }
        if end.outcome != ModelOutcome::Lost {
            self.crashes = 0;
        }
        if call.purpose == CallPurpose::Summary {
            self.room.end_summary(&call, end);
            if let ModelOutcome::Fault(kind) = end.outcome {
                self.model_failure = Some((call.purpose, kind));
            }
            return;
        }
        if !end.usage.estimated {
            self.see_context(end.usage.input, &call);
        }
        let too_long = end.outcome == ModelOutcome::Fault(FaultKind::ContextTooLong);
        if too_long && self.room.is_first_time_too_long() {
            return;
        }
        if end.outcome == ModelOutcome::Ok {
            self.sent_to = None;
        }
        match (end.outcome, call.purpose) {
            (ModelOutcome::Cancelled | ModelOutcome::Lost, _) | (_, CallPurpose::Summary) => {}
            (ModelOutcome::Ok, purpose @ (CallPurpose::Step | CallPurpose::Direct | CallPurpose::Repair)) => {
                self.take_reply(end, purpose);
            }
            (ModelOutcome::Fault(kind), purpose) => self.model_failure = Some((purpose, kind)),
            (ModelOutcome::Ok, CallPurpose::WrapUp) => {
                let text = end.reply.as_ref().map(|reply| reply.text.clone());
                self.wrap_up = Some(text.filter(|text| !text.trim().is_empty()));
            }
        }
    }

    /// The window as full as it is before a call; a summary is no part of the conversation.
    fn see_context(&mut self, tokens: u64, call: &ModelCall) {
        self.context_peak = self.context_peak.max(share(tokens, call.model.context_window));
    }

    /// The call that failed, or would have, goes to this model instead.
    fn send_on(&mut self, fallback: &str) {
        self.sent_to = Some(fallback.to_owned());
        self.model_failure = None;
        self.room.try_again();
    }

    /// Only a step can ask for something: for the others no tool was on offer.
    fn take_reply(&mut self, end: &ModelCallEnd, purpose: CallPurpose) {
        self.answered_steps = self.step;
        self.room.replied();
        let Some(reply) = &end.reply else { return };
        if !end.usage.estimated && end.usage.input > 0 {
            self.counted = Some(Counted { input: end.usage.input, history_tokens: self.history_tokens });
        }
        let calls: &[ToolCall] = if purpose == CallPurpose::Step { &reply.calls } else { &[] };
        let finish = Finish::of(&reply.finish_reason);
        if calls.is_empty() && reply.text.trim().is_empty() && finish != Finish::Paused {
            match purpose {
                CallPurpose::Repair => self.answer.reject(),
                CallPurpose::Step | CallPurpose::Direct | CallPurpose::WrapUp | CallPurpose::Summary => {
                    self.empty_replies += 1;
                }
            }
            return;
        }
        self.empty_replies = 0;
        self.call_ids.extend(calls.iter().map(|call| call.id.clone()));
        if !calls.is_empty() || !reply.text.trim().is_empty() {
            self.say(Message::Assistant { content: reply.text.clone(), calls: calls.to_vec() });
        }
        if calls.is_empty() {
            self.take_answer(&reply.text, finish, purpose);
        } else {
            self.answer.forget_begun();
            self.pending = calls.iter().map(|call| Pending { call: call.clone(), result: None }).collect();
        }
    }

    /// An answer, or as much of it as came: then the model is asked for the rest, as a step of its
    /// own, so that every limit holds for it. A repair is one round, however it ends.
    fn take_answer(&mut self, text: &str, finish: Finish, purpose: CallPurpose) {
        self.degraded |= purpose == CallPurpose::Direct;
        if matches!(finish, Finish::Cut | Finish::Paused) && purpose != CallPurpose::Repair {
            self.answer.begin(text);
            self.say(Message::User { content: go_on_instruction(self.language).to_owned() });
        } else {
            self.answer.give(text);
        }
    }

    /// An answer that does not fit is said to the model, unless that was its second.
    fn check_answer(&mut self, problems: &[String]) {
        if self.answer.check(problems.is_empty()) {
            self.say(Message::User { content: repair_instruction(self.language, problems) });
        }
    }

    fn start_tool_call(&mut self, op: SpanId, call: &ToolCallBegin) {
        if call.known && !self.tools_called.contains(&call.tool) {
            self.tools_called.push(call.tool.clone());
        }
        self.open.insert(op, Open::Tool { call: Box::new(call.clone()), attempt: None, attempts: 0, unsettled: None });
    }

    fn start_model_attempt(&mut self, op: SpanId, number: u32) {
        if let Some(Open::Model { attempt, attempts, .. }) = self.open.get_mut(&op) {
            *attempt = Some(number);
            *attempts = number;
        }
    }

    fn start_tool_attempt(&mut self, op: SpanId, number: u32, effect: Effect) {
        if let Some(Open::Tool { call, attempt, attempts, .. }) = self.open.get_mut(&op) {
            *attempt = Some((number, effect));
            *attempts = number;
            self.confirmations.attempt(&call.call_id);
        }
    }

    fn end_model_attempt(&mut self, op: SpanId) {
        if let Some(Open::Model { attempt, .. }) = self.open.get_mut(&op) {
            *attempt = None;
        }
    }

    fn end_tool_attempt(&mut self, op: SpanId, outcome: ToolOutcome, not_begun: bool) {
        if let Some(Open::Tool { attempt, unsettled, .. }) = self.open.get_mut(&op) {
            // Until the call itself has its end, the result of an unsafe attempt is kept nowhere:
            // whoever is cut off now cannot know it.
            let cut_off = matches!(outcome, ToolOutcome::Cancelled | ToolOutcome::Lost);
            let effect = attempt.take().map(|(_, effect)| effect).filter(|_| !not_begun);
            *unsettled = effect.filter(|effect| cut_off || *effect == Effect::Unsafe);
        }
    }

    fn end_tool_call(&mut self, op: SpanId, end: &ToolCallEnd) {
        let tool = self.open.remove(&op).and_then(Open::into_tool);
        self.confirmations.call_ended(tool.as_deref(), end);
        if end.outcome == ToolOutcome::Lost {
            return; // a new operation of the same call follows
        }
        self.crashes = 0;
        if end.outcome == ToolOutcome::Ok {
            self.last_result = Some(end.observation.content.clone());
        }
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.call.id == end.call_id) {
            pending.result.get_or_insert_with(|| end.observation.clone());
        }
        self.close_step();
    }

    /// Once every call of the step has its result, all enter the history, in call order.
    fn close_step(&mut self) {
        if self.pending.iter().any(|pending| pending.result.is_none()) {
            return;
        }
        for Pending { call, result } in std::mem::take(&mut self.pending) {
            let Some(result) = result else { continue };
            let hint = self.repeats.count(&call, result.is_error);
            let content = match hint {
                Some(hint) => format!("{}\n{hint}", result.content),
                None => result.content,
            };
            self.say(Message::Tool { call_id: call.id, content, is_error: result.is_error });
        }
    }

    fn say(&mut self, message: Message) {
        self.history_tokens += estimate_message(&message);
        self.history.push(message);
    }
}
