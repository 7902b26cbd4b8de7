//! The hash of sketches: SipHash-1-3 with 128 bits, under a secret key for each sketch.

use rand_chacha::rand_core::Rng;
use siphasher::sip128::SipHasher13;
use zeroize::Zeroizing;

use undertone_worker_training::randomness::{Purpose, Randomness};

/// A secret key; wiped when dropped. Sketches that are to be merged share one, within one process.
#[derive(Clone, PartialEq, Eq)]
pub struct SketchKey(Zeroizing<[u8; 16]>);

impl SketchKey {
    /// Draws a fresh key from the operating system.
    pub fn fresh() -> Self {
        let mut key = Zeroizing::new([0; 16]);
        Randomness::from_os(Purpose::Hashing).stream(0).fill_bytes(key.as_mut());
        Self(key)
    }

    /// Makes a known key, so that a test can make texts collide.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_test(key: u8) -> Self {
        Self(Zeroizing::new([key; 16]))
    }

    /// Returns the hash of a text. It is pseudorandom without the key.
    pub(super) fn hash(&self, text: &str) -> u128 {
        SipHasher13::new_with_key(&self.0).hash(text.as_bytes()).into()
    }

    /// Returns the cells of a text in a table of `rows` rows of `columns` cells.
    pub(super) fn places(&self, text: &str, rows: u32, columns: u32) -> CellColumns {
        let mut hash = self.hash(text);
        CellColumns::from_rows(rows, |row| {
            // A row uses 32 bits; after four rows the rest is hashed again.
            if row > 0 && row % 4 == 0 {
                hash =
                    SipHasher13::new_with_key(&self.0).hash(&[&row.to_le_bytes()[..], text.as_bytes()].concat()).into();
            }
            let bits = (hash >> (32 * (row % 4))) as u32;
            ((u64::from(bits) * u64::from(columns)) >> 32) as u32
        })
    }
}

/// Largest number of rows of a table.
pub(super) const MOST_ROWS: u32 = 16;

/// A text's cell in every row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellColumns {
    columns: [u32; MOST_ROWS as usize],
    rows: u32,
}

impl CellColumns {
    /// Collects the column in each of `rows` rows, at most 16.
    pub fn from_rows(rows: u32, column: impl FnMut(u32) -> u32) -> Self {
        let rows = rows.min(MOST_ROWS);
        let mut columns = [0; MOST_ROWS as usize];
        for (place, found) in columns.iter_mut().zip((0..rows).map(column)) {
            *place = found;
        }
        Self { columns, rows }
    }

    /// Returns the columns, row by row.
    pub fn columns(&self) -> &[u32] {
        &self.columns[..self.rows as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::SketchKey;

    #[test]
    fn cells_differ_by_row_and_key() {
        let one = SketchKey::in_test(1);
        let two = SketchKey::in_test(2);
        let places = one.places("where is my card", 16, 1 << 30);
        let distinct: HashSet<u32> = places.columns().iter().copied().collect();
        assert_eq!(distinct.len(), 16);
        assert_ne!(places, two.places("where is my card", 16, 1 << 30));
        assert_eq!(places, one.places("where is my card", 16, 1 << 30));
        assert!(one != two && SketchKey::fresh() != SketchKey::fresh());
    }

    #[test]
    fn columns_are_uniform() {
        let key = SketchKey::in_test(3);
        let columns = 7;
        for row in 0..6 {
            let mut frequencies = [0.0; 7];
            for text in 0..14_000 {
                frequencies[key.places(&text.to_string(), 6, columns).columns()[row] as usize] += 1.0;
            }
            let chi: f64 = frequencies.iter().map(|frequency: &f64| (frequency - 2000.0).powi(2) / 2000.0).sum();
            // The upper 10⁻⁶ quantile of χ² with 6 degrees of freedom.
            assert!(chi < 38.3, "row {row}: {chi}");
        }
    }
}
