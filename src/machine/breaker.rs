//! A circuit breaker: stops attempts at a side that keeps failing, and probes it after a while.
//!
//! Every move goes through one function. It must never read a clock or hold a lock: time comes
//! in, moves come out of [`Breaker::take_moves`].

#[cfg(test)]
mod tests;
mod window;

use std::time::Duration;

use self::window::Window;
use crate::core::{
    Timestamp,
    circuit::{CircuitCause, CircuitState},
    fault::Health,
};

/// When a breaker opens, and for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Share of failures at which it opens, above 0 and up to 1.
    pub failure_threshold: f64,
    /// How far back attempts are counted.
    pub window: Duration,
    /// Attempts below which it never opens.
    pub min_calls: u32,
    /// How long it stays open before a probe.
    pub half_open_after: Duration,
}

impl Default for Rules {
    /// The values of the seed document.
    fn default() -> Self {
        Self {
            failure_threshold: 0.8,
            window: Duration::from_secs(300),
            min_calls: 5,
            half_open_after: Duration::from_secs(60),
        }
    }
}

/// The right to make one attempt. It belongs to the state that gave it: once the breaker has
/// moved on, its result no longer counts.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an attempt that is never settled blocks the next probe until its permit times out"]
pub struct Permit {
    generation: u64,
}

/// No attempt may be made now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// After this time the next probe is possible for sure; nothing where an operator holds the
    /// breaker open without an end.
    pub retry_after: Option<Duration>,
}

/// What an operator can do to a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// Lets nothing through, until then.
    ForceOpen(Option<Timestamp>),
    /// Lets everything through and counts nothing, until then.
    ForceClosed(Option<Timestamp>),
    /// Closes it, with nothing counted and no switch.
    Reset,
}

/// One move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// How it stood.
    pub from: CircuitState,
    /// How it stands.
    pub to: CircuitState,
    /// Why.
    pub cause: CircuitCause,
    /// Whether an operator holds it there.
    pub forced: bool,
    /// Until when it stays, if nothing else moves it.
    pub until: Option<Timestamp>,
}

/// A circuit breaker.
#[derive(Clone, Debug)]
pub struct Breaker {
    rules: Rules,
    phase: Phase,
    window: Window,
    /// Grows with every move and every probe.
    generation: u64,
    moves: Vec<Move>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed,
    Open {
        until: Timestamp,
    },
    /// The probe under way holds its permit until then at the longest.
    HalfOpen {
        probe: Option<Timestamp>,
    },
    ForcedOpen {
        until: Option<Timestamp>,
    },
    ForcedClosed {
        until: Option<Timestamp>,
    },
}

impl Breaker {
    /// A closed breaker with nothing counted.
    pub const fn new(rules: Rules) -> Self {
        let window = Window::new();
        Self { rules, phase: Phase::Closed, window, generation: 0, moves: Vec::new() }
    }

    /// How it stands, as of the last time that it was told.
    pub const fn state(&self) -> CircuitState {
        self.phase.state()
    }

    /// Whether an operator holds it there.
    pub const fn forced(&self) -> bool {
        matches!(self.phase, Phase::ForcedOpen { .. } | Phase::ForcedClosed { .. })
    }

    /// Until when it stays as it is, if nothing but time moves it.
    pub const fn until(&self) -> Option<Timestamp> {
        self.phase.until()
    }

    /// Failures and counted attempts of the window, as of the last counted one.
    pub const fn counts(&self) -> (u64, u64) {
        self.window.totals()
    }

    /// When time alone changes it next, its probe's permit included.
    pub const fn next_move(&self) -> Option<Timestamp> {
        match self.phase {
            Phase::HalfOpen { probe } => probe,
            Phase::Closed | Phase::Open { .. } | Phase::ForcedOpen { .. } | Phase::ForcedClosed { .. } => self.until(),
        }
    }

    /// Moves it on as time asks for.
    pub fn advance(&mut self, now: Timestamp) {
        let due = self.next_move().is_some_and(|at| at <= now);
        if !due {
            return;
        }
        match self.phase {
            Phase::Closed => {}
            Phase::Open { .. } | Phase::ForcedOpen { .. } => {
                self.transit(Phase::HalfOpen { probe: None }, CircuitCause::TimePassed);
            }
            // Whoever held the probe is gone; that says nothing of the other side.
            Phase::HalfOpen { .. } => self.phase = Phase::HalfOpen { probe: None },
            Phase::ForcedClosed { .. } => self.transit(Phase::Closed, CircuitCause::TimePassed),
        }
    }

    /// Asks for one attempt. `hold` is the longest time that it can take; a probe's permit comes
    /// back by itself after it.
    ///
    /// # Errors
    /// When to ask again.
    pub fn admit(&mut self, now: Timestamp, hold: Duration) -> Result<Permit, Refusal> {
        self.advance(now);
        match self.phase {
            Phase::Closed | Phase::ForcedClosed { .. } => {}
            Phase::HalfOpen { probe: None } => {
                self.phase = Phase::HalfOpen { probe: Some(now.plus(hold)) };
                self.generation += 1;
            }
            Phase::HalfOpen { probe: Some(until) } | Phase::Open { until } => {
                return Err(Refusal { retry_after: Some(until.since(now)) });
            }
            Phase::ForcedOpen { until } => {
                return Err(Refusal { retry_after: until.map(|until| until.since(now)) });
            }
        }
        Ok(Permit { generation: self.generation })
    }

    /// Takes the result of an attempt.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is good for one result")]
    pub fn settle(&mut self, permit: Permit, health: Health, now: Timestamp) {
        self.advance(now);
        if permit.generation != self.generation {
            return;
        }
        match (self.phase, health) {
            (Phase::Closed, Health::Failure | Health::Success) => self.count(now, health == Health::Failure),
            // Also where its permit has timed out, as long as nobody else probes.
            (Phase::HalfOpen { .. }, Health::Failure) => self.open(now, CircuitCause::ProbeFailed),
            (Phase::HalfOpen { .. }, Health::Success) => self.transit(Phase::Closed, CircuitCause::ProbeSucceeded),
            (Phase::HalfOpen { .. }, Health::Ignored) => self.phase = Phase::HalfOpen { probe: None },
            // Attempts that are not counted, and states that give no permits.
            (Phase::Closed, Health::Ignored)
            | (Phase::Open { .. } | Phase::ForcedOpen { .. } | Phase::ForcedClosed { .. }, _) => {}
        }
    }

    /// Does what an operator asks for.
    pub fn switch(&mut self, switch: Switch, now: Timestamp) {
        self.advance(now);
        match switch {
            Switch::ForceOpen(until) => self.transit(Phase::ForcedOpen { until }, CircuitCause::ForcedOpen),
            Switch::ForceClosed(until) => self.transit(Phase::ForcedClosed { until }, CircuitCause::ForcedClosed),
            Switch::Reset => self.transit(Phase::Closed, CircuitCause::Reset),
        }
    }

    /// Takes over how an earlier process left it: its last move. Where time has passed over that
    /// meanwhile, it stands as time would have left it.
    pub fn restore(&mut self, last: Move, now: Timestamp) {
        let phase = match (last.to, last.forced) {
            (CircuitState::Closed, false) => return,
            (CircuitState::Closed, true) => Phase::ForcedClosed { until: last.until },
            (CircuitState::Open, true) => Phase::ForcedOpen { until: last.until },
            (CircuitState::Open, false) => Phase::Open { until: last.until.unwrap_or(now) },
            (CircuitState::HalfOpen, _) => Phase::HalfOpen { probe: None },
        };
        self.transit(phase, CircuitCause::Restored);
        self.advance(now);
    }

    /// The moves since the last time that they were taken, in order.
    pub fn take_moves(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.moves)
    }

    fn count(&mut self, now: Timestamp, failed: bool) {
        self.window.count(now, failed, self.rules.window);
        let (failures, counted) = self.window.totals();
        if counted >= u64::from(self.rules.min_calls) && share(failures, counted) >= self.rules.failure_threshold {
            self.open(now, CircuitCause::Failures);
        }
    }

    fn open(&mut self, now: Timestamp, cause: CircuitCause) {
        self.transit(Phase::Open { until: now.plus(self.rules.half_open_after) }, cause);
    }

    /// The one way from state to state.
    fn transit(&mut self, to: Phase, cause: CircuitCause) {
        let from = self.phase.state();
        self.phase = to;
        self.generation += 1;
        self.window.clear();
        let (forced, until) = (self.forced(), self.until());
        self.moves.push(Move { from, to: to.state(), cause, forced, until });
    }
}

impl Phase {
    const fn state(self) -> CircuitState {
        match self {
            Self::Closed | Self::ForcedClosed { .. } => CircuitState::Closed,
            Self::Open { .. } | Self::ForcedOpen { .. } => CircuitState::Open,
            Self::HalfOpen { .. } => CircuitState::HalfOpen,
        }
    }

    const fn until(self) -> Option<Timestamp> {
        match self {
            Self::Closed | Self::HalfOpen { .. } => None,
            Self::Open { until } => Some(until),
            Self::ForcedOpen { until } | Self::ForcedClosed { until } => until,
        }
    }
}

fn share(failures: u64, counted: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "attempts of one window are far below 2^52")]
    let share = failures as f64 / counted as f64;
    share
}
