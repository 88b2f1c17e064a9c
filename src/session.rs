//! The driver of a session: it decides, does, and reads what came of it from the state.
//!
//! It must never know which model, tool or store there is, nor how a signal looks.

mod agent;
mod cached;
mod confirm;
mod driver;
mod export;
mod follow;
mod handover;
mod report;
mod resume;
mod tools;

pub use self::{
    agent::{Agent, Fallback, NewSession, Upstream},
    confirm::{Decided, Objection, Say, Standing, decided, expiries, weigh},
    driver::{Ended, Signals, drive},
    export::{EXPORT_VERSION, ExportError, all_ids, export},
    follow::{Followed, follow},
    handover::{HandoverReport, OperatorMark},
    report::{PendingConfirmation, SessionReport, SessionRow},
    resume::{PromptError, beginning, own_prompt, take_up, take_up_because},
    tools::try_call,
};
