//! Synthetic rows with the distribution of a query log: few frequent queries, most of them once or twice; the same rows
//! in every process.

use std::fmt::Write;

/// Frequencies decrease with this power of the rank.
const EXPONENT: f64 = 1.05;

/// Ranks in 1..=n with probability proportional to rank^−[`EXPONENT`], by rejection-inversion (Hörmann and Derflinger
/// 1996), which needs no table.
pub(super) struct ZipfRanks {
    n: f64,
    first: f64,
    last: f64,
    shortcut: f64,
    state: u64,
}

impl ZipfRanks {
    pub(super) fn new(n: u64, seed: u64) -> Self {
        let n = n as f64;
        let shortcut = 2.0 - inverse(integral(2.5) - density(2.0));
        Self { n, first: integral(1.5) - 1.0, last: integral(n + 0.5), shortcut, state: seed }
    }

    /// Draws a uniform number (SplitMix64); no privacy depends on it.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix(self.state) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn rank(&mut self) -> u64 {
        loop {
            let u = self.last + self.uniform() * (self.first - self.last);
            let x = inverse(u);
            let rank = x.round().clamp(1.0, self.n);
            if rank - x <= self.shortcut || u >= integral(rank + 0.5) - density(rank) {
                return rank as u64;
            }
        }
    }
}

fn density(x: f64) -> f64 {
    x.powf(-EXPONENT)
}

fn integral(x: f64) -> f64 {
    (x.powf(1.0 - EXPONENT) - 1.0) / (1.0 - EXPONENT)
}

fn inverse(y: f64) -> f64 {
    (1.0 + y * (1.0 - EXPONENT)).powf(1.0 / (1.0 - EXPONENT))
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The stream: `rows` queries, with at most a tenth as many distinct ones.
pub(super) struct QueryStream {
    zipf: ZipfRanks,
    left: u64,
    text: String,
}

impl QueryStream {
    pub(super) fn new(rows: u64) -> Self {
        Self { zipf: ZipfRanks::new((rows / 10).max(10), 1), left: rows, text: String::new() }
    }

    /// Returns the next query, some 25 bytes.
    pub(super) fn next(&mut self) -> Option<&str> {
        self.left = self.left.checked_sub(1)?;
        let rank = self.zipf.rank();
        self.text.clear();
        // The rank makes the query unique; the rest gives it a realistic length.
        write!(self.text, "how do i {:x} the {rank}", mix(rank) >> 36).ok()?;
        Some(&self.text)
    }
}
