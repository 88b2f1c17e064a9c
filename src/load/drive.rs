//! Runs the sessions of one stage: at the times of a schedule (open), or so many at once (closed).

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    mix::Mix,
    schedule::{Arrivals, Schedule},
    tally::{Start, Tally},
    target::Target,
};
use crate::core::inject::Dice;

/// How sessions come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// When the clock says so.
    Open {
        /// Sessions a second.
        rate: f64,
        /// How they are spread.
        arrivals: Arrivals,
        /// At the beginning, not counted.
        warm_up: Duration,
        /// What is counted.
        duration: Duration,
    },
    /// One as soon as another is over, so many in all.
    Closed {
        /// Sessions in all.
        sessions: u64,
    },
}

/// What the sessions of a stage share.
#[derive(Clone)]
pub(super) struct Run {
    pub(super) target: Arc<dyn Target>,
    pub(super) mix: Mix,
    pub(super) seed: u64,
    /// Sessions at once, at the most.
    pub(super) concurrency: usize,
    pub(super) tally: Arc<Mutex<Tally>>,
    /// Nothing new begins once this is cancelled; what runs is waited for.
    pub(super) stop: CancellationToken,
}

impl Run {
    /// Runs a stage to the end of its last session.
    pub(super) async fn stage(&self, pace: Pace) {
        match pace {
            Pace::Open { rate, arrivals, warm_up, duration } => {
                let schedule = Schedule::new(arrivals, rate, self.seed);
                self.open(schedule.take_while(|at| *at < warm_up + duration), warm_up).await;
            }
            Pace::Closed { sessions } => self.closed(sessions).await,
        }
    }

    /// Every session begins at its time, or as soon after it as there is a place for it.
    async fn open(&self, schedule: impl Iterator<Item = Duration>, warm_up: Duration) {
        let (tasks, places) = (TaskTracker::new(), Arc::new(Semaphore::new(self.concurrency)));
        let (start, dice) = (Instant::now(), Dice::of(!self.seed));
        for (number, at) in (0..).zip(schedule) {
            let intended = start + at;
            tokio::select! {
                () = sleep_until(intended) => {}
                () = self.stop.cancelled() => break,
            }
            let (run, places, task) = (self.clone(), Arc::clone(&places), self.mix.pick(dice, number));
            tasks.spawn(async move {
                let place = places.acquire().await;
                run.one(intended, at < warm_up, &task).await;
                drop(place);
            });
        }
        tasks.close();
        tasks.wait().await;
    }

    async fn closed(&self, sessions: u64) {
        let (tasks, next, dice) = (TaskTracker::new(), Arc::new(AtomicU64::new(0)), Dice::of(!self.seed));
        for _ in 0..self.concurrency {
            let (run, next) = (self.clone(), Arc::clone(&next));
            tasks.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= sessions || run.stop.is_cancelled() {
                        return;
                    }
                    run.one(Instant::now(), false, &run.mix.pick(dice, number)).await;
                }
            });
        }
        tasks.close();
        tasks.wait().await;
    }

    async fn one(&self, intended: Instant, warm_up: bool, task: &str) {
        let start = Start { intended, began: Instant::now(), warm_up };
        self.tally().begin(start);
        let seen = self.target.session(task).await;
        self.tally().end(start, seen);
    }

    pub(super) fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use tokio::time::sleep;

    use super::{
        super::target::{End, Seen},
        *,
    };
    use crate::core::SessionStatus;

    /// Answers in a millisecond, but for a time in which it answers nothing.
    struct Stalling {
        from: Instant,
        until: Instant,
    }

    #[async_trait]
    impl Target for Stalling {
        async fn session(&self, _: &str) -> Seen {
            let seen = Seen::begun();
            if (self.from..self.until).contains(&Instant::now()) {
                sleep_until(self.until).await;
            }
            sleep(Duration::from_millis(1)).await;
            Seen { accepted: Some(Instant::now()), ..seen }
                .ended(End::Ended { status: SessionStatus::Done, degraded: false })
        }
    }

    fn run(concurrency: usize, from: u64, until: u64) -> Run {
        let at = |second| Instant::now() + Duration::from_secs(second);
        Run {
            target: Arc::new(Stalling { from: at(from), until: at(until) }),
            mix: Mix::demo(),
            seed: 1,
            concurrency,
            tally: Arc::new(Mutex::new(Tally::new())),
            stop: CancellationToken::new(),
        }
    }

    fn pace(rate: f64, warm_up: u64, duration: u64) -> Pace {
        let (warm_up, duration) = (Duration::from_secs(warm_up), Duration::from_secs(duration));
        Pace::Open { rate, arrivals: Arrivals::Constant, warm_up, duration }
    }

    fn millis(tally: &Tally, quantile: f64) -> u64 {
        tally.end_to_end.value_at_quantile(quantile) / 1000
    }

    /// A stall of ten seconds in a minute at 10 a second: of 600 sessions 100 wait, the first of
    /// them 10 s and the last 0.1 s, whatever the cap on sessions at once. A closed loop of one
    /// would have seen a single slow session.
    #[tokio::test(start_paused = true)]
    async fn a_stall_shows_in_the_percentiles_however_few_may_run_at_once() {
        for concurrency in [1000, 1] {
            let run = run(concurrency, 20, 30);
            run.stage(pace(10.0, 0, 60)).await;
            let tally = run.tally().clone();
            assert_eq!((tally.begun, tally.over), (600, 600));
            assert!(millis(&tally, 0.5) <= 2, "half were not touched: {}", millis(&tally, 0.5));
            // The 540th fastest of 600 is the 40th fastest of the 100 that waited, 4 s or so.
            let p90 = millis(&tally, 0.9);
            assert!((3_900..=4_400).contains(&p90), "p90 {p90} with {concurrency}");
            let p99 = millis(&tally, 0.99);
            assert!((9_300..=9_700).contains(&p99), "p99 {p99} with {concurrency}");
            let max = tally.end_to_end.max() / 1000;
            assert!((10_000..=10_020).contains(&max), "max {max} with {concurrency}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_place_is_late_and_that_is_said() {
        let capped = run(1, 20, 30);
        capped.stage(pace(10.0, 0, 60)).await;
        // The 99 that should have begun during the stall, and those that at its end wait for these
        // to be worked off, a millisecond or two each: one, or two or three.
        let late = capped.tally().late;
        assert!((100..=102).contains(&late), "{late}");
        assert!(capped.tally().worst_lag > Duration::from_millis(9_800), "{:?}", capped.tally().worst_lag);
        let free = run(1000, 20, 30);
        free.stage(pace(10.0, 0, 60)).await;
        let tally = free.tally().clone();
        assert_eq!((tally.late, tally.worst_lag < Duration::from_millis(5)), (0, true));
    }

    #[tokio::test(start_paused = true)]
    async fn the_warm_up_is_run_and_not_counted() {
        let run = run(1000, 0, 3);
        run.stage(pace(10.0, 5, 10)).await;
        let tally = run.tally().clone();
        assert_eq!((tally.warm_up, tally.begun, tally.end_to_end.len()), (50, 100, 100));
        assert!(tally.end_to_end.max() < 10_000, "the stall was in the warm-up");
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_run_has_its_number_of_sessions_and_no_more_at_once() {
        let run = run(7, 1000, 1000);
        let began = Instant::now();
        run.stage(Pace::Closed { sessions: 70 }).await;
        let tally = run.tally().clone();
        assert_eq!((tally.begun, tally.over), (70, 70));
        let took = began.elapsed();
        // Ten rounds of a millisecond, which the timer rounds up to two.
        assert!((10..=25).contains(&took.as_millis()), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_the_schedule_and_waits_for_what_runs() {
        let run = run(1000, 0, 100);
        let stop = run.stop.clone();
        let stopping = async {
            sleep(Duration::from_millis(4_950)).await;
            stop.cancel();
        };
        tokio::join!(run.stage(pace(10.0, 0, 60)), stopping);
        let tally = run.tally().clone();
        assert_eq!((tally.begun, tally.over), (50, 50));
    }
}
