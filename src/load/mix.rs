//! Which tasks are asked: texts with weights, drawn by number and seed.

use std::sync::Arc;

use crate::core::inject::Dice;

/// What the demonstration is asked, if nothing else is.
const DEMO: &str = "\
4* Сколько я потратил на такси в сентябре?
2* Сколько ушло на еду в сентябре?
2* Сколько я потратил на такси и на еду в сентябре?
1* How much did I spend on taxi in September?
1* Какая завтра погода?
";

/// Tasks and how often each is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Each with the weights of all up to and with it.
    tasks: Vec<(u64, Arc<str>)>,
}

impl Mix {
    /// The questions of the demonstration.
    pub fn demo() -> Self {
        Self::parse(DEMO.lines()).expect("a test reads it")
    }

    /// Reads tasks, one a line, as `TEXT` or `WEIGHT* TEXT`. Empty lines and those that begin with
    /// `#` are left out.
    ///
    /// # Errors
    /// One phrase, where a weight is nothing or no task is left.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let (mut tasks, mut sum) = (Vec::new(), 0_u64);
        for line in lines {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (weight, text) = weighed(line);
            if weight == 0 || text.is_empty() {
                return Err(format!("the task {line:?} must be TEXT or WEIGHT* TEXT with a weight of 1 or more"));
            }
            sum += u64::from(weight);
            tasks.push((sum, Arc::from(text)));
        }
        if tasks.is_empty() { Err("there must be at least one task".to_owned()) } else { Ok(Self { tasks }) }
    }

    /// The task of the session of this number.
    pub(super) fn pick(&self, dice: Dice, number: u64) -> Arc<str> {
        let sum = self.tasks.last().map_or(1, |(sum, _)| *sum);
        #[expect(clippy::cast_precision_loss, reason = "weights are 32 bits each")]
        let place = dice.at(number) * sum as f64;
        #[expect(clippy::cast_precision_loss, reason = "weights are 32 bits each")]
        let index = self.tasks.partition_point(|(until, _)| *until as f64 <= place);
        Arc::clone(&self.tasks[index.min(self.tasks.len() - 1)].1)
    }
}

/// The weight before a star, if there is one; else 1.
fn weighed(line: &str) -> (u32, &str) {
    let number = line.split_once('*').and_then(|(weight, text)| Some((weight.trim().parse().ok()?, text.trim())));
    number.unwrap_or((1, line))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn weights_are_kept() {
        let mix = Mix::parse(["3* taxi", "", "# a comment", "food * drink"]).expect("a mix");
        let mut counts = BTreeMap::new();
        for number in 0..8000 {
            *counts.entry(mix.pick(Dice::of(5), number).to_string()).or_insert(0) += 1;
        }
        // Three quarters of 8000, within four standard deviations (39 each).
        let taxi = counts["taxi"];
        assert!((5844..=6156).contains(&taxi), "{counts:?}");
        assert_eq!(counts.keys().collect::<Vec<_>>(), ["food * drink", "taxi"]);
    }

    #[test]
    fn what_is_no_task_is_said() {
        assert!(Mix::parse(["0* taxi"]).is_err_and(|wrong| wrong.contains("WEIGHT* TEXT")));
        assert!(Mix::parse(["3*"]).is_err());
        assert_eq!(Mix::parse(["#"]), Err("there must be at least one task".to_owned()));
    }

    #[test]
    fn the_demonstration_has_its_questions() {
        assert_eq!(Mix::demo().tasks.len(), 5);
        assert_eq!(Mix::demo().tasks[4].0, 10);
    }
}
