//! Why a session is not begun, in words for whoever asked.

use std::time::Duration;

use super::Hour;
use crate::core::{SessionId, port::StoreError};

/// Why a session was not begun.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refused {
    /// Nothing is asked.
    #[error("the task is empty; say what is to be done")]
    EmptyTask,
    /// No such agent.
    #[error("there is no agent {given:?}; declared are: {}", .declared.join(", "))]
    UnknownAgent {
        /// What was asked for; nothing where a choice had to be made.
        given: String,
        /// What there is.
        declared: Vec<String>,
    },
    /// No such kind of task.
    #[error("agent {agent} has no task type {given:?}; declared are: {}", .declared.join(", "))]
    UnknownTaskType {
        /// The agent.
        agent: String,
        /// What was asked for.
        given: String,
        /// What there is.
        declared: Vec<String>,
    },
    /// The process is stopping.
    #[error("the service is stopping and takes no new sessions")]
    Draining,
    /// As many sessions run as may.
    #[error("{limit} sessions run already, which is the most allowed")]
    Overloaded {
        /// `server.max_sessions`.
        limit: usize,
    },
    /// The principal has begun as many sessions in the last hour as it may.
    #[error("{} sessions were begun in the last hour, which is the most allowed; the next one in {} s", .hour.limit(), .wait.as_secs() + 1)]
    TooManySessions {
        /// The hour that is used up.
        hour: Hour,
        /// When the next may begin.
        wait: Duration,
    },
    /// As many sessions of the principal run as may.
    #[error("{limit} sessions of this caller run already, which is the most allowed: wait for the end of one")]
    TooManyAtOnce {
        /// `rate_limits.concurrent_sessions_per_user`.
        limit: u32,
    },
    /// The journal is so far behind that another session would hold up those that run.
    #[error("the service is behind with its work and takes no new sessions for the moment")]
    Behind,
    /// The idempotency key began another session.
    #[error("this idempotency key came with another body before: send a new key with a new request")]
    KeyReused,
    /// The conversation was begun by another principal.
    #[error("there is no conversation {0:?}")]
    NoConversation(String),
    /// A session runs in the conversation.
    #[error("{session} runs in this conversation: wait for its end, or cancel it")]
    ConversationBusy {
        /// The session.
        session: SessionId,
    },
    /// The journal cannot write.
    #[error("the journal cannot write: {0}")]
    Journal(StoreError),
    /// The journal stopped writing just then.
    #[error("the journal cannot write; {session} begins once it can: look for it before asking again")]
    NotYetDurable {
        /// The session that waits.
        session: SessionId,
    },
}
