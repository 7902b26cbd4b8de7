//! For measurements: numbers of a pool that nobody paid for. No text leaves through here, and no run may call it.

use std::collections::HashMap;
use std::hash::BuildHasher;

use super::gate::Survivors;

/// How many texts came through, and how often they occur together.
pub fn sums(survivors: &Survivors) -> (u64, u64) {
    survivors.measured().fold((0, 0), |(texts, occurrences), (_, count)| (texts + 1, occurrences + count))
}

/// How many came through that should not have: with fewer than `threshold` occurrences in `all`, the whole log, or with a count
/// that a sample of it cannot have; where everything was kept (`whole`), with any other count than its own.
pub fn wrong<S: BuildHasher>(survivors: &Survivors, all: &HashMap<&str, u64, S>, threshold: u64, whole: bool) -> u64 {
    let right = |text: &str, count: u64| {
        let own = all.get(text).copied().unwrap_or(0);
        count >= threshold && (if whole { count == own } else { count <= own })
    };
    survivors.measured().filter(|(text, count)| !right(text, *count)).count() as u64
}
