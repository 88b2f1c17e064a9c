//! Tail sampling: whether a trace is exported is decided when its session ends, from what
//! happened in it. Until then its spans wait here.
//!
//! A session that is suspended is forgotten; whoever goes on with it folds the whole journal.

use std::{collections::HashMap, time::Duration};

use opentelemetry_sdk::trace::SpanData;

use crate::core::{Entry, Fact, SessionId, SessionStatus, fact::SessionEnd};

/// Which traces are kept besides those of sessions that went wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TailRule {
    /// Sessions active for so long are kept.
    pub slow: Duration,
    /// Of the rest, this share is kept, 0 to 1.
    pub share: f64,
}

/// The spans of open sessions.
#[derive(Debug)]
pub(super) struct Tail {
    rule: TailRule,
    waiting: HashMap<SessionId, Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    spans: Vec<SpanData>,
    /// Something happened that makes the trace worth keeping.
    notable: bool,
}

impl Tail {
    pub(super) fn new(rule: TailRule) -> Self {
        Self { rule, waiting: HashMap::new() }
    }

    /// Takes in a fact and the span that it closed; gives the spans that are decided for.
    pub(super) fn take(&mut self, entry: &Entry, span: Option<SpanData>) -> Vec<SpanData> {
        let Some(session) = entry.stream.session() else { return Vec::new() };
        let waiting = self.waiting.entry(session).or_default();
        waiting.spans.extend(span);
        waiting.notable |= is_notable(&entry.fact);
        let Fact::SessionFinished(end) = &entry.fact else { return Vec::new() };
        let waiting = self.waiting.remove(&session).unwrap_or_default();
        if self.rule.keeps(session, end, waiting.notable) { waiting.spans } else { Vec::new() }
    }

    /// Forgets a session until its whole journal is folded again.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.waiting.remove(&session);
    }
}

impl TailRule {
    /// Whether the trace of a session that ended is kept: what failed, was degraded, slow or
    /// notable is, and of the rest a share.
    pub(in crate::signal) fn keeps(self, session: SessionId, end: &SessionEnd, notable: bool) -> bool {
        let went_wrong = !matches!(end.status, SessionStatus::Done | SessionStatus::Cancelled);
        let slow = u128::from(end.active_ms) >= self.slow.as_millis();
        notable || went_wrong || end.degraded || slow || session.is_drawn(self.share)
    }
}

/// Whether a fact makes the trace of its session worth keeping: a person has, or had, a part in it.
#[warn(clippy::wildcard_enum_match_arm)]
pub(in crate::signal) const fn is_notable(fact: &Fact) -> bool {
    match fact {
        Fact::HandedOver { .. } | Fact::ConfirmationRequested { .. } | Fact::ConfirmationDecided { .. } => true,
        Fact::SessionStarted(_)
        | Fact::SessionFinished(_)
        | Fact::SessionSuspended { .. }
        | Fact::SessionResumed { .. }
        | Fact::CancelRequested { .. }
        | Fact::ModelCallStarted { .. }
        | Fact::ModelAttemptStarted { .. }
        | Fact::ModelAttemptFinished { .. }
        | Fact::ModelCallFinished { .. }
        | Fact::ToolCallStarted { .. }
        | Fact::ToolAttemptStarted { .. }
        | Fact::ToolAttemptFinished { .. }
        | Fact::ToolCallFinished { .. }
        | Fact::RateLimited { .. }
        | Fact::ContextCompacted { .. }
        | Fact::LimitReached { .. }
        | Fact::AnswerChecked { .. }
        | Fact::ModelFallback { .. }
        | Fact::CircuitChanged(_)
        | Fact::ToolDefinitionChanged(_)
        | Fact::PrimaryChanged { .. }
        | Fact::ModelChecked { .. }
        | Fact::ProcessStarted { .. }
        | Fact::ProcessStopped { .. }
        | Fact::ConfigReloaded { .. }
        | Fact::HandoverChanged(_)
        | Fact::SessionsErased { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        core::{
            EndReason,
            fact::{Decision, ModelOutcome, SuspendCause},
        },
        signal::{
            samples::{Journal, session_end},
            spans::SpanFold,
        },
    };

    /// Spans that a whole journal gives under this rule.
    fn spans(rule: TailRule, entries: &[Entry]) -> usize {
        let (mut fold, mut tail) = (SpanFold::new(), Tail::new(rule));
        entries.iter().map(|entry| tail.take(entry, fold.apply(entry)).len()).sum()
    }

    /// A session of one model call that ends like this.
    fn journal(end: SessionEnd) -> Vec<Entry> {
        let mut journal = Journal::new(1);
        journal.started("bank", "other");
        let call = journal.model_started(1, "bank");
        journal.model_finished(call, ModelOutcome::Ok, (10, 5));
        journal.push(Fact::SessionFinished(Box::new(end)));
        journal.entries
    }

    const NOTHING: TailRule = TailRule { slow: Duration::MAX, share: 0.0 };

    #[test]
    fn a_good_fast_session_is_kept_by_its_share_only() {
        let journal = journal(session_end(SessionStatus::Done, None));
        assert_eq!(spans(NOTHING, &journal), 0);
        let all = spans(TailRule { share: 1.0, ..NOTHING }, &journal);
        assert!(all > 1);
        assert_eq!(spans(TailRule { slow: Duration::ZERO, ..NOTHING }, &journal), all, "slow ones are kept");
    }

    #[test]
    fn a_session_that_waited_for_a_person_is_kept_whole() {
        let mut journal = Journal::new(1);
        journal.started("bank", "other");
        let call = journal.model_started(1, "bank");
        journal.model_finished(call, ModelOutcome::Ok, (10, 5));
        let asked = journal.asked(1, "transfer");
        journal.push(Fact::SessionSuspended { cause: SuspendCause::Confirmation });
        journal.decided(asked, Decision::Approved);
        journal.push(Fact::SessionResumed { process: "p2".into() });
        journal.push(Fact::SessionFinished(Box::new(session_end(SessionStatus::Done, None))));
        assert_eq!(spans(NOTHING, &journal.entries), 3, "the call, the wait and the root");
    }

    #[test]
    fn a_session_that_went_wrong_is_always_kept() {
        assert!(spans(NOTHING, &journal(session_end(SessionStatus::Error, Some(EndReason::NoProgress)))) > 1);
    }
}
