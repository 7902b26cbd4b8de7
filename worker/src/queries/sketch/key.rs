//! The hash of sketches: SipHash-1-3 with 128 bits, under a secret key of each sketch's own.

use rand_chacha::rand_core::Rng;
use siphasher::sip128::SipHasher13;
use zeroize::Zeroizing;

use crate::dp::randomness::{Purpose, Randomness};

/// A secret key; wiped when dropped. Sketches that are to be merged share one, within one process.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Zeroizing<[u8; 16]>);

impl Key {
    /// A fresh key of the operating system.
    pub fn fresh() -> Self {
        let mut key = Zeroizing::new([0; 16]);
        Randomness::from_os(Purpose::Hashing).stream(0).fill_bytes(key.as_mut());
        Self(key)
    }

    /// A key that a test knows, to make texts collide.
    #[cfg(test)]
    pub(crate) fn in_test(key: u8) -> Self {
        Self(Zeroizing::new([key; 16]))
    }

    /// The hash of a text. As good as random to whoever does not know the key.
    pub(super) fn hash(&self, text: &str) -> u128 {
        SipHasher13::new_with_key(&self.0).hash(text.as_bytes()).into()
    }

    /// Where a text is counted in a table of `rows` rows of `columns` cells.
    pub(super) fn places(&self, text: &str, rows: u32, columns: u32) -> Places {
        let mut hash = self.hash(text);
        Places::of(rows, |row| {
            // A row takes 32 bits; after four rows there is another hash of what was left.
            if row > 0 && row % 4 == 0 {
                hash =
                    SipHasher13::new_with_key(&self.0).hash(&[&row.to_le_bytes()[..], text.as_bytes()].concat()).into();
            }
            let bits = (hash >> (32 * (row % 4))) as u32;
            ((u64::from(bits) * u64::from(columns)) >> 32) as u32
        })
    }
}

/// Most rows of a table.
pub(super) const MOST_ROWS: u32 = 16;

/// A text's cell in every row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    columns: [u32; MOST_ROWS as usize],
    rows: u32,
}

impl Places {
    /// The column in each of `rows` rows, at most 16.
    pub fn of(rows: u32, column: impl FnMut(u32) -> u32) -> Self {
        let rows = rows.min(MOST_ROWS);
        let mut columns = [0; MOST_ROWS as usize];
        for (place, found) in columns.iter_mut().zip((0..rows).map(column)) {
            *place = found;
        }
        Self { columns, rows }
    }

    /// The columns, row by row.
    pub fn columns(&self) -> &[u32] {
        &self.columns[..self.rows as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::Key;

    #[test]
    fn every_row_has_a_hash_of_its_own_and_every_key_too() {
        let (one, two) = (Key::in_test(1), Key::in_test(2));
        let places = one.places("where is my card", 16, 1 << 30);
        let distinct: HashSet<u32> = places.columns().iter().copied().collect();
        assert_eq!(distinct.len(), 16);
        assert_ne!(places, two.places("where is my card", 16, 1 << 30));
        assert_eq!(places, one.places("where is my card", 16, 1 << 30));
        assert!(one != two && Key::fresh() != Key::fresh());
    }

    #[test]
    fn columns_are_even() {
        let (key, columns) = (Key::in_test(3), 7);
        for row in 0..6 {
            let mut seen = [0.0; 7];
            for text in 0..14_000 {
                seen[key.places(&text.to_string(), 6, columns).columns()[row] as usize] += 1.0;
            }
            let chi: f64 = seen.iter().map(|seen: &f64| (seen - 2000.0).powi(2) / 2000.0).sum();
            // The upper 10⁻⁶ quantile of χ² with 6 degrees of freedom.
            assert!(chi < 38.3, "row {row}: {chi}");
        }
    }
}
