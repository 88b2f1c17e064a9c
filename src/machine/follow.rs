//! What a follow-up takes over from the earlier sessions of its conversation: of each the task and
//! what stands for its answer, as long as there is room.
//!
//! It must never know where a session is kept.

use super::tokens::estimate_messages;
use crate::core::{Limits, Message, fact::SessionEnd};

/// Share of the context window that may be taken over, at the most.
const OF_WINDOW: u64 = 2;
/// Share of the token budget: every call of the follow-up pays for what was taken over.
const OF_BUDGET: u64 = 4;

/// The task of an earlier session, and what stands for its answer.
pub type Pair = [Message; 2];

/// Tokens that a follow-up may take over.
pub fn room(limits: &Limits, window: u64) -> u64 {
    (window / OF_WINDOW).min(limits.token_budget / OF_BUDGET)
}

/// What an earlier session leaves: its task and its answer. One that was not done says how it
/// ended, so that the model takes nothing for finished that is not; what is known of it stands
/// before that.
pub fn pair(task: &str, end: &SessionEnd) -> Pair {
    let content = match &end.answer {
        Some(answer) => answer.expose().clone(),
        None => {
            let known = end.partial.as_ref().map_or("", |text| text.expose().trim());
            let reason = end.reason.map_or(String::new(), |reason| format!(" ({reason})"));
            let mark = if known.is_empty() { "there is no answer" } else { "what stands above is partial" };
            format!("{known}\n[this session ended as {}{reason}: {mark}]", end.status).trim_start().to_owned()
        }
    };
    [Message::User { content: task.to_owned() }, Message::Assistant { content, calls: Vec::new() }]
}

/// Estimated tokens of a pair.
pub fn tokens(pair: &Pair) -> u64 {
    estimate_messages(pair)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{EndReason, SessionStatus, Usage};

    fn end(
        status: SessionStatus,
        reason: Option<EndReason>,
        answer: Option<&str>,
        partial: Option<&str>,
    ) -> SessionEnd {
        SessionEnd {
            status,
            reason,
            answer: answer.map(Into::into),
            partial: partial.map(Into::into),
            explanation: None,
            degraded: false,
            steps: 1,
            usage: Usage::default(),
            cost: None,
            tools_called: Vec::new(),
            context_peak: 0.0,
            active_ms: 0,
        }
    }

    fn said(end: &SessionEnd) -> String {
        match pair("count", end) {
            [Message::User { content: task }, Message::Assistant { content, calls }] if calls.is_empty() => {
                assert_eq!(task, "count");
                content
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_done_says_so() {
        assert_eq!(said(&end(SessionStatus::Done, None, Some("5"), None)), "5");
        assert_eq!(
            said(&end(SessionStatus::MaxIterations, None, None, Some("5 so far\n"))),
            "5 so far\n[this session ended as max_iterations: what stands above is partial]"
        );
        assert_eq!(
            said(&end(SessionStatus::Error, Some(EndReason::ModelUnavailable), None, None)),
            "[this session ended as error (model_unavailable): there is no answer]"
        );
    }

    #[test]
    fn half_of_the_window_and_a_quarter_of_the_budget_are_the_most() {
        let limits = |token_budget| Limits { token_budget, ..Limits::default() };
        assert_eq!(room(&limits(50_000), 200_000), 12_500);
        assert_eq!(room(&limits(50_000), 8_000), 4_000);
    }

    #[test]
    fn a_pair_weighs_its_letters_and_what_stands_around_them() {
        // 5 bytes are 2 tokens, 12 are 3, and each message is 4 more.
        assert_eq!(tokens(&pair("count", &end(SessionStatus::Done, None, Some("twelve bytes"), None))), 13);
    }
}
