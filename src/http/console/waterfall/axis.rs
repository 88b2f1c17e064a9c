//! Where a point in time stands from left to right, in percent.
//!
//! A session may wait an hour for a person and work for a second. Time in which no call runs takes
//! no more room than a share of the time in which one does, and the page says that it was cut.

use crate::core::Timestamp;

/// The room of one idle time at the most, as a share of all busy time.
const IDLE_SHARE: f64 = 0.15;

/// Seconds of idle time below which it is never cut.
const SHORT: f64 = 0.25;

/// The axis.
pub(super) struct Axis {
    /// Points in time with their places, both rising.
    knots: Vec<(Timestamp, f64)>,
    /// Whether any idle time was cut.
    pub(super) shortened: bool,
}

impl Axis {
    /// The axis between two times, of which these parts are busy.
    pub(super) fn of(from: Timestamp, to: Timestamp, busy: impl IntoIterator<Item = (Timestamp, Timestamp)>) -> Self {
        let busy = joined(from, to, busy);
        let total: f64 = busy.iter().map(|(from, to)| length(*from, *to)).sum();
        let (mut knots, mut place, mut shortened, mut last) = (vec![(from, 0.0)], 0.0, false, from);
        for (begun, ended) in busy.into_iter().chain([(to, to)]) {
            let (idle, most) = (length(last, begun), total * IDLE_SHARE);
            let cut = total > 0.0 && idle > most && idle > SHORT;
            shortened |= cut;
            place += if cut { most } else { idle };
            knots.push((begun, place));
            place += length(begun, ended);
            knots.push((ended, place));
            last = ended;
        }
        if place > 0.0 {
            knots.iter_mut().for_each(|knot| knot.1 *= 100.0 / place);
        }
        Self { knots, shortened }
    }

    /// The place of a time, 0 to 100.
    pub(super) fn place(&self, at: Timestamp) -> f64 {
        let after = self.knots.partition_point(|(time, _)| *time <= at);
        match (after.checked_sub(1).and_then(|before| self.knots.get(before)), self.knots.get(after)) {
            (Some((begun, left)), Some((ended, right))) => {
                left + (right - left) * length(*begun, at) / length(*begun, *ended)
            }
            (Some((_, place)), None) => *place,
            (None, _) => 0.0,
        }
    }
}

/// The parts in order, inside the bounds, and none touching another.
fn joined(
    from: Timestamp,
    to: Timestamp,
    parts: impl IntoIterator<Item = (Timestamp, Timestamp)>,
) -> Vec<(Timestamp, Timestamp)> {
    let inside = |(begun, ended): (Timestamp, Timestamp)| (begun.max(from), ended.min(to));
    let mut parts: Vec<_> = parts.into_iter().map(inside).filter(|(begun, ended)| begun < ended).collect();
    parts.sort_unstable();
    let mut joined: Vec<(Timestamp, Timestamp)> = Vec::new();
    for (begun, ended) in parts {
        match joined.last_mut() {
            Some(last) if begun <= last.1 => last.1 = last.1.max(ended),
            _ => joined.push((begun, ended)),
        }
    }
    joined
}

fn length(from: Timestamp, to: Timestamp) -> f64 {
    to.since(from).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::default().plus(Duration::from_secs(seconds))
    }

    fn places(axis: &Axis, seconds: &[u64]) -> Vec<i64> {
        #[expect(clippy::cast_possible_truncation, reason = "0 to 10000")]
        seconds.iter().map(|second| (axis.place(at(*second)) * 100.0).round() as i64).collect()
    }

    #[test]
    fn busy_time_is_as_long_as_it_is() {
        let axis = Axis::of(at(10), at(20), [(at(10), at(15)), (at(14), at(20))]);
        assert!(!axis.shortened);
        assert_eq!(places(&axis, &[10, 11, 15, 20]), [0, 1000, 5000, 10_000]);
        assert_eq!(places(&axis, &[0, 99]), [0, 10_000], "what lies outside stands at the edge");
    }

    #[test]
    fn a_long_wait_takes_a_little_room() {
        // Busy 10 s and 10 s, an hour between: 10 + 3 + 10.
        let axis = Axis::of(at(0), at(3620), [(at(3610), at(3620)), (at(0), at(10))]);
        assert!(axis.shortened);
        let share = |part: f64| (part / 23.0 * 10_000.0).round();
        assert_eq!(places(&axis, &[10]), [share(10.0) as i64]);
        assert_eq!(places(&axis, &[1810]), [share(11.5) as i64]);
        assert_eq!(places(&axis, &[3610, 3620]), [share(13.0) as i64, 10_000]);
    }

    #[test]
    fn nothing_that_runs_and_no_time_at_all() {
        let axis = Axis::of(at(0), at(10), []);
        assert!(!axis.shortened);
        assert_eq!(places(&axis, &[0, 5, 10]), [0, 5000, 10_000]);
        let axis = Axis::of(at(3), at(3), [(at(3), at(3))]);
        assert!(axis.place(at(3)).abs() < f64::EPSILON);
    }
}
