//! Tables by hand; times are seconds of one day.

mod sequences;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const HOLD: Duration = Duration::from_secs(15);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(1_771_410_225_000_000_000).plus(Duration::from_secs(seconds))
}

fn breaker() -> Breaker {
    Breaker::new(Rules::default())
}

/// One attempt that ends where it begins.
fn attempt(breaker: &mut Breaker, now: Timestamp, health: Health) {
    let permit = breaker.admit(now, HOLD).expect("an attempt is let through");
    breaker.settle(permit, health, now);
}

/// Attempts written as letters: F and S count, i is ignored; the second of each is its place.
/// Gives the place (from 1) after which it was first open.
fn opens_after(letters: &str) -> Option<usize> {
    let mut breaker = breaker();
    for (place, letter) in letters.chars().enumerate() {
        let health = match letter {
            'F' => Health::Failure,
            'S' => Health::Success,
            _ => Health::Ignored,
        };
        attempt(&mut breaker, at(place as u64), health);
        if breaker.state() == CircuitState::Open {
            return Some(place + 1);
        }
    }
    None
}

/// A breaker that opened at second 4.
fn open() -> Breaker {
    let mut breaker = breaker();
    for second in 0..5 {
        attempt(&mut breaker, at(second), Health::Failure);
    }
    assert_eq!(breaker.state(), CircuitState::Open);
    breaker
}

fn causes(breaker: &mut Breaker) -> Vec<CircuitCause> {
    breaker.take_moves().into_iter().map(|step| step.cause).collect()
}

#[test]
fn opens_at_four_fifths_of_at_least_five() {
    for (letters, expected) in [
        ("FFFF", None),
        ("FFFFF", Some(5)),
        ("FFFFS", Some(5)),
        ("SFFFF", Some(5)),
        ("FFSFF", Some(5)),
        ("FFFSSFFFFF", Some(10)),
        ("FFFSS", None),
        ("FiFiFiFiiF", Some(10)),
        ("iiiiiiiiii", None),
        ("SSSSSSSSSS", None),
    ] {
        assert_eq!(opens_after(letters), expected, "{letters}");
    }
}

#[test]
fn what_is_five_minutes_old_is_not_counted() {
    for (last, expected) in [(299, CircuitState::Open), (300, CircuitState::Closed), (301, CircuitState::Closed)] {
        let mut breaker = breaker();
        attempt(&mut breaker, at(0), Health::Failure);
        for second in last - 3..=last {
            attempt(&mut breaker, at(second), Health::Failure);
        }
        assert_eq!(breaker.state(), expected, "the first is {last} s old");
    }
}

#[test]
fn stays_open_for_a_minute_and_says_how_long() {
    let mut breaker = open();
    let refusal = breaker.admit(at(22), HOLD).expect_err("it is open");
    assert_eq!(refusal.retry_after, Some(42 * SECOND));
    assert!(breaker.admit(at(63), HOLD).is_err());
    assert!(breaker.admit(at(64), HOLD).is_ok());
}

#[test]
fn fifty_at_half_open_are_one_probe_and_forty_nine_refusals() {
    let mut breaker = open();
    let (probes, refused): (Vec<_>, Vec<_>) = (0..50).map(|_| breaker.admit(at(64), HOLD)).partition(Result::is_ok);
    assert_eq!((probes.len(), refused.len()), (1, 49));
    assert!(refused.iter().all(|refusal| *refusal == Err(Refusal { retry_after: Some(HOLD) })));
}

#[test]
fn a_probe_that_fails_opens_for_another_minute() {
    let mut breaker = open();
    let probe = breaker.admit(at(64), HOLD).expect("a probe");
    breaker.settle(probe, Health::Failure, at(79));
    assert_eq!((breaker.state(), breaker.until()), (CircuitState::Open, Some(at(139))));
    assert!(breaker.admit(at(138), HOLD).is_err());
    assert!(breaker.admit(at(139), HOLD).is_ok());
    let expected =
        [CircuitCause::Failures, CircuitCause::TimePassed, CircuitCause::ProbeFailed, CircuitCause::TimePassed];
    assert_eq!(causes(&mut breaker), expected);
}

#[test]
fn a_probe_that_succeeds_closes_and_nothing_is_counted_any_more() {
    let mut breaker = open();
    attempt(&mut breaker, at(64), Health::Success);
    assert_eq!((breaker.state(), breaker.counts()), (CircuitState::Closed, (0, 0)));
    for second in 65..69 {
        attempt(&mut breaker, at(second), Health::Failure);
    }
    assert_eq!(breaker.state(), CircuitState::Closed);
}

#[test]
fn an_ignored_probe_gives_its_permit_back_at_once() {
    let mut breaker = open();
    for _ in 0..3 {
        attempt(&mut breaker, at(64), Health::Ignored);
        assert_eq!(breaker.state(), CircuitState::HalfOpen);
    }
    attempt(&mut breaker, at(64), Health::Success);
    assert_eq!(breaker.state(), CircuitState::Closed);
}

#[test]
fn the_permit_of_a_holder_that_vanished_comes_back_by_its_timeout() {
    let mut breaker = open();
    let vanished = breaker.admit(at(64), HOLD).expect("a probe");
    assert_eq!(breaker.next_move(), Some(at(79)));
    assert_eq!(breaker.admit(at(78), HOLD), Err(Refusal { retry_after: Some(SECOND) }));
    let second = breaker.admit(at(79), HOLD).expect("the next caller probes");
    // What the first says after all is about a probe that is over.
    breaker.settle(vanished, Health::Failure, at(80));
    assert_eq!(breaker.state(), CircuitState::HalfOpen);
    assert!(breaker.admit(at(80), HOLD).is_err());
    breaker.settle(second, Health::Success, at(81));
    assert_eq!(breaker.state(), CircuitState::Closed);
}

#[test]
fn results_of_attempts_begun_earlier_do_not_count() {
    let mut breaker = breaker();
    let late: Vec<_> = (0..3).map(|_| breaker.admit(at(0), HOLD).expect("closed")).collect();
    for second in 0..5 {
        attempt(&mut breaker, at(second), Health::Failure);
    }
    let mut late = late.into_iter();
    let mut settle_one = |breaker: &mut Breaker, health, second| {
        breaker.settle(late.next().expect("one left"), health, at(second));
    };
    settle_one(&mut breaker, Health::Success, 10);
    assert_eq!(breaker.state(), CircuitState::Open);
    breaker.advance(at(64));
    settle_one(&mut breaker, Health::Success, 64);
    assert_eq!(breaker.state(), CircuitState::HalfOpen);
    let probe = breaker.admit(at(64), HOLD).expect("the permit is still there");
    settle_one(&mut breaker, Health::Failure, 65);
    assert_eq!(breaker.state(), CircuitState::HalfOpen);
    breaker.settle(probe, Health::Success, at(65));
    assert_eq!(breaker.counts(), (0, 0));
}

#[test]
fn moves_on_with_no_traffic() {
    let mut breaker = open();
    assert_eq!(breaker.next_move(), Some(at(64)));
    breaker.advance(at(63));
    assert_eq!(breaker.state(), CircuitState::Open);
    breaker.advance(at(604));
    assert_eq!(breaker.state(), CircuitState::HalfOpen);
    assert_eq!(breaker.next_move(), None);
}

#[test]
fn an_operator_holds_it_open_or_closed_until_the_time_he_names() {
    let mut breaker = breaker();
    breaker.switch(Switch::ForceOpen(Some(at(600))), at(0));
    assert_eq!(breaker.admit(at(0), HOLD), Err(Refusal { retry_after: Some(600 * SECOND) }));
    breaker.advance(at(600));
    assert_eq!((breaker.state(), breaker.forced()), (CircuitState::HalfOpen, false));

    breaker.switch(Switch::ForceClosed(Some(at(1000))), at(700));
    for second in 700..720 {
        attempt(&mut breaker, at(second), Health::Failure);
    }
    assert_eq!((breaker.state(), breaker.forced()), (CircuitState::Closed, true));
    breaker.advance(at(1000));
    assert_eq!((breaker.state(), breaker.forced(), breaker.counts()), (CircuitState::Closed, false, (0, 0)));

    breaker.switch(Switch::ForceOpen(None), at(1001));
    assert_eq!(breaker.admit(at(1_000_000), HOLD), Err(Refusal { retry_after: None }));
    breaker.switch(Switch::Reset, at(1_000_001));
    assert_eq!((breaker.state(), breaker.forced()), (CircuitState::Closed, false));
}

#[test]
fn a_restart_finds_it_as_time_left_it() {
    let mut before = open();
    let last = before.take_moves().pop().expect("it opened");
    for (now, state, until) in [
        (10, CircuitState::Open, Some(at(64))),
        (63, CircuitState::Open, Some(at(64))),
        (64, CircuitState::HalfOpen, None),
        (90_000, CircuitState::HalfOpen, None),
    ] {
        let mut after = breaker();
        after.restore(last, at(now));
        assert_eq!((after.state(), after.until()), (state, until), "restored at {now}");
    }
}

#[test]
fn a_restart_keeps_the_switches_of_operators() {
    for (switch, state) in [
        (Switch::ForceOpen(Some(at(600))), CircuitState::Open),
        (Switch::ForceClosed(Some(at(600))), CircuitState::Closed),
    ] {
        let mut before = breaker();
        before.switch(switch, at(0));
        let last = before.take_moves().pop().expect("a switch");
        let mut after = breaker();
        after.restore(last, at(599));
        assert_eq!((after.state(), after.forced()), (state, true));
        after.advance(at(600));
        assert!(!after.forced());
        // Another restart finds the first restart's move, or none where all is well.
        let moves = after.take_moves();
        assert_eq!(moves[0].cause, CircuitCause::Restored);
        let mut later = breaker();
        later.restore(moves[0], at(601));
        assert!(!later.forced());
    }
}
