//! Metrics of the process, with its processor time in fractions of a second.
//!
//! The collector of the `prometheus` crate counts whole seconds, which over a short time says
//! nothing. What the system tells in ticks is shown in ticks here, as client libraries of other
//! languages do. It must never know what the process does.

use prometheus::{
    core::{Collector, Desc},
    process_collector::ProcessCollector,
    proto::{Counter, MetricFamily},
};

use super::catalogue::PROCESS_CPU;

/// Ticks in a second, as Linux shows them to programs on every architecture, whatever the kernel's
/// own clock.
const TICKS: f64 = 100.0;

/// The metrics of this process.
pub(super) struct Process(ProcessCollector);

impl Process {
    pub(super) fn of_self() -> Self {
        Self(ProcessCollector::for_self())
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.0.collect();
        let seconds = std::fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(processor_seconds);
        let processor = families.iter_mut().find(|family| family.name() == PROCESS_CPU.name);
        if let (Some(seconds), Some(family)) = (seconds, processor) {
            let mut counter = Counter::default();
            counter.set_value(seconds);
            family.mut_metric().iter_mut().for_each(|metric| metric.set_counter(counter.clone()));
        }
        families
    }
}

/// User and system time of a process, from the line that `proc_pid_stat(5)` describes: fields 14 and
/// 15. The second is the name of the program, in parentheses, and may hold anything.
#[expect(clippy::cast_precision_loss, reason = "exact for three million years of ticks")]
fn processor_seconds(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_ascii_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    let ticks = times.next()??.checked_add(times.next()??)?;
    Some(ticks as f64 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_past_any_name_of_the_program() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 3129 0 7 0 1234 66 5 6 20 0 9 0 77 1000 200";
        assert_eq!(processor_seconds(stat).map(|seconds| seconds.to_string()).as_deref(), Some("13"));
        let stat = "42 (glassbox) S 1 42 42 0 -1 4194560 3129 0 7 0 1 6 5 6 20 0 9 0 77 1000 200";
        assert_eq!(processor_seconds(stat).map(|seconds| seconds.to_string()).as_deref(), Some("0.07"));
        assert_eq!(processor_seconds("42 (glassbox) S 1 42"), None);
    }

    #[test]
    fn processor_time_of_this_process_has_a_fraction_and_never_goes_back() {
        let process = Process::of_self();
        let read = || {
            let families = process.collect();
            let family = families.iter().find(|family| family.name() == PROCESS_CPU.name).expect("it is there");
            family.get_metric()[0].get_counter().get_value()
        };
        // A hundredth of all values are whole: each reading costs time, so the next ones are not.
        let mut last = read();
        for _ in 0..100_000 {
            if last.fract() > 0.0 {
                return;
            }
            let now = read();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
        panic!("only whole seconds: {last}");
    }
}
