//! Why something was refused, in the words of the pages. In English these are the words of the API.

use crate::{
    core::fact::{Decision, Language},
    http::{
        console::{look::took, words::Words},
        why::Why,
    },
    runtime::Refused,
};

/// The phrase for a person; nothing where the API's own is as good.
pub(in crate::http::console) fn said(language: Language, why: &Why) -> Option<String> {
    match language {
        Language::En => None,
        Language::Ru => Some(in_russian(why)),
    }
}

fn in_russian(why: &Why) -> String {
    let text = match why {
        Why::NotBegun(refused) => return not_begun(refused),
        Why::LongComment(most) => return format!("Комментарий слишком длинный: можно не больше {most} знаков."),
        Why::Decided(decision) => return format!("Решение по этому вызову уже принято: {}.", decided(*decision)),
        Why::NoSession => "Такой сессии нет.",
        Why::OthersSessions => "Чужие сессии видны только роли operator.",
        Why::Held => "Сессию сейчас ведёт кто-то другой. Повторите чуть позже.",
        Why::Ended => "Сессия уже закончилась.",
        Why::NotAsked => "Этот вызов не ждёт решения.",
        Why::OtherArguments => "Решения ждут другие аргументы, не те, что были показаны: посмотрите ещё раз.",
        Why::Expired => "Время на решение истекло.",
        Why::Busy => "Сессия сейчас занята. Повторите чуть позже.",
        Why::MayNotDecide => "Это решают другие.",
        Why::NoHandover => "Такой передачи нет.",
        Why::HandoverClaimed => "Передачу уже взял другой оператор.",
        Why::HandoverClosed => "Передача уже закрыта.",
        Why::NoCircuit => "Такого предохранителя нет.",
        Why::OnlyOperators => "Это может только роль operator.",
        Why::StalePage => "Страница устарела, или форма не с этой консоли: загрузите страницу ещё раз.",
        Why::NotSignedIn => "Сначала нужно войти.",
        Why::Journal => "Журнал сейчас недоступен. Повторите чуть позже.",
    };
    text.to_owned()
}

const fn decided(decision: Decision) -> &'static str {
    match decision {
        Decision::Approved => "разрешено",
        Decision::Denied => "отклонено",
        Decision::Expired => "время истекло",
        Decision::Withdrawn => "отозвано",
    }
}

fn not_begun(refused: &Refused) -> String {
    match refused {
        Refused::EmptyTask => "Задача пуста: напишите, что сделать.".to_owned(),
        Refused::UnknownAgent { declared, .. } => format!("Такого агента нет. Есть: {}.", declared.join(", ")),
        Refused::UnknownTaskType { agent, declared, .. } => {
            format!("У агента {agent} нет такого типа задач. Есть: {}.", declared.join(", "))
        }
        Refused::Draining => "Сервис останавливается и не берёт новых сессий.".to_owned(),
        Refused::Overloaded { limit } => {
            format!("Уже идёт столько сессий, сколько можно: {limit}. Повторите чуть позже.")
        }
        Refused::TooManySessions { hour, wait } => {
            let wait = took(Words::of(Language::Ru), *wait);
            let limit = hour.limit();
            format!(
                "За последний час начато столько сессий, сколько можно: {limit}. Следующую можно начать через {wait}."
            )
        }
        Refused::TooManyAtOnce { limit } => {
            format!("У вас уже идёт столько сессий, сколько можно: {limit}. Дождитесь конца одной из них.")
        }
        Refused::Behind => "Сервис не успевает и пока не берёт новых сессий. Повторите чуть позже.".to_owned(),
        Refused::KeyReused => "Этот ключ идемпотентности уже был в другом запросе.".to_owned(),
        Refused::NoConversation(id) => format!("Беседы {id:?} нет."),
        Refused::ConversationBusy { session } => {
            format!("В этой беседе идёт {session}: дождитесь её конца или остановите её.")
        }
        Refused::Journal(_) => "Журнал сейчас не пишется, сессия не начата. Повторите чуть позже.".to_owned(),
        Refused::NotYetDurable { session } => {
            format!(
                "Журнал сейчас не пишется; {session} начнётся, когда он сможет. Проверьте это, прежде чем повторять."
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn numbers_and_names_stand_in_the_russian_phrase() {
        let said = |refused| said(Language::Ru, &Why::NotBegun(refused)).expect("words");
        assert_eq!(
            said(Refused::TooManyAtOnce { limit: 3 }),
            "У вас уже идёт столько сессий, сколько можно: 3. Дождитесь конца одной из них."
        );
        let unknown = Refused::UnknownAgent { given: "x".into(), declared: vec!["bank".into(), "clerk".into()] };
        assert_eq!(said(unknown), "Такого агента нет. Есть: bank, clerk.");
        assert_eq!(took(Words::of(Language::Ru), Duration::from_secs(120)), "2 мин");
        assert_eq!(super::said(Language::En, &Why::NoSession), None);
    }
}
