//! Tells webhooks of hand-overs and of calls that wait for a person.
//!
//! What is to be told stands in the store, written with its fact, and goes once it was taken: so it
//! is told at least once, after a crash too. Nothing waits in memory, and no session waits for this.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use serde_json::json;
use tokio::{sync::Notify, time::MissedTickBehavior};

use super::{Runtime, spawn};
use crate::{
    config::{self, Config},
    core::{
        SessionStatus, Sink, StreamId, Timestamp,
        handover::{HandoverId, HandoverStatus},
        notice::{Hook, Notice},
        port::StoreError,
    },
    machine::State,
    session::beginning,
    signal::{
        Told,
        webhook::{Endpoint, Message, Wake, Webhook},
    },
};

/// Notices of one round at the most.
const ROUND: usize = 64;
/// Notices told at once at the most.
const AT_ONCE: usize = 8;
/// How often it is looked what is due.
const EVERY: Duration = Duration::from_secs(1);
/// The wait after the first attempt in vain; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// How long a notice is told at all.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// The webhooks that are configured.
pub(super) struct Webhooks {
    hooks: BTreeMap<Hook, Webhook>,
    wake: Arc<Notify>,
}

/// What a notice is worth now.
enum Worth {
    Told(Message),
    /// It is shown to people in a moment: not yet.
    Early,
    /// Nobody need do anything about it any more.
    Nothing,
}

impl Webhooks {
    /// The webhooks that a configuration asks for.
    ///
    /// # Errors
    /// Where no client can be made.
    pub(super) fn new(config: &Config) -> Result<Self, reqwest::Error> {
        let hook = |(hook, webhook): (&Hook, &config::Webhook)| {
            let config::Webhook { url, secret, timeout } = webhook.clone();
            Ok((*hook, Webhook::new(Endpoint { url, secret, timeout })?))
        };
        Ok(Self { hooks: config.webhooks.iter().map(hook).collect::<Result<_, _>>()?, wake: Arc::default() })
    }

    /// What wakes it after a commit, if anything is to be told at all.
    pub(super) fn sink(&self) -> Option<Box<dyn Sink>> {
        (!self.hooks.is_empty()).then(|| Box::new(Wake::new(self.wake.clone())) as Box<dyn Sink>)
    }
}

impl Runtime {
    /// Round after round, until the process stops; what is left is told by the next one.
    pub(super) fn keep_webhooks(&self) {
        if self.inner.webhooks.hooks.is_empty() {
            return;
        }
        let runtime = self.clone();
        spawn(async move {
            // What is too old is not told, however long nobody served.
            runtime.forget_notices().await;
            let mut rounds = tokio::time::interval(EVERY);
            rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    () = runtime.inner.draining.cancelled() => return,
                    () = runtime.inner.webhooks.wake.notified() => {}
                    _ = rounds.tick() => {}
                }
                tokio::select! {
                    () = runtime.inner.draining.cancelled() => return,
                    () = runtime.tell_due() => {}
                }
            }
        });
    }

    /// Gives up what could not be told for so long, or what nobody wants to hear.
    pub(super) async fn forget_notices(&self) {
        let before = self.inner.journal.clock().now().as_nanos();
        let before = Timestamp::from_nanos(before.saturating_sub(u64::try_from(KEPT.as_nanos()).unwrap_or(u64::MAX)));
        for hook in Hook::ALL {
            match self.on_store(move |store| store.forget_notices(hook, before)).await {
                Ok(0) => {}
                Ok(given_up) if self.inner.webhooks.hooks.contains_key(&hook) => {
                    tracing::error!(target: "glassbox", hook = hook.label(), given_up, "a webhook took notices at no time of a day");
                    self.metrics().told(hook, Told::GivenUp, given_up);
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(target: "glassbox", %error, "the next round gives up old notices"),
            }
        }
    }

    async fn tell_due(&self) {
        let now = self.inner.journal.clock().now();
        let hooks: Vec<_> = self.inner.webhooks.hooks.keys().copied().collect();
        match self.on_store(move |store| store.due_notices(&hooks, now, ROUND)).await {
            Ok(due) => stream::iter(due).for_each_concurrent(AT_ONCE, |notice| self.tell(notice)).await,
            Err(error) => tracing::warn!(target: "glassbox", %error, "cannot look for what webhooks are to be told"),
        }
    }

    /// Tells one. What the store does not note is told again, which whoever is told must bear.
    async fn tell(&self, notice: Notice) {
        let noted = match self.worth(notice).await {
            Ok(Worth::Early) => Ok(()),
            Ok(Worth::Nothing) => self.settle(notice, Told::Obsolete).await,
            Ok(Worth::Told(message)) => self.post(notice, &message).await,
            Err(error) => {
                tracing::warn!(target: "glassbox", session = %notice.session, %error, "a notice cannot be made");
                self.put_off(notice).await
            }
        };
        if let Err(error) = noted {
            tracing::warn!(target: "glassbox", %error, "what became of a notice could not be kept");
        }
    }

    async fn post(&self, notice: Notice, message: &Message) -> Result<(), StoreError> {
        let Some(webhook) = self.inner.webhooks.hooks.get(&notice.hook) else { return Ok(()) };
        match webhook.post(message, self.inner.journal.clock().now()).await {
            Ok(()) => self.settle(notice, Told::Delivered).await,
            Err(why) => {
                let (hook, attempt) = (notice.hook.label(), notice.attempts + 1);
                tracing::warn!(target: "glassbox", hook, id = message.id, attempt, %why, "a webhook did not take a notice");
                self.metrics().told(notice.hook, Told::Failed, 1);
                self.put_off(notice).await
            }
        }
    }

    async fn settle(&self, notice: Notice, outcome: Told) -> Result<(), StoreError> {
        self.on_store(move |store| store.settle_notice(&notice)).await?;
        self.metrics().told(notice.hook, outcome, 1);
        Ok(())
    }

    async fn put_off(&self, notice: Notice) -> Result<(), StoreError> {
        let due = self.inner.journal.clock().now().plus(wait_after(notice.attempts));
        self.on_store(move |store| store.postpone_notice(&notice, due)).await
    }

    async fn worth(&self, notice: Notice) -> Result<Worth, StoreError> {
        match notice.hook {
            Hook::Handovers => self.worth_of_handover(notice).await,
            Hook::Confirmations => self.worth_of_confirmation(notice).await,
        }
    }

    async fn worth_of_handover(&self, notice: Notice) -> Result<Worth, StoreError> {
        let id = HandoverId { session: notice.session, seq: notice.seq };
        let handover = self.handover(id).await?;
        let Some(handover) = handover.filter(|handover| handover.status() == HandoverStatus::Open) else {
            return Ok(Worth::Nothing);
        };
        let data = json!({
            "handover_id": id,
            "session_id": notice.session,
            "cause": handover.cause.label(),
            "tool": handover.tool,
            "agent": handover.agent,
            "task_type": handover.task_type,
        });
        Ok(Worth::Told(Message { id: id.to_string(), kind: "handover.opened", at: notice.at, data }))
    }

    async fn worth_of_confirmation(&self, notice: Notice) -> Result<Worth, StoreError> {
        let entries = self.on_store(move |store| store.load(StreamId::Session(notice.session))).await?;
        let (state, now) = (State::fold(&entries), self.inner.journal.clock().now());
        let asked = entries.iter().find(|entry| entry.seq == notice.seq).map(|entry| &entry.fact);
        let Some(crate::core::Fact::ConfirmationRequested { op, request }) = asked else { return Ok(Worth::Nothing) };
        if !state.waiting().any(|asked| asked.op == *op) || request.expires <= now {
            return Ok(Worth::Nothing);
        }
        if state.status() != Some(SessionStatus::AwaitingConfirmation) {
            return Ok(Worth::Early);
        }
        let data = json!({
            "session_id": notice.session,
            "call_id": request.call_id,
            "tool": request.tool,
            "arguments_hash": request.arguments_hash,
            "agent": beginning(&entries).map(|started| &started.agent),
            "expires_at": request.expires.to_string(),
        });
        let id = format!("conf_{}_{}", notice.session.trace_id(), notice.seq);
        Ok(Worth::Told(Message { id, kind: "confirmation.requested", at: notice.at, data }))
    }
}

/// The wait after so many attempts in vain and one more.
fn wait_after(attempts: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << attempts.min(16)).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_minutes() {
        let waits = [0, 1, 2, 3, 8, 9, u32::MAX].map(|attempts| wait_after(attempts).as_secs());
        assert_eq!(waits, [1, 2, 4, 8, 256, 300, 300]);
    }
}
