//! Makes a model's reply fit for the journal: every tool call gets an id of its own.

use std::collections::HashSet;

use crate::core::{Arguments, ModelReply};

/// Gives a made-up id to every call that has none or repeats one, in this reply or earlier ones.
/// The ids follow from the step and the place, so a repeated run gives the same.
pub fn settle_ids(reply: &mut ModelReply, step: u32, known: &HashSet<String>) {
    let mut taken: HashSet<String> = HashSet::new();
    for (index, call) in reply.calls.iter_mut().enumerate() {
        if call.id.is_empty() || known.contains(&call.id) || taken.contains(&call.id) {
            call.id = free_id(step, index + 1, |id| known.contains(id) || taken.contains(id));
        }
        taken.insert(call.id.clone());
        settle_arguments(&mut call.arguments);
    }
}

/// Reads argument text once more as JSON; only what cannot be read stays raw.
fn settle_arguments(arguments: &mut Arguments) {
    match arguments {
        Arguments::Raw(text) => *arguments = Arguments::from_text(text),
        Arguments::Json(value) if value.is_null() => *arguments = Arguments::empty(),
        Arguments::Json(_) => {}
    }
}

fn free_id(step: u32, place: usize, taken: impl Fn(&str) -> bool) -> String {
    let plain = format!("call_{step}_{place}");
    if !taken(&plain) {
        return plain;
    }
    (2..).map(|round| format!("{plain}_{round}")).find(|id| !taken(id)).expect("an endless row has a free id")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::ToolCall;

    fn reply(ids: &[&str]) -> ModelReply {
        let call =
            |id: &&str| ToolCall { id: (*id).to_owned(), name: "t".into(), arguments: Arguments::Raw("".into()) };
        ModelReply { calls: ids.iter().map(call).collect(), ..ModelReply::default() }
    }

    fn settled(ids: &[&str], known: &[&str]) -> Vec<String> {
        let mut reply = reply(ids);
        settle_ids(&mut reply, 3, &known.iter().map(|id| (*id).to_owned()).collect());
        reply.calls.into_iter().map(|call| call.id).collect()
    }

    #[test]
    fn the_second_of_two_equal_ids_gets_a_new_one() {
        assert_eq!(settled(&["a", "a", "b"], &[]), ["a", "call_3_2", "b"]);
    }

    #[test]
    fn an_id_of_an_earlier_step_or_none_gets_a_new_one() {
        assert_eq!(settled(&["a", ""], &["a"]), ["call_3_1", "call_3_2"]);
    }

    #[test]
    fn a_made_up_id_never_meets_a_given_one() {
        assert_eq!(settled(&["", "call_3_1"], &["call_3_1"]), ["call_3_1_2", "call_3_2"]);
    }

    #[test]
    fn empty_argument_text_becomes_no_arguments() {
        let mut reply = reply(&["a"]);
        settle_ids(&mut reply, 1, &HashSet::new());
        assert_eq!(reply.calls[0].arguments, Arguments::empty());
    }
}
