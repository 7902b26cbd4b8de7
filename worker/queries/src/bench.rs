//! Figures for benchmarks about a pool without a payment. These functions return numbers and no text; no run may call
//! them.

use std::collections::HashMap;
use std::hash::BuildHasher;

use super::gate::Survivors;

/// Returns the number of surviving texts and the sum of their occurrences.
pub fn sums(survivors: &Survivors) -> (u64, u64) {
    survivors.measured().fold((0, 0), |(texts, occurrences), (_, count)| (texts + 1, occurrences + count))
}

/// Returns the number of survivors that violate the gate's rule. A survivor violates it with fewer than `threshold`
/// occurrences, or with a count that a sample of the whole log `all` cannot have. Where the gate kept every row
/// (`whole`), each count must equal the count in the log.
pub fn wrong<S: BuildHasher>(survivors: &Survivors, all: &HashMap<&str, u64, S>, threshold: u64, whole: bool) -> u64 {
    let right = |text: &str, count: u64| {
        let own = all.get(text).copied().unwrap_or(0);
        count >= threshold && (if whole { count == own } else { count <= own })
    };
    survivors.measured().filter(|(text, count)| !right(text, *count)).count() as u64
}
