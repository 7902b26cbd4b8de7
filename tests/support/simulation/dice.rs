//! The only source of randomness of a schedule: the same seed gives the same draws.

/// SplitMix64 (Steele, Lea, Flood 2014): small, and its streams for neighbouring seeds are unrelated.
#[derive(Debug, Clone)]
pub(super) struct ScheduleRng(u64);

impl ScheduleRng {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number below `end`, which is at least 1.
    pub(super) const fn below(&mut self, end: u64) -> u64 {
        // The bias is 2⁻⁵⁸ for ends below 64, which is negligible.
        self.next() % end
    }

    /// Draws a number from `low` to `high`, both included.
    pub(super) const fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Returns true with a probability of `chance` percent.
    pub(super) const fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Draws an index below this length; `None` when it is 0.
    pub(super) const fn index(&mut self, length: usize) -> Option<usize> {
        if length == 0 { None } else { Some(self.below(length as u64) as usize) }
    }

    /// Draws one of some weighted values.
    ///
    /// # Panics
    /// When all weights are 0.
    pub(super) fn weighted<T: Copy>(&mut self, things: &[(u64, T)]) -> T {
        let mut remaining = self.below(things.iter().map(|(weight, _)| weight).sum());
        for (weight, thing) in things {
            if remaining < *weight {
                return *thing;
            }
            remaining -= weight;
        }
        unreachable!("the throw is below the sum of the weights")
    }
}
