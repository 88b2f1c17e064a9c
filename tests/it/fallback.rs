//! Two models and many sessions in paused time: when a primary counts as down, who probes it,
//! and what the trace says of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use glassbox::{
    Fault, FaultKind,
    core::{
        Clock, Entry, Fact, Limits, Model, ModelReply, ModelRequest, SessionId, Store as _, StreamId, Usage,
        fact::{FallbackCause, Language, ModelInfo, ModelOutcome, SpanContent},
        port::ModelCallInput,
    },
    journal::Journal,
    machine::{Asked, Fallback, State, Step, Surroundings, budget::Count, decide},
    session::{self, Agent, Ended, Followed, NewSession, Signals, Upstream, drive},
    signal::{MetricLabels, Metrics, spans::SpanFold},
    store::memory,
};

use crate::world;

/// A model that answers while it is up, and counts how often it is asked.
struct Switched {
    info: ModelInfo,
    up: AtomicBool,
    asked: AtomicUsize,
    delay_ms: AtomicU64,
}

impl Switched {
    fn new(name: &str, context_window: u64, max_output_tokens: u64) -> Arc<Self> {
        let info = ModelInfo {
            name: name.into(),
            request_model: format!("{name}-1"),
            provider: "scripted".into(),
            context_window,
            max_output_tokens,
            prices: None,
        };
        Arc::new(Self { info, up: AtomicBool::new(true), asked: AtomicUsize::new(0), delay_ms: AtomicU64::new(0) })
    }

    fn switch(&self, up: bool) {
        self.up.store(up, Ordering::SeqCst);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Model for Switched {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn encode(&self, request: &ModelRequest) -> Vec<u8> {
        serde_json::to_vec(request).expect("plain data")
    }

    async fn call(&self, _: ModelCallInput<'_>) -> Result<ModelReply, Fault> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(self.delay_ms.load(Ordering::SeqCst))).await;
        if !self.up.load(Ordering::SeqCst) {
            return Err(Fault::new(FaultKind::Overloaded, "busy").status(529));
        }
        Ok(ModelReply {
            text: "hello".into(),
            calls: Vec::new(),
            usage: Usage { input: 10, output: 5, ..Usage::default() },
            model: format!("{}-2026", self.info.request_model),
            finish_reason: "end_turn".into(),
        })
    }
}

/// An agent of two models, whose breakers count nothing.
struct Bench {
    agent: Agent,
    primary: Arc<Switched>,
    backup: Arc<Switched>,
    journal: Journal,
    store: Arc<memory::Store>,
    metrics: Metrics,
    sessions: AtomicU8,
    clock: Arc<world::PausedClock>,
}

impl Bench {
    fn new() -> Self {
        let labels = MetricLabels { fallbacks: vec![("main".into(), "backup".into())], ..MetricLabels::default() };
        let metrics = Metrics::new(&labels).expect("a right catalogue");
        let (store, clock) = (Arc::new(memory::Store::new()), Arc::new(world::PausedClock::new()));
        let journal = world::journal_of(1, store.clone(), vec![metrics.sink()], clock.clone());
        let script = "{name: mute, rules: [{text: nothing}]}";
        let (primary, backup) = (Switched::new("main", 8000, 1000), Switched::new("backup", 4000, 300));
        let mut agent = world::agent(script, world::model_info(), Limits::default(), Language::En, Vec::new());
        agent.model = primary.clone();
        agent.fallback = Some(session::Fallback { model: backup.clone(), timeout: Duration::from_secs(30) });
        agent.policy = Arc::new(world::policy_with(&journal, [], &["main"]));
        Self { agent, primary, backup, journal, store, metrics, sessions: AtomicU8::new(0), clock }
    }

    /// Runs a session to its end; gives its journal.
    async fn session(&self) -> Vec<Entry> {
        let id = SessionId::from_bytes([self.sessions.fetch_add(1, Ordering::SeqCst) + 1; 16]);
        let new = NewSession {
            task: "hello".into(),
            task_type: "other".into(),
            principal: world::principal(),
            conversation_id: None,
            follows: Followed::default(),
            metadata: serde_json::Map::new(),
            upstream: Upstream::None,
            sampled: true,
            content: SpanContent::Off,
            once: None,
        };
        let prompt = self.agent.prompt(&new.principal);
        let until = self.clock.now().plus(Duration::from_secs(3600));
        let log = self.agent.begin(&self.journal, id, new, &prompt, until);
        let principal = Arc::new(world::principal());
        let ended = drive(&log, &self.agent, &prompt, &principal, &Signals::default()).await;
        assert!(matches!(ended, Ok(Ended::Finished(_))), "{ended:?}");
        self.store.load(StreamId::Session(id)).expect("a readable memory")
    }

    /// The same; gives why it went to the fallback, if it did.
    async fn detour(&self) -> Option<FallbackCause> {
        cause(&self.session().await)
    }

    fn active(&self) -> String {
        let series = r#"glassbox_model_fallback_active{model="main"} "#;
        let text = self.metrics.render();
        text.lines().find_map(|line| line.strip_prefix(series)).expect("a series").to_owned()
    }

    /// Waits until so many seconds of the test have passed.
    async fn at(&self, begun: tokio::time::Instant, seconds: f64) {
        tokio::time::sleep_until(begun + Duration::from_secs_f64(seconds)).await;
    }
}

fn cause(entries: &[Entry]) -> Option<FallbackCause> {
    entries.iter().find_map(|entry| match &entry.fact {
        Fact::ModelFallback { cause, .. } => Some(*cause),
        _ => None,
    })
}

const OVERLOADED: Option<FallbackCause> = Some(FallbackCause::Fault(FaultKind::Overloaded));
const DOWN: Option<FallbackCause> = Some(FallbackCause::PrimaryDown);

#[tokio::test(start_paused = true)]
async fn a_primary_that_is_down_is_left_alone_probed_and_taken_back() {
    let bench = Bench::new();
    let begun = tokio::time::Instant::now();
    let primary = &bench.primary;
    let traffic = async {
        primary.switch(false);
        // Attempts at 0, 1 and 3 seconds.
        assert_eq!((bench.detour().await, primary.asked()), (OVERLOADED, 3));
        bench.at(begun, 29.9).await;
        assert_eq!(bench.active(), "0");
        bench.at(begun, 30.1).await;
        assert_eq!(bench.active(), "1", "nobody called meanwhile");
        assert_eq!((bench.detour().await, primary.asked()), (DOWN, 3), "it is not asked");
        bench.at(begun, 62.9).await;
        assert_eq!((bench.detour().await, primary.asked()), (DOWN, 3));
        // A minute after the last failure: one attempt, which fails.
        bench.at(begun, 63.0).await;
        assert_eq!((bench.detour().await, primary.asked()), (OVERLOADED, 4), "a probe is not repeated");
        primary.switch(true);
        bench.at(begun, 122.9).await;
        assert_eq!((bench.detour().await, primary.asked()), (DOWN, 4));
        assert_eq!(bench.active(), "1");
        bench.at(begun, 123.0).await;
        assert_eq!((bench.detour().await, primary.asked()), (None, 5), "the probe is the call");
        assert_eq!(bench.active(), "0");
        assert_eq!((bench.detour().await, primary.asked()), (None, 6), "it is taken back");
        assert_eq!(bench.backup.asked(), 5);
    };
    tokio::select! {
        () = bench.agent.policy.primaries.keep_time() => unreachable!("it never ends"),
        () = traffic => {}
    }
    let moves: Vec<_> = world::system_entries(&bench.store)
        .into_iter()
        .filter_map(|entry| match entry.fact {
            Fact::PrimaryChanged { model, down } => Some((model, down)),
            _ => None,
        })
        .collect();
    assert_eq!(moves, [("main".to_owned(), true), ("main".to_owned(), false)]);
}

#[tokio::test(start_paused = true)]
async fn idle_time_alone_never_switches() {
    let bench = Bench::new();
    assert_eq!(bench.detour().await, None);
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    assert_eq!((bench.detour().await, bench.active().as_str()), (None, "0"));
    // A failure that a success followed is past, however long ago both were.
    bench.primary.switch(false);
    let recovers = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        bench.primary.switch(true);
    };
    assert_eq!(tokio::join!(bench.detour(), recovers).0, None, "the second attempt succeeds");
    tokio::time::sleep(Duration::from_secs(86_400)).await;
    assert_eq!((bench.detour().await, bench.active().as_str()), (None, "0"));
    assert_eq!(bench.backup.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_word_that_it_is_up_again_is_enough() {
    let bench = Bench::new();
    let begun = tokio::time::Instant::now();
    bench.primary.switch(false);
    bench.session().await;
    bench.primary.switch(true);
    bench.at(begun, 40.0).await;
    assert_eq!(bench.detour().await, DOWN);
    bench.agent.policy.primaries.trust("main");
    assert_eq!(bench.detour().await, None);
    assert_eq!(bench.active(), "0");
}

#[tokio::test(start_paused = true)]
async fn many_sessions_make_one_probe() {
    let bench = Bench::new();
    bench.primary.switch(false);
    assert_eq!(bench.detour().await, OVERLOADED);
    tokio::time::sleep(Duration::from_secs(60)).await;
    bench.primary.switch(true);
    bench.primary.delay_ms.store(2000, Ordering::SeqCst);
    let causes = futures_util::future::join_all((0..20).map(|_| bench.detour())).await;
    assert_eq!(causes.iter().filter(|cause| cause.is_none()).count(), 1);
    assert_eq!(causes.iter().filter(|cause| **cause == DOWN).count(), 19);
    assert_eq!((bench.primary.asked(), bench.backup.asked()), (4, 20));
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_leaves_the_next_call_to_probe() {
    let bench = Bench::new();
    bench.primary.switch(false);
    assert_eq!(bench.detour().await, OVERLOADED);
    tokio::time::sleep(Duration::from_secs(60)).await;
    bench.primary.switch(true);
    bench.primary.delay_ms.store(2000, Ordering::SeqCst);
    let cut = tokio::time::timeout(Duration::from_secs(1), bench.session()).await;
    assert!(cut.is_err());
    assert_eq!((bench.detour().await, bench.primary.asked()), (None, 5));
}

/// The journal as it stands right after the fact that sends the call on, in a process whose
/// primary is up again: the call is not made at the primary after all.
#[tokio::test(start_paused = true)]
async fn a_journal_cut_before_the_call_leads_to_the_same_fallback() {
    let bench = Bench::new();
    bench.primary.switch(false);
    let entries = bench.session().await;
    let sent_on = entries.iter().position(|entry| matches!(entry.fact, Fact::ModelFallback { .. }));
    let cut = &entries[..=sent_on.expect("it was sent on")];
    let prompt = bench.agent.prompt(&world::principal());
    let fallback = Fallback { model: bench.backup.info(), detour: None };
    let around = Surroundings {
        now: bench.clock.now(),
        tools_unavailable: false,
        fallback: Some(fallback),
        count: Count::Unavailable,
    };
    let Step::CallModel { step, asked, allowance, .. } = decide(&State::fold(cut), &prompt, around) else {
        panic!("the call follows")
    };
    // The primary could say 1000 tokens.
    assert_eq!((step, asked, allowance.max_tokens), (1, Asked::Fallback, 300));
    // Once its reply is there, the next call begins at the primary again.
    let replied = entries.iter().rposition(|entry| matches!(entry.fact, Fact::ModelCallFinished { .. }));
    let state = State::fold(&entries[..=replied.expect("a reply")]);
    assert_eq!(state.sent_to(), None);
}

#[tokio::test(start_paused = true)]
async fn each_chat_span_names_the_model_that_was_asked_and_the_one_that_answered() {
    let bench = Bench::new();
    bench.primary.switch(false);
    let entries = bench.session().await;
    let mut fold = SpanFold::new();
    let spans: Vec<_> = entries.iter().filter_map(|entry| fold.apply(entry)).collect();
    let [failed, served, root] = spans.as_slice() else { panic!("two calls and the root, not {}", spans.len()) };
    let get = |span: &opentelemetry_sdk::trace::SpanData, key: &str| {
        span.attributes.iter().find(|pair| pair.key.as_str() == key).map(|pair| pair.value.to_string())
    };
    let told = |span, keys: [&str; 5]| keys.map(|key| get(span, key).unwrap_or_default());
    let keys = [
        "gen_ai.request.model",
        "gen_ai.response.model",
        "error.type",
        "glassbox.model.fallback_from",
        "glassbox.model.fallback_cause",
    ];
    assert_eq!((failed.name.as_ref(), served.name.as_ref()), ("chat main-1", "chat backup-1"));
    assert_eq!(told(failed, keys), ["main-1", "", "overloaded", "", ""]);
    assert_eq!(told(served, keys), ["backup-1", "backup-1-2026", "", "main", "overloaded"]);
    assert!(spans.iter().all(|span| span.span_context.trace_id() == root.span_context.trace_id()), "one trace");
    assert!([failed, served].iter().all(|span| span.parent_span_id == root.span_context.span_id()));
    let event = root.events.iter().find(|event| event.name == "glassbox.model_fallback").expect("an event");
    assert!(event.attributes.iter().any(|pair| pair.value.to_string() == "backup"));
    let ends: Vec<_> = entries
        .iter()
        .filter_map(|entry| match &entry.fact {
            Fact::ModelCallFinished { end, .. } => Some(end.outcome),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [ModelOutcome::Fault(FaultKind::Overloaded), ModelOutcome::Ok]);
}
