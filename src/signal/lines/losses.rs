//! When operators are told that lines are lost: once when it begins, and once when it is over.
//! The metric counts them one by one. It must never know a line.

use std::io;

/// Whether lines are being lost, and how many since that began.
#[derive(Debug, Default)]
pub(super) struct Losses(u64);

/// What is to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// A first line is lost.
    Begins,
    /// So many were lost, and now a batch went out whole.
    Over(u64),
}

impl Losses {
    /// What became of a batch and of what came while it was gathered and written: `out` bytes
    /// are written, `lost` lines are not.
    pub(super) fn note(&mut self, out: usize, lost: u64) -> Option<News> {
        let before = self.0;
        self.0 += lost;
        match (before, lost) {
            (0, 1..) => Some(News::Begins),
            (1.., 0) if out > 0 => Some(News::Over(std::mem::take(&mut self.0))),
            _ => None,
        }
    }
}

impl News {
    /// Tells it; without an error of the output it was the lane that had no room.
    pub(super) fn tell(&self, why: Option<&io::Error>) {
        let slow = || "the output is slower than lines come".to_owned();
        match self {
            Self::Begins => {
                let why = why.map_or_else(slow, ToString::to_string);
                tracing::warn!(target: "glassbox", %why, "event lines are lost");
            }
            Self::Over(lost) => tracing::warn!(target: "glassbox", lost, "event lines are written again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_told_once_and_its_end_once() {
        let mut losses = Losses::default();
        assert_eq!(losses.note(10, 0), None);
        assert_eq!(losses.note(4, 2), Some(News::Begins));
        assert_eq!(losses.note(0, 3), None);
        assert_eq!(losses.note(0, 0), None, "nothing was tried");
        assert_eq!(losses.note(10, 0), Some(News::Over(5)));
        assert_eq!(losses.note(10, 0), None);
        assert_eq!(losses.note(0, 1), Some(News::Begins));
    }
}
