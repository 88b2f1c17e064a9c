//! What a customer is told when a session ends without its answer.

use crate::core::{EndReason, SessionStatus, fact::Language};

/// The text: steps done of the limit, that the result is partial, why, and, unless somebody
/// stopped it, that it is handed to an operator. Nothing for a session that is done.
pub fn explanation(
    language: Language,
    status: SessionStatus,
    reason: Option<EndReason>,
    steps: u32,
    max: u32,
) -> Option<String> {
    if matches!(status, SessionStatus::Done) || !status.is_final() {
        return None;
    }
    let cause = cause(language, status, reason);
    let handed_over = !matches!(status, SessionStatus::Cancelled);
    Some(match language {
        Language::Ru => {
            let step_word = if max % 10 == 1 && max % 100 != 11 { "шага" } else { "шагов" };
            let end = if handed_over { ": передаю оператору." } else { "." };
            format!("Выполнено {steps} из {max} {step_word}, результат частичный. {cause}{end}")
        }
        Language::En => {
            let step_word = if max == 1 { "step" } else { "steps" };
            let end = if handed_over { ": handing over to an operator." } else { "." };
            format!("Completed {steps} of {max} {step_word}, the result is partial. {cause}{end}")
        }
    })
}

/// What stands above an answer that was given without tools.
pub const fn without_tools(language: Language) -> &'static str {
    match language {
        Language::En => "Given without tools, which are all unavailable now: this may be incomplete or out of date.",
        Language::Ru => "Ответ дан без инструментов, они сейчас недоступны: он может быть неполным или неточным.",
    }
}

fn cause(language: Language, status: SessionStatus, reason: Option<EndReason>) -> &'static str {
    let (en, ru) = match (reason, status) {
        (Some(EndReason::TokenBudget), _) => ("The token budget is used up", "Бюджет токенов исчерпан"),
        (Some(EndReason::CostLimit), _) => ("The cost limit is used up", "Лимит стоимости исчерпан"),
        (Some(EndReason::ContextWindow), _) => ("The conversation no longer fits", "Разговор больше не помещается"),
        (Some(EndReason::Deadline), _) => ("The time is over", "Время истекло"),
        (Some(EndReason::RepeatedFailure), _) => ("The same call keeps failing", "Один и тот же вызов не удаётся"),
        (Some(EndReason::NoProgress), _) => ("The session makes no progress", "Сессия не продвигается"),
        (Some(EndReason::ModelUnavailable | EndReason::ModelAuth), _) => {
            ("The assistant is not available", "Ассистент недоступен")
        }
        (Some(EndReason::ModelDeclined), _) => ("The assistant declined to answer", "Ассистент отказался отвечать"),
        (Some(EndReason::CrashLoop), _) => ("The session failed several times", "Сессия несколько раз прервалась"),
        (Some(EndReason::OutputInvalid), _) => ("The answer has the wrong form", "Ответ имеет неверную форму"),
        (Some(EndReason::EmptyReply), _) => ("The assistant gave no answer", "Ассистент не дал ответа"),
        (None, SessionStatus::MaxIterations) => ("The limit of steps is used up", "Лимит шагов исчерпан"),
        (None, SessionStatus::Cancelled) => ("The session was stopped", "Сессия остановлена"),
        (None, _) => ("The session could not go on", "Сессия не может продолжаться"),
    };
    match language {
        Language::En => en,
        Language::Ru => ru,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phrase_of_the_seed() {
        let text = explanation(Language::Ru, SessionStatus::MaxIterations, None, 8, 10);
        let expected = "Выполнено 8 из 10 шагов, результат частичный. Лимит шагов исчерпан: передаю оператору.";
        assert_eq!(text.as_deref(), Some(expected));
    }

    #[test]
    fn a_cancelled_session_promises_no_operator() {
        let text = explanation(Language::En, SessionStatus::Cancelled, None, 2, 15).expect("a text");
        assert_eq!(text, "Completed 2 of 15 steps, the result is partial. The session was stopped.");
    }

    #[test]
    fn russian_numbers_take_their_case() {
        let text = explanation(Language::Ru, SessionStatus::MaxIterations, None, 1, 1).expect("a text");
        assert!(text.starts_with("Выполнено 1 из 1 шага,"), "{text}");
        let text = explanation(Language::Ru, SessionStatus::MaxIterations, None, 11, 11).expect("a text");
        assert!(text.starts_with("Выполнено 11 из 11 шагов,"), "{text}");
    }

    #[test]
    fn done_needs_none() {
        assert_eq!(explanation(Language::Ru, SessionStatus::Done, None, 2, 15), None);
    }
}
