//! Room in the context window, tokens and money, before a call is made.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use glassbox::{
    async_trait,
    core::{
        Arguments, BlobHash, Entry, Fact, FaultKind, Limits, Message, Model, ModelReply, ModelRequest, Money, Prices,
        SessionId, SpanId, Timestamp, ToolCall, ToolOutcome, Usage,
        fact::{
            CallPurpose, CountedBy, Language, Limit, ModelCall, ModelCallEnd, ModelInfo, ModelOutcome, Observation,
            ToolCallBegin, ToolCallEnd,
        },
        port::{ModelCallInput, TraceContext},
    },
    machine::{
        Old, Prompt, State, Step, Surroundings,
        budget::{Allowance, Count, Measure, allow},
        decide,
        prompt::request,
    },
    model::Scripted,
    session::{Followed, Signals, drive},
    store::memory,
};
use proptest::prelude::*;
use serde_json::json;

use crate::{facts, world};

/// 1, 2, 0.1 and 1 dollar for a million tokens.
const PRICES: Prices = Prices {
    input: Money::from_nanos(1_000_000_000),
    output: Money::from_nanos(2_000_000_000),
    cache_read: Money::from_nanos(100_000_000),
    cache_write: Money::from_nanos(1_000_000_000),
};

fn at() -> Timestamp {
    Timestamp::from_nanos(1_771_410_225_000_000_000)
}

fn op(number: usize) -> SpanId {
    SpanId::of_fact(SessionId::from_bytes([7; 16]), number as u64)
}

/// A session that has just begun.
fn begun(model: ModelInfo, limits: Limits) -> State {
    begun_after(Followed::default(), model, limits)
}

/// The same, after sessions of its conversation.
fn begun_after(follows: Followed, model: ModelInfo, limits: Limits) -> State {
    let mut fact = facts::session_started(SessionId::from_bytes([7; 16]), "C-001", "bank");
    if let Fact::SessionStarted(started) = &mut fact {
        (started.model, started.limits, started.language) = (model, limits, Language::En);
        started.task = "read much".into();
        started.follows = follows.follows;
    }
    let mut state = State::default();
    state.apply(&fact, at());
    state
}

fn call(state: &State, purpose: CallPurpose, max_tokens: u64, old: Old) -> ModelCall {
    ModelCall {
        step: state.next_step(),
        purpose,
        model: state.model().clone(),
        estimated_input_tokens: 0,
        counted_by: CountedBy::Estimate,
        max_tokens,
        body_hash: BlobHash::from_bytes([0; 32]),
        summarized_steps: old.steps,
        summarized_pairs: old.pairs,
    }
}

/// A model call from its beginning to its end.
fn called(state: &mut State, number: usize, call: ModelCall, result: Result<(&str, Vec<ToolCall>, Usage), FaultKind>) {
    state.apply(&Fact::ModelCallStarted { op: op(number), call: std::sync::Arc::new(call) }, at());
    let end = match result {
        Ok((text, calls, usage)) => ModelCallEnd {
            outcome: ModelOutcome::Ok,
            reply: Some(ModelReply { text: text.into(), calls, usage, ..ModelReply::default() }),
            usage,
            error: None,
            attempts: 1,
        },
        Err(kind) => ModelCallEnd {
            outcome: ModelOutcome::Fault(kind),
            reply: None,
            usage: Usage::default(),
            error: None,
            attempts: 1,
        },
    };
    state.apply(&Fact::ModelCallFinished { op: op(number), end: Box::new(end) }, at());
}

/// One step: a reply with its text, and a call for every result.
fn step(state: &mut State, number: usize, text: &str, results: &[String]) {
    let ids: Vec<_> = (0..results.len()).map(|index| format!("call_{number}_{index}")).collect();
    let asked =
        |id: &String| ToolCall { id: id.clone(), name: "look".into(), arguments: Arguments::Json(json!({"page": id})) };
    let usage = Usage { estimated: true, ..Usage::default() };
    let model = call(state, CallPurpose::Step, 100, Old::default());
    called(state, number * 100, model, Ok((text, ids.iter().map(asked).collect(), usage)));
    for (index, (id, content)) in ids.iter().zip(results).enumerate() {
        let begin = ToolCallBegin {
            step: state.steps(),
            call_id: id.clone(),
            tool: "look".into(),
            known: true,
            arguments: Arguments::empty(),
        };
        let end = ToolCallEnd {
            call_id: id.clone(),
            outcome: ToolOutcome::Ok,
            observation: Observation { content: content.clone(), is_error: false, tokens: 0, whole: None },
            arguments_valid: Some(true),
            error: None,
            attempts: 1,
            cached: false,
        };
        let op = op(number * 100 + index + 1);
        state.apply(&Fact::ToolCallStarted { op, call: Box::new(begin) }, at());
        state.apply(&Fact::ToolCallFinished { op, end: Box::new(end) }, at());
    }
}

/// The last step of a history: from the last reply that asks for tools on.
fn last_step(history: &[Message]) -> &[Message] {
    let asks = |message: &Message| matches!(message, Message::Assistant { calls, .. } if !calls.is_empty());
    &history[history.iter().rposition(asks).expect("a step")..]
}

/// Every result stands behind the reply that asked for it, and every call has its result.
fn together(history: &[Message]) -> Result<(), TestCaseError> {
    let mut open: Vec<&str> = Vec::new();
    for message in history {
        match message {
            Message::User { .. } => prop_assert!(open.is_empty(), "left open: {:?}", open),
            Message::Assistant { calls, .. } => {
                prop_assert!(open.is_empty(), "left open: {:?}", open);
                open = calls.iter().map(|call| call.id.as_str()).collect();
            }
            Message::Tool { call_id, .. } => {
                let place = open.iter().position(|id| id == call_id);
                prop_assert!(place.is_some(), "no call of {}", call_id);
                open.remove(place.expect("just looked at"));
            }
        }
    }
    prop_assert!(open.is_empty(), "left open: {:?}", open);
    Ok(())
}

/// What a model answers that is asked for a summary.
fn summary() -> impl Strategy<Value = Option<String>> {
    prop_oneof![Just(None), Just(Some("  ".to_owned())), "[a-я ]{1,9000}".prop_map(Some)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn room_is_made_whole_or_not_at_all(
        steps in prop::collection::vec((0..900_usize, prop::collection::vec(0..2400_usize, 1..4)), 1..7),
        window in 700..6000_u64,
        earlier in prop::collection::vec((0..300_usize, 0..2400_usize), 0..4),
        summary in summary(),
        too_long: bool,
    ) {
        let model = ModelInfo { context_window: window, ..world::model_info() };
        let said = |(task, answer): &(usize, usize)| ("q".repeat(*task), "a".repeat(*answer));
        let follows = world::followed(&earlier.iter().map(said).collect::<Vec<_>>(), &[]);
        let pairs = follows.pairs.clone();
        let mut state = begun_after(follows, model, Limits { token_budget: 1_000_000, ..Limits::default() });
        for (number, (text, results)) in steps.iter().enumerate() {
            let results: Vec<_> = results.iter().map(|length| "r".repeat(*length)).collect();
            step(&mut state, number + 1, &"t".repeat(*text), &results);
        }
        let prompt = Prompt::new("You are a test.", Vec::new()).carrying(pairs);
        if too_long {
            let model = call(&state, CallPurpose::Step, 100, Old::default());
            called(&mut state, 9000, model, Err(FaultKind::ContextTooLong));
        }
        let (first, before) = (state.history().to_vec(), state.estimate_input(&prompt));
        let around = Surroundings { now: at(), tools_unavailable: false, fallback: None, count: Count::Unavailable };
        let mut compacted = false;
        for round in 0.. {
            prop_assert!(round < 4, "it never comes to an end");
            match decide(&state, &prompt, around) {
                Step::Compact(fact) => {
                    let (history, tokens) = (state.history().to_vec(), state.estimate_input(&prompt));
                    state.apply(&fact, at());
                    compacted = true;
                    let messages = request(&state, &prompt, CallPurpose::Step, 100, Old::default()).messages;
                    together(&messages)?;
                    let newest = prompt.carried.iter().rev().take(state.carried().pairs() as usize).rev().flatten();
                    let begin = messages.len() - state.history().len();
                    prop_assert!(messages[..begin].ends_with(&newest.cloned().collect::<Vec<_>>()), "the newest stay");
                    prop_assert_eq!(&state.history()[0], &history[0]);
                    prop_assert_eq!(last_step(state.history()), last_step(&history));
                    prop_assert!(state.estimate_input(&prompt) < tokens);
                    let Fact::ContextCompacted { tokens_before, tokens_after, .. } = fact else { unreachable!() };
                    prop_assert_eq!((tokens_before, tokens_after), (tokens, state.estimate_input(&prompt)));
                }
                Step::Summarize { old, allowance, .. } => {
                    let asked = request(&state, &prompt, CallPurpose::Summary, allowance.max_tokens, old);
                    prop_assert_eq!((asked.messages.len(), asked.tools.len()), (1, 0));
                    let model = call(&state, CallPurpose::Summary, allowance.max_tokens, old);
                    let usage = Usage { input: 10, output: 5, ..Usage::default() };
                    let said = match &summary {
                        None => Err(FaultKind::Server),
                        Some(text) => Ok((text.as_str(), Vec::new(), usage)),
                    };
                    called(&mut state, 9001, model, said);
                    prop_assert_eq!(state.history(), &first[..], "a summary alone changes nothing");
                }
                Step::CallModel { allowance, .. } => {
                    let share = allowance.input.tokens as f64 / window as f64;
                    prop_assert!(share < 0.8 && (compacted || !too_long));
                    prop_assert!(!too_long || allowance.input.tokens * 4 <= before * 3);
                    break;
                }
                Step::Finish(_) => {
                    prop_assert_eq!(state.history(), &first[..], "what is not enough is not begun");
                    prop_assert_eq!(state.carried().pairs() as usize, earlier.len());
                    break;
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert_eq!(state.steps() as usize, steps.len());
    }
}

/// The oldest of two earlier sessions gave way to its summary.
#[test]
fn a_request_shows_what_is_left_of_earlier_sessions_before_the_task() {
    let pairs = [("first", "one"), ("second", "two"), ("third", "three")];
    let follows = world::followed(&pairs.map(|(task, answer)| (task.to_owned(), answer.to_owned())), &[]);
    let prompt = Prompt::new("You are a test.", Vec::new()).carrying(follows.pairs.clone());
    let mut state = begun_after(follows, world::model_info(), Limits::default());
    let user = |content: &str| Message::User { content: content.into() };
    let model = |content: &str| Message::Assistant { content: content.into(), calls: Vec::new() };
    let asked = |state: &State| request(state, &prompt, CallPurpose::Step, 100, Old::default()).messages;
    let told = [user("first"), model("one"), user("second"), model("two"), user("third"), model("three")];
    assert_eq!(asked(&state), [&told[..], &[user("read much")]].concat());

    let compacted = |pairs, steps, summary: Option<&str>| Fact::ContextCompacted {
        calls: Vec::new(),
        pairs,
        steps,
        summary: summary.map(Into::into),
        tokens_before: 100,
        tokens_after: 50,
    };
    state.apply(&compacted(1, 0, Some("counted to one")), at());
    let sum = [user("[what was said before was left out to make room: sum it up]"), model("counted to one")];
    assert_eq!(asked(&state), [&sum[..], &told[2..], &[user("read much")]].concat());
    let text = |old| request(&state, &prompt, CallPurpose::Summary, 100, old).messages;
    let record = "user: [what was said before was left out to make room: sum it up]\nassistant: counted to one\n\
                  user: second\nassistant: two\n";
    assert_eq!(text(Old { pairs: 1, steps: 0 }), [user(record)]);

    state.apply(&compacted(1, 0, None), at());
    assert_eq!(asked(&state), [&sum[..], &told[4..], &[user("read much")]].concat());

    step(&mut state, 1, "", &["seen".to_owned()]);
    step(&mut state, 2, "", &["last".to_owned()]);
    let last = last_step(state.history()).to_vec();
    state.apply(&compacted(1, 1, Some("all of it")), at());
    let summary = user("[summary of the steps before, which were left out to make room]\nall of it");
    assert_eq!(asked(&state), [&[user("read much"), summary][..], &last].concat());
    assert_eq!(state.carried().pairs(), 0);
}

fn input(tokens: u64) -> Measure {
    Measure { tokens, by: CountedBy::Estimate }
}

#[test]
fn output_is_clamped_to_what_tokens_window_and_money_leave() {
    let model = ModelInfo { prices: Some(PRICES), ..world::model_info() };
    let clamp = |limits: Limits, tokens| {
        let state = begun(model.clone(), limits);
        allow(&state, &model, input(tokens)).map(|Allowance { max_tokens, .. }| max_tokens)
    };
    let usual = Limits::default();
    assert_eq!(clamp(usual.clone(), 500), Ok(1000));
    assert_eq!(clamp(Limits { context_ratio: 1.0, ..usual }, 7400), Ok(600));
    assert_eq!(clamp(usual.clone(), 6400), Err((Limit::ContextWindow, 6400)));
    assert_eq!(clamp(Limits { token_budget: 600, ..usual }, 500), Ok(100));
    assert_eq!(clamp(Limits { token_budget: 500, ..usual }, 500), Err((Limit::TokenBudget, 0)));
    // A thousandth of a dollar: 500 tokens of input leave 250 of output.
    let poor = Limits { cost_limit: Some(Money::from_nanos(1_000_000)), ..usual };
    assert_eq!(clamp(poor.clone(), 500), Ok(250));
    assert_eq!(clamp(poor.clone(), 998), Ok(1));
    assert_eq!(clamp(poor.clone(), 999), Err((Limit::CostLimit, 0)));
    assert_eq!(clamp(poor.clone(), 1000), Err((Limit::CostLimit, 0)));
    // Nobody knows what a model without prices takes.
    let unpriced = world::model_info();
    let state = begun(unpriced.clone(), poor);
    assert_eq!(allow(&state, &unpriced, input(1)), Err((Limit::CostLimit, 0)));
}

#[test]
fn cached_input_counts_once_in_tokens_and_by_its_own_price_in_money() {
    let model = ModelInfo { prices: Some(PRICES), ..world::model_info() };
    let limits = Limits { token_budget: 1000, cost_limit: Some(Money::from_nanos(1_000_000)), ..Limits::default() };
    let mut state = begun(model.clone(), limits);
    let usage = Usage { input: 700, output: 50, cache_read: 600, ..Usage::default() };
    let look = ToolCall { id: "a".into(), name: "look".into(), arguments: Arguments::empty() };
    let begin = call(&state, CallPurpose::Step, 100, Old::default());
    called(&mut state, 1, begin, Ok(("", vec![look], usage)));
    assert_eq!(state.usage().total(), 750);
    // 100 tokens at 1, 600 at 0.1 and 50 at 2 millionths of a dollar.
    assert_eq!(state.cost(), Some(Money::from_nanos(260_000)));
    let allowed = allow(&state, &model, input(200)).map(|Allowance { max_tokens, .. }| max_tokens);
    assert_eq!(allowed, Ok(50), "250 tokens are left");
    assert_eq!(allow(&state, &model, input(250)), Err((Limit::TokenBudget, 750)));
}

/// A scripted model that counts, or fails to.
struct Counter {
    model: Scripted,
    tokens: Option<u64>,
    asked: Arc<AtomicUsize>,
}

#[async_trait]
impl Model for Counter {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn encode(&self, request: &ModelRequest) -> Vec<u8> {
        self.model.encode(request)
    }

    async fn call(&self, call: ModelCallInput<'_>) -> Result<ModelReply, glassbox::Fault> {
        self.model.call(call).await
    }

    fn counted_by(&self) -> CountedBy {
        CountedBy::Provider
    }

    async fn count(&self, _: &ModelRequest, _: TraceContext) -> Option<u64> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.tokens
    }
}

/// What a session of one call does with a count: the facts, and how often the count was asked for.
async fn counted(window: u64, tokens: Option<u64>) -> (Vec<Entry>, usize) {
    let script = "name: one\nusage: {input: 60, output: 2}\nrules: [{text: done}]";
    let model = ModelInfo { context_window: window, ..world::model_info() };
    let mut agent = world::agent(script, model.clone(), Limits::default(), Language::En, Vec::new());
    let asked = Arc::new(AtomicUsize::new(0));
    let scripted = Scripted::from_yaml(model, script).expect("a good script");
    agent.model = Arc::new(Counter { model: scripted, tokens, asked: asked.clone() });
    let store = Arc::new(memory::Store::new());
    let journal = world::journal(store.clone(), Vec::new());
    let log = world::begin(&agent, &journal, &"word ".repeat(80));
    let principal = Arc::new(world::principal());
    let prompt = agent.prompt(&principal);
    drive(&log, &agent, &prompt, &principal, &Signals::default()).await.expect("memory does not fail");
    (world::entries(&store), asked.load(Ordering::SeqCst))
}

fn model_call(entries: &[Entry]) -> Option<(u64, CountedBy)> {
    entries.iter().find_map(|entry| match &entry.fact {
        Fact::ModelCallStarted { call, .. } => Some((call.estimated_input_tokens, call.counted_by)),
        _ => None,
    })
}

/// By length the call has 108 tokens: 4 of the system prompt, 100 of the task and 4 around it.
#[tokio::test(start_paused = true)]
async fn a_call_is_counted_only_where_a_limit_is_near() {
    let (entries, asked) = counted(8000, Some(60)).await;
    assert_eq!((model_call(&entries), asked), (Some((108, CountedBy::Estimate)), 0), "1 % of the window");

    let (entries, asked) = counted(200, Some(60)).await;
    assert_eq!((model_call(&entries), asked), (Some((60, CountedBy::Provider)), 1), "54 % by estimate, 30 % counted");

    let (entries, asked) = counted(120, Some(60)).await;
    assert_eq!((model_call(&entries), asked), (Some((60, CountedBy::Provider)), 1), "the estimate would not fit");

    let (entries, asked) = counted(200, None).await;
    assert_eq!((model_call(&entries), asked), (Some((108, CountedBy::Estimate)), 1), "nobody could say");

    let (entries, asked) = counted(200, Some(160)).await;
    assert_eq!((model_call(&entries), asked), (None, 1), "80 % counted");
    let reached =
        entries.iter().any(|entry| entry.fact == Fact::LimitReached { limit: Limit::ContextWindow, value: 160 });
    assert!(reached, "{entries:?}");
}
