//! A bounded sample of a set of fingerprints: its smallest members ("bottom-k", Cohen and Kaplan 2007).
//!
//! Up to `most` fingerprints the sample is the whole set. Beyond that, a fingerprint is included with probability `most
//! / n`, determined by its own value alone. Fingerprints are values of a pseudorandom function, so the selection does
//! not depend on their inputs. Two sketches of sets of at most n members with `s` common members share a fingerprint
//! with probability `1 − (1 − most/n)^s`. The sketch of a union is the sketch of both sketches together.

/// The size of a fingerprint, bytes.
const WIDTH: usize = size_of::<u128>();

/// The smallest fingerprints of a set. Stores at most twice `most` of them.
#[derive(Debug, Clone)]
pub(super) struct FingerprintSketch {
    most: usize,
    items: Vec<u128>,
    /// The greatest fingerprint that may still be included, once the sketch is full.
    bound: u128,
    is_sorted: bool,
}

impl FingerprintSketch {
    /// Returns an empty sketch of at most `most` fingerprints, at least 1.
    pub(super) fn new(most: usize) -> Self {
        Self { most, items: Vec::new(), bound: u128::MAX, is_sorted: true }
    }

    /// Adds a fingerprint.
    pub(super) fn insert(&mut self, item: u128) {
        if item > self.bound {
            return;
        }
        self.items.push(item);
        self.is_sorted = false;
        if self.items.len() >= 2 * self.most {
            self.compact();
        }
    }

    /// Adds the fingerprints of another sketch. Returns whether anything changed.
    pub(super) fn merge(&mut self, other: &[u128]) -> bool {
        let before = self.items().to_vec();
        for item in other {
            self.insert(*item);
        }
        self.items() != before
    }

    /// Returns the fingerprints, ascending, without duplicates.
    pub(super) fn items(&mut self) -> &[u128] {
        self.compact();
        &self.items
    }

    /// Returns whether fingerprints were, or may have been, left out.
    pub(super) fn is_full(&mut self) -> bool {
        self.items().len() == self.most
    }

    fn compact(&mut self) {
        if self.is_sorted {
            return;
        }
        self.items.sort_unstable();
        self.items.dedup();
        self.items.truncate(self.most);
        if self.items.len() == self.most {
            self.bound = self.items.last().copied().unwrap_or(u128::MAX);
        }
        self.is_sorted = true;
    }

    /// Encodes the fingerprints: 16 bytes each, most significant first, ascending.
    pub(super) fn encode(&mut self) -> Vec<u8> {
        self.items().iter().flat_map(|item| item.to_be_bytes()).collect()
    }
}

/// Decodes the fingerprints of a sketch; `None` for invalid bytes, or when they are out of order.
pub(super) fn from_bytes(bytes: &[u8]) -> Option<Vec<u128>> {
    let (items, []) = bytes.as_chunks::<WIDTH>() else { return None };
    let items: Vec<u128> = items.iter().map(|item| u128::from_be_bytes(*item)).collect();
    items.is_sorted_by(|a, b| a < b).then_some(items)
}

/// Counts the common fingerprints of two ascending lists.
pub(super) fn count_common(one: &[u128], other: &[u128]) -> usize {
    let mut rest = other;
    let mut common = 0;
    for item in one {
        rest = &rest[rest.partition_point(|candidate| candidate < item)..];
        common += usize::from(rest.first() == Some(item));
    }
    common
}

#[cfg(test)]
mod tests {
    use super::{FingerprintSketch, count_common, from_bytes};

    /// Returns a value of a fixed pseudorandom function (SplitMix64, twice).
    fn random(n: u64) -> u128 {
        let mix = |n: u64| {
            let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        u128::from(mix(n)) << 64 | u128::from(mix(n ^ 0x5555))
    }

    fn sketch(most: usize, items: impl Iterator<Item = u64>) -> FingerprintSketch {
        let mut sketch = FingerprintSketch::new(most);
        items.for_each(|item| sketch.insert(random(item)));
        sketch
    }

    #[test]
    fn small_set_is_kept_whole() {
        let mut sketch = sketch(64, (0..50).chain(0..50));
        assert_eq!(sketch.items().len(), 50);
        assert!(!sketch.is_full());
        assert_eq!(from_bytes(&sketch.encode()).as_deref(), Some(sketch.items()));
        assert_eq!(from_bytes(&[0; 17]), None);
        assert_eq!(from_bytes(&[0; 32]), None, "not ascending");
    }

    #[test]
    fn large_set_keeps_its_smallest_in_any_order() {
        let mut ascending: Vec<u128> = (0..10_000).map(random).collect();
        ascending.sort_unstable();
        let mut forward = sketch(100, 0..10_000);
        let mut backward = sketch(100, (0..10_000).rev());
        assert_eq!(forward.items(), &ascending[..100]);
        assert_eq!(backward.items(), &ascending[..100]);
        assert!(forward.items.capacity() <= 256, "its memory does not grow with the set");
    }

    #[test]
    fn sketch_of_union_is_sketch_of_both() {
        let mut whole = sketch(100, 0..9_000);
        let mut parts = sketch(100, 0..5_000);
        assert!(parts.merge(sketch(100, 4_000..9_000).items()));
        assert_eq!(parts.items(), whole.items());
        assert!(!parts.merge(whole.items()));
    }

    /// Tests the rate 1 − (1 − 1000/20000)^s: an overlap of half of the members is always detected, an overlap of one
    /// member mostly is not.
    #[test]
    fn common_members_are_found_at_the_rate_of_the_sample() {
        let mut one = sketch(1_000, 0..20_000);
        let mut other = sketch(1_000, 10_000..30_000);
        let count = count_common(one.items(), other.items());
        // Each of the 10,000 common members is sampled with probability 1/20: 500 expected, with a standard deviation
        // of about 22.
        assert!((400..600).contains(&count), "{count}");
        assert_eq!(count_common(one.items(), sketch(1_000, 40_000..60_000).items()), 0);
    }
}
