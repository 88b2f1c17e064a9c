//! Sequences of whatever may happen to a breaker, against what must hold of any.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::{HOLD, at, breaker};
use crate::machine::breaker::*;

/// What may happen to a breaker.
#[derive(Clone, Debug)]
enum Act {
    Pass(u64),
    Admit,
    Settle(usize, Health),
    Vanish(usize),
    Switch(u8, Option<u64>),
    Advance,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let health = prop_oneof![
        6 => Just(Health::Failure),
        2 => Just(Health::Success),
        1 => Just(Health::Ignored),
    ];
    let act = prop_oneof![
        // Times are whole ticks of the window, so that the reference needs no ticks.
        4 => (0_u64..2_000).prop_map(Act::Pass),
        1 => (0_u64..40_000).prop_map(Act::Pass),
        10 => Just(Act::Admit),
        10 => (any::<usize>(), health).prop_map(|(which, health)| Act::Settle(which, health)),
        1 => any::<usize>().prop_map(Act::Vanish),
        1 => (0_u8..3, proptest::option::of(0_u64..20_000)).prop_map(|(which, until)| Act::Switch(which, until)),
        2 => Just(Act::Advance),
    ];
    proptest::collection::vec(act, 0..200)
}

fn is_legal(step: &Move) -> bool {
    use CircuitState::{Closed, HalfOpen, Open};
    match step.cause {
        CircuitCause::Failures => (step.from, step.to) == (Closed, Open) && !step.forced && step.until.is_some(),
        CircuitCause::TimePassed => matches!((step.from, step.to), (Open, HalfOpen) | (Closed, Closed)) && !step.forced,
        CircuitCause::ProbeFailed => (step.from, step.to) == (HalfOpen, Open) && step.until.is_some(),
        CircuitCause::ProbeSucceeded => (step.from, step.to) == (HalfOpen, Closed),
        CircuitCause::ForcedOpen => step.to == Open && step.forced,
        CircuitCause::ForcedClosed => step.to == Closed && step.forced,
        CircuitCause::Reset => step.to == Closed && !step.forced && step.until.is_none(),
        CircuitCause::Restored => false,
    }
}

/// The obvious way to count: keep everything that ended while it was closed, look at all of it.
#[derive(Default)]
struct Slow {
    ended: VecDeque<(Timestamp, bool)>,
}

impl Slow {
    fn must_open(&mut self, now: Timestamp, failed: bool) -> bool {
        self.ended.push_back((now, failed));
        let young: Vec<_> = self.ended.iter().filter(|(at, _)| now.since(*at) < Duration::from_secs(300)).collect();
        let failures = young.iter().filter(|(_, failed)| *failed).count();
        young.len() >= 5 && failures * 10 >= young.len() * 8
    }
}

/// Plays acts and holds, after each, what must hold of any breaker.
fn play(acts: Vec<Act>) -> Result<(), TestCaseError> {
    let mut breaker = breaker();
    let mut now = at(0);
    // Permits with the number of moves that had been made when they were given.
    let mut permits: Vec<(Permit, usize)> = Vec::new();
    let (mut moves, mut slow) = (0, Slow::default());
    let mut probe_until = None;
    for act in acts {
        let (before, forced) = (breaker.state(), breaker.forced());
        let mut expect_open = None;
        match act {
            Act::Pass(ticks) => now = now.plus(Duration::from_millis(10 * ticks)),
            Act::Advance => breaker.advance(now),
            Act::Vanish(which) if !permits.is_empty() => {
                drop(permits.remove(which % permits.len()));
            }
            Act::Switch(which, until) => {
                let until = until.map(|ticks| now.plus(Duration::from_millis(10 * ticks)));
                breaker.switch(
                    [Switch::ForceOpen(until), Switch::ForceClosed(until), Switch::Reset][usize::from(which)],
                    now,
                );
            }
            Act::Admit => {
                let admitted = breaker.admit(now, HOLD);
                match (&admitted, breaker.state()) {
                    (Ok(_), CircuitState::HalfOpen) => {
                        prop_assert!(probe_until.is_none_or(|until| until <= now), "two probes at a time");
                        probe_until = Some(now.plus(HOLD));
                    }
                    (Ok(_), state) => prop_assert_eq!(state, CircuitState::Closed),
                    (Err(_), state) => prop_assert_ne!(state, CircuitState::Closed),
                }
                let made = moves + breaker.moves.len();
                permits.extend(admitted.ok().map(|permit| (permit, made)));
            }
            Act::Settle(which, health) if !permits.is_empty() => {
                let (permit, given) = permits.remove(which % permits.len());
                let current = permit.generation == breaker.generation;
                breaker.advance(now);
                let counts = current && given == moves + breaker.moves.len();
                if counts && before == CircuitState::Closed && !forced && health != Health::Ignored {
                    expect_open = Some(slow.must_open(now, health == Health::Failure));
                }
                if counts && before == CircuitState::HalfOpen {
                    probe_until = None;
                }
                breaker.settle(permit, health, now);
            }
            Act::Vanish(_) | Act::Settle(..) => {}
        }
        let made = breaker.take_moves();
        if let Some(open) = expect_open {
            prop_assert_eq!(made.last().is_some_and(|step| step.cause == CircuitCause::Failures), open);
        } else {
            prop_assert!(made.iter().all(|step| step.cause != CircuitCause::Failures));
        }
        for step in &made {
            prop_assert!(is_legal(step), "{:?}", step);
        }
        if !made.is_empty() {
            moves += made.len();
            slow = Slow::default();
            probe_until = None;
        }
        if let Some(next) = breaker.next_move() {
            let mut later = breaker.clone();
            later.advance(next);
            prop_assert_ne!(later.next_move(), Some(next), "time moves it on");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_sequence_leaves_the_legal_moves(acts in acts()) {
        play(acts)?;
    }

    #[test]
    fn the_window_counts_as_the_obvious_way_does(
        attempts in proptest::collection::vec((0_u64..6_000, prop_oneof![3 => Just(true), 2 => Just(false)]), 1..120),
    ) {
        let (mut window, mut ended, mut now) = (Window::new(), Vec::new(), at(0));
        for (ticks, failed) in attempts {
            now = now.plus(Duration::from_millis(10 * ticks));
            window.count(now, failed, Duration::from_secs(300));
            ended.push((now, failed));
            let young = ended.iter().filter(|(at, _)| now.as_nanos() - at.as_nanos() < 300_000_000_000);
            let young: Vec<_> = young.collect();
            let failures = young.iter().filter(|(_, failed)| *failed).count();
            prop_assert_eq!(window.totals(), (failures as u64, young.len() as u64));
        }
    }
}
