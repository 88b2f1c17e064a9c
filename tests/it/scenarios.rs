//! Scenarios as data: a task, a script, tools, and the journal that must come of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    num::NonZeroU32,
    path::Path,
    sync::Arc,
    time::Duration,
};

use glassbox::{
    core::{
        Arguments, BlobHash, Clock, EndReason, Entry, Fact, Limits, Message, Money, Prices, Tool, ToolOutcome,
        circuit::CircuitId,
        fact::{CallPurpose, Language},
        lease::{LeaseGrant, Leases as _},
        port::StoreErrorKind,
    },
    journal::{Journal, SessionLog},
    machine::{
        Prompt, State,
        transcript::{Exchange, transcript},
    },
    policy::{Act, Policy, ToolRate},
    session::{
        Ended, Followed, Say, Signals, Standing, beginning, decided, drive, expiries, own_prompt, take_up,
        take_up_because, weigh,
    },
    store::memory,
};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::world::{self, FallbackPlan, PausedClock, PlannedTool, ToolPlan};

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Scenario {
    /// What it shows, in one sentence.
    shows: String,
    task: String,
    #[serde(default)]
    language: Language,
    #[serde(default)]
    limits: LimitPlan,
    #[serde(default)]
    context_window: Option<u64>,
    /// What its tokens cost: billionths of a dollar for a million.
    #[serde(default)]
    prices: Option<Prices>,
    /// JSON Schema that the answer is held to.
    #[serde(default)]
    output_schema: Option<serde_json::Value>,
    #[serde(default)]
    tools: BTreeMap<String, ToolPlan>,
    /// What it takes over from earlier sessions of its conversation.
    #[serde(default)]
    follows: Option<FollowPlan>,
    /// Calls of a tool in a minute.
    #[serde(default)]
    rates: BTreeMap<String, RatePlan>,
    /// Tools whose circuit an operator holds open, for so many milliseconds.
    #[serde(default)]
    open: BTreeMap<String, u64>,
    /// Models whose circuit an operator holds open, for so many milliseconds.
    #[serde(default)]
    open_models: BTreeMap<String, u64>,
    /// The model that stands in for the one of `script`.
    #[serde(default)]
    fallback: Option<FallbackPlan>,
    /// Cancelled from outside at this time.
    #[serde(default)]
    cancel_ms: Option<u64>,
    /// The process that drives it dies at these times; the next goes on at once.
    #[serde(default)]
    dies_ms: Vec<u64>,
    /// What people say while it waits for them.
    #[serde(default)]
    decisions: Vec<DecisionPlan>,
    script: String,
    /// The journal, a line a fact.
    journal: Vec<String>,
    /// What the system journal holds of circuits, a line a fact.
    #[serde(default)]
    circuits: Vec<String>,
    /// What the model read back from its calls, in its order.
    #[serde(default)]
    observations: Vec<String>,
    #[serde(default)]
    answer: Option<String>,
    #[serde(default)]
    degraded: bool,
    #[serde(default)]
    partial: Option<String>,
    #[serde(default)]
    explanation: Option<String>,
    tokens: u64,
    #[serde(default)]
    cost_nano_usd: Option<u64>,
    /// Active time, which in paused time is exact.
    #[serde(default)]
    active_ms: u64,
}

/// Tasks and answers of earlier sessions, and tools that are in doubt since then.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct FollowPlan {
    #[serde(default)]
    pairs: Vec<(String, String)>,
    #[serde(default)]
    doubtful: Vec<String>,
}

/// Somebody does something with a session that waits, at a time from its start.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct DecisionPlan {
    at_ms: u64,
    #[serde(default)]
    approve: Option<String>,
    #[serde(default)]
    deny: Option<String>,
    #[serde(default)]
    comment: Option<String>,
    #[serde(default)]
    cancel: bool,
}

impl DecisionPlan {
    /// The facts that it leads to.
    fn facts(&self, state: &State, now: glassbox::core::Timestamp) -> Vec<Fact> {
        if self.cancel {
            return vec![Fact::CancelRequested { by: "caller".into() }];
        }
        let mut facts = expiries(state, now);
        if let Some(call_id) = self.approve.as_ref().or(self.deny.as_ref()) {
            let say = Say {
                call_id: call_id.clone(),
                approve: self.approve.is_some(),
                by: "C-002".into(),
                comment: self.comment.clone().map(Into::into),
                arguments_hash: None,
            };
            if let Ok(Standing::Open(op)) = weigh(state, &say, now) {
                facts.push(decided(op, say));
            }
        }
        facts
    }
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
struct LimitPlan {
    max_iterations: Option<u32>,
    token_budget: Option<u64>,
    cost_limit_nano_usd: Option<Money>,
    deadline_ms: Option<u64>,
    max_parallel_tools: Option<u32>,
}

impl LimitPlan {
    fn limits(&self) -> Limits {
        let usual = Limits::default();
        Limits {
            max_iterations: self.max_iterations.unwrap_or(usual.max_iterations),
            token_budget: self.token_budget.unwrap_or(usual.token_budget),
            cost_limit: self.cost_limit_nano_usd,
            deadline: self.deadline_ms.map_or(usual.deadline, Duration::from_millis),
            max_parallel_tools: self.max_parallel_tools.unwrap_or(usual.max_parallel_tools),
            ..usual
        }
    }
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
struct RatePlan {
    per_minute: Option<NonZeroU32>,
    per_principal_per_minute: Option<NonZeroU32>,
}

/// A fact in a few words.
fn line(fact: &Fact) -> String {
    match fact {
        Fact::SessionStarted(started) => {
            let follows = started.follows.as_ref().map(|follows| format!(" after {}", follows.carried.len()));
            format!("session_started {}{}", started.agent, follows.unwrap_or_default())
        }
        Fact::SessionSuspended { cause } => format!("session_suspended {}", cause.label()),
        Fact::SessionResumed { .. } => "session_resumed".into(),
        Fact::CancelRequested { .. } => "cancel_requested".into(),
        Fact::ModelCallStarted { call, .. } => {
            let other = if call.model.name == "test" { String::new() } else { format!(" at {}", call.model.name) };
            match call.purpose {
                CallPurpose::Step => format!("model_call_started {}{other}", call.step),
                CallPurpose::Direct | CallPurpose::WrapUp | CallPurpose::Summary | CallPurpose::Repair => {
                    format!("model_call_started {} {}{other}", call.step, call.purpose.label())
                }
            }
        }
        Fact::ModelFallback { step, from, to, cause } => {
            format!("model_fallback {step} {from} {to} {}", cause.label())
        }
        Fact::ModelAttemptStarted { attempt, wait_ms, .. } => {
            format!("model_attempt_started {attempt}{}", after(*wait_ms))
        }
        Fact::ModelAttemptFinished { attempt, end, .. } => {
            format!("model_attempt_finished {attempt} {}", end.outcome.label())
        }
        Fact::ModelCallFinished { end, .. } => {
            let said = match &end.reply {
                None => String::new(),
                Some(reply) if reply.calls.is_empty() => format!(" says {:?}", reply.text),
                Some(reply) => {
                    let calls: Vec<_> = reply.calls.iter().map(|call| format!("{} {}", call.id, call.name)).collect();
                    format!(" asks {}", calls.join(", "))
                }
            };
            // The test model of old scenarios is not named in each of their lines.
            let by = match &end.reply {
                Some(reply) if reply.model != "test-1" => format!(" by {}", reply.model),
                Some(_) | None => String::new(),
            };
            format!("model_call_finished {}{said}{by}", end.outcome.label())
        }
        Fact::ToolCallStarted { call, .. } => {
            let arguments = match &call.arguments {
                Arguments::Json(value) => value.to_string(),
                Arguments::Raw(text) => format!("raw {text:?}"),
            };
            let known = if call.known { "" } else { "unknown " };
            format!("tool_call_started {} {known}{} {arguments}", call.call_id, call.tool)
        }
        Fact::ToolAttemptStarted { attempt, effect, wait_ms, .. } => {
            format!("tool_attempt_started {attempt} {}{}", effect.label(), after(*wait_ms))
        }
        Fact::ToolAttemptFinished { attempt, end, .. } => {
            format!("tool_attempt_finished {attempt} {}", end.outcome.label())
        }
        Fact::ToolCallFinished { end, .. } => {
            let cached = if end.cached { " cached" } else { "" };
            format!("tool_call_finished {} {}{cached}", end.call_id, end.outcome.label())
        }
        Fact::ConfirmationRequested { request, .. } => {
            format!("confirmation_requested {} {} {}", request.call_id, request.tool, request.arguments)
        }
        Fact::ConfirmationDecided { end, .. } => {
            format!("confirmation_decided {} by {}", end.decision.label(), end.by.expose())
        }
        Fact::RateLimited { limit, tool, wait_ms, .. } => {
            format!("rate_limited {} {} {wait_ms}ms", limit.label(), tool.as_deref().unwrap_or("-"))
        }
        Fact::PrimaryChanged { model, down } => format!("primary_changed {model} down={down}"),
        Fact::ModelChecked { model, ok, .. } => format!("model_checked {model} ok={ok}"),
        Fact::CircuitChanged(change) => {
            format!("{} {} {} {}", change.circuit, change.from.label(), change.to.label(), change.cause.label())
        }
        Fact::ContextCompacted { calls, pairs, steps, summary, tokens_before, tokens_after } => {
            let what = match (pairs, summary) {
                (0, None) => calls.join(","),
                (0, Some(summary)) => format!("steps={steps} {:?}", summary.expose()),
                (_, None) => format!("pairs={pairs}"),
                (_, Some(summary)) => format!("pairs={pairs} steps={steps} {:?}", summary.expose()),
            };
            format!("context_compacted {what} {tokens_before} {tokens_after}")
        }
        Fact::AnswerChecked { problems } => {
            format!("answer_checked {}", problems.expose().join("; ")).trim_end().to_owned()
        }
        Fact::LimitReached { limit, value } => format!("limit_reached {} {value}", limit.label()),
        Fact::HandedOver { cause, .. } => format!("handed_over {}", cause.label()),
        Fact::SessionFinished(end) => {
            let reason = end.reason.map_or(String::new(), |reason| format!(" {reason}"));
            format!("session_finished {}{reason} steps={}", end.status, end.steps)
        }
        Fact::ToolDefinitionChanged(change) => format!("tool_definition_changed {} {}", change.server, change.tool),
        Fact::ProcessStarted { .. } => "process_started".into(),
        Fact::ProcessStopped { .. } => "process_stopped".into(),
        Fact::HandoverChanged(_) => "handover_changed".into(),
        Fact::SessionsErased { .. } => "sessions_erased".into(),
        Fact::ConfigReloaded { .. } => "config_reloaded".into(),
    }
}

/// The wait before an attempt, if there was one.
fn after(wait_ms: u64) -> String {
    if wait_ms == 0 { String::new() } else { format!(" after {wait_ms}ms") }
}

/// The policies of the default configuration, with the breakers and limits of the scenario.
fn policy(scenario: &Scenario, journal: &Journal) -> Policy {
    let circuits = scenario.tools.iter().map(|(name, plan)| match &plan.circuit {
        Some(group) => CircuitId::group(group),
        None => CircuitId::tool(name),
    });
    let models = ["test", "backup"].map(CircuitId::model);
    let circuits: BTreeSet<_> = circuits.chain(models).collect();
    let primaries: &[&str] = if scenario.fallback.is_some() { &["test"] } else { &[] };
    let mut policy = world::policy_with(journal, circuits, primaries);
    let clock: Arc<dyn Clock> = Arc::new(world::PausedClock::new());
    let rates = scenario.rates.iter().map(|(tool, plan)| {
        let rate = ToolRate { per_minute: plan.per_minute, per_principal_per_minute: plan.per_principal_per_minute };
        (tool.clone(), rate)
    });
    policy.limits = glassbox::policy::Limits::new(rates, &clock);
    for (tool, millis) in &scenario.open {
        let act = Act::ForceOpen(Some(Duration::from_millis(*millis)));
        let switched = policy.circuits.switch(&CircuitId::tool(tool), act, "operator".into());
        assert!(switched.is_some(), "no circuit of {tool}");
    }
    for (model, millis) in &scenario.open_models {
        let act = Act::ForceOpen(Some(Duration::from_millis(*millis)));
        let switched = policy.circuits.switch(&CircuitId::model(model), act, "operator".into());
        assert!(switched.is_some(), "no circuit of {model}");
    }
    policy
}

/// Another process takes up what a dead one left.
fn next_life(number: u8, store: &Arc<memory::Store>, clock: &Arc<PausedClock>) -> SessionLog {
    let journal = world::journal_of(number, store.clone(), Vec::new(), clock.clone());
    let now = clock.now();
    let granted = store.acquire(world::session_id(), journal.process(), now, now);
    let Ok(LeaseGrant::Granted(epoch)) = granted else { panic!("{granted:?}") };
    let log = SessionLog::reopen(&journal, world::session_id(), &world::entries(store), epoch).expect("a session");
    take_up(&log);
    log
}

async fn play(scenario: &Scenario) -> (Vec<Entry>, Vec<Entry>, Ended, Prompt) {
    let tools = scenario
        .tools
        .iter()
        .map(|(name, plan)| Arc::new(PlannedTool::new(name, plan.clone())) as Arc<dyn Tool>)
        .collect();
    let mut model = world::model_info();
    model.context_window = scenario.context_window.unwrap_or(model.context_window);
    model.prices = scenario.prices;
    let mut agent = world::agent(&scenario.script, model, scenario.limits.limits(), scenario.language, tools);
    agent.output_schema = scenario.output_schema.clone().map(Arc::new);
    agent.fallback = scenario.fallback.as_ref().map(FallbackPlan::fallback);
    let store = Arc::new(memory::Store::new());
    let clock = Arc::new(PausedClock::new());
    let journal = world::journal_of(1, store.clone(), Vec::new(), clock.clone());
    agent.policy = Arc::new(policy(scenario, &journal));
    // A lease of no time is free for the next process as soon as this one is dead.
    let lease = if scenario.dies_ms.is_empty() { Duration::from_secs(3600) } else { Duration::ZERO };
    let follows = scenario.follows.as_ref();
    let follows = follows.map_or_else(Followed::default, |plan| world::followed(&plan.pairs, &plan.doubtful));
    let principal = Arc::new(world::principal());
    let prompt = agent.prompt(&principal).carrying(follows.pairs.clone());
    let mut log = world::begin_following(&agent, &journal, &scenario.task, lease, follows);
    let signals = Signals::default();
    let begun = tokio::time::Instant::now();
    for (number, at) in (2..).zip(&scenario.dies_ms) {
        let mut life = Box::pin(drive(&log, &agent, &prompt, &principal, &signals));
        let lived = tokio::time::timeout_at(begun + Duration::from_millis(*at), &mut life).await;
        assert!(lived.is_err(), "the session ended before its process died");
        // What a dead process would still record reaches no disk.
        store.fail_with(Some(StoreErrorKind::Io));
        drop(life);
        store.fail_with(None);
        log = next_life(number, &store, &clock);
    }
    let driving = async {
        let mut decisions = scenario.decisions.iter();
        loop {
            let ended = drive(&log, &agent, &prompt, &principal, &signals).await;
            if !matches!(ended, Ok(Ended::AwaitingConfirmation(_))) {
                return ended;
            }
            loop {
                let Some(plan) = decisions.next() else { return ended };
                tokio::time::sleep_until(begun + Duration::from_millis(plan.at_ms)).await;
                let facts = log.read(|state| plan.facts(state, log.now()));
                if plan.cancel || log.read(|state| state.waiting().count()) == facts.len() {
                    take_up_because(&log, facts);
                    break;
                }
                log.record_all(facts);
            }
        }
    };
    let ended = match scenario.cancel_ms {
        None => driving.await,
        Some(at) => {
            let cancel = async {
                tokio::time::sleep(Duration::from_millis(at)).await;
                signals.cancel.cancel();
            };
            tokio::join!(driving, cancel).0
        }
    };
    let entries = world::entries(&store);
    let prompt = own_prompt(&*store, beginning(&entries).expect("a start")).expect("kept texts");
    for Exchange { call, request, .. } in transcript(&entries, &prompt) {
        let body = BlobHash::from_bytes(Sha256::digest(agent.model.encode(&request)).into());
        assert_eq!(body, call.body_hash, "{}: a request cannot be rebuilt", scenario.shows);
    }
    (entries, world::system_entries(&store), ended.expect("memory does not fail"), prompt)
}

/// Where a run differs from what its scenario says; empty if nowhere.
fn differences(scenario: &Scenario, entries: &[Entry], system: &[Entry], ended: &Ended) -> Vec<String> {
    let mut found = Vec::new();
    let mut check = |what: &str, is: String, should: String| {
        if is != should {
            found.push(format!("{what} is\n{is}\nnot\n{should}"));
        }
    };
    let journal: Vec<_> = entries.iter().map(|entry| line(&entry.fact)).collect();
    check("journal", journal.join("\n"), scenario.journal.join("\n"));
    let circuits: Vec<_> = system.iter().map(|entry| line(&entry.fact)).collect();
    check("circuits", circuits.join("\n"), scenario.circuits.join("\n"));
    let places: Vec<_> = entries.iter().map(|entry| entry.seq).collect();
    check("places", format!("{places:?}"), format!("{:?}", (0..entries.len() as u64).collect::<Vec<_>>()));
    let state = State::fold(entries);
    let observations: Vec<_> = state.history().iter().filter_map(observation).collect();
    check("observations", observations.join("\n---\n"), scenario.observations.join("\n---\n"));
    let Ended::Finished(end) = ended else { return vec!["the session did not end".into()] };
    let text = |value: &Option<glassbox::Sensitive<String>>| value.as_ref().map(|text| text.expose().clone());
    check("answer", format!("{:?}", text(&end.answer)), format!("{:?}", scenario.answer));
    check("degraded", end.degraded.to_string(), scenario.degraded.to_string());
    check("partial", format!("{:?}", text(&end.partial)), format!("{:?}", scenario.partial));
    check("explanation", format!("{:?}", end.explanation), format!("{:?}", scenario.explanation));
    check("cost", format!("{:?}", end.cost.map(Money::nanos)), format!("{:?}", scenario.cost_nano_usd));
    check("tokens", end.usage.total().to_string(), scenario.tokens.to_string());
    check("active_ms", end.active_ms.to_string(), scenario.active_ms.to_string());
    found
}

fn observation(message: &Message) -> Option<&str> {
    match message {
        Message::Tool { content, .. } => Some(content),
        Message::User { .. } | Message::Assistant { .. } => None,
    }
}

/// All of them, with their names.
fn scenarios() -> Vec<(String, Scenario)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/scenarios");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the folder").map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 28, "only {} scenarios", files.len());
    let read = |file: &std::path::PathBuf| {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(file).expect("a readable file");
        let scenario = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, scenario)
    };
    files.iter().map(read).collect()
}

/// The journals that they give, for tests of what is made from journals. In paused time.
pub(crate) async fn journals() -> Vec<(String, Vec<Entry>)> {
    prompted_journals().await.into_iter().map(|(name, entries, _)| (name, entries)).collect()
}

/// The same, each with the prompt that its session began with.
pub(crate) async fn prompted_journals() -> Vec<(String, Vec<Entry>, Prompt)> {
    let mut journals = Vec::new();
    for (name, scenario) in scenarios() {
        let (entries, _, _, prompt) = play(&scenario).await;
        journals.push((name, entries, prompt));
    }
    journals
}

#[tokio::test(start_paused = true)]
async fn every_scenario_gives_its_journal() {
    let (mut failed, mut outcomes, mut reasons) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for (name, scenario) in scenarios() {
        let (entries, system, ended, _) = play(&scenario).await;
        for entry in &entries {
            if let Fact::ToolCallFinished { end, .. } = &entry.fact {
                outcomes.insert(end.outcome.label());
            }
        }
        if let Ended::Finished(end) = &ended {
            reasons.extend(end.reason.map(EndReason::label));
        }
        for difference in differences(&scenario, &entries, &system, &ended) {
            failed.push(format!("== {name} ({}): {difference}", scenario.shows));
        }
        // A second run gives the same facts at the same places.
        let (again, ..) = play(&scenario).await;
        let facts = |entries: &[Entry]| entries.iter().map(|entry| entry.fact.clone()).collect::<Vec<_>>();
        assert_eq!(facts(&entries), facts(&again), "{name} is not deterministic");
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    // One scenario at the least for every way that a call can end, and for every reason that a
    // session can end with and that something here can bring about.
    let missing: Vec<_> = ToolOutcome::ALL.iter().filter(|outcome| !outcomes.contains(outcome.label())).collect();
    assert!(missing.is_empty(), "no scenario ends a call as {missing:?}");
    let missing: Vec<_> = EndReason::ALL.iter().filter(|reason| !reasons.contains(reason.label())).collect();
    assert!(missing.is_empty(), "no scenario ends as {missing:?}");
}
