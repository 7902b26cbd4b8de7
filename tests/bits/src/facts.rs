//! Named bits, in the order in which they were recorded.

use undertone_privacy::{Curve, Fixed};

/// Results as 64-bit words, each with the name of what it is.
#[derive(Debug, Default)]
pub struct Facts {
    /// Name of every word.
    pub names: Vec<String>,
    /// The words.
    pub words: Vec<u64>,
}

/// Stands for "there is none": a NaN that no computation yields.
const NONE: u64 = 0x7ff8_dead_dead_dead;

impl Facts {
    /// One word.
    pub(crate) fn word(&mut self, name: &str, word: u64) {
        self.names.push(name.to_owned());
        self.words.push(word);
    }

    /// A number, by its bits.
    pub(crate) fn number(&mut self, name: &str, number: f64) {
        self.word(name, number.to_bits());
    }

    /// A number that may be missing.
    pub(crate) fn perhaps(&mut self, name: &str, number: Option<f64>) {
        self.word(name, number.map_or(NONE, f64::to_bits));
    }

    /// Exact fixed point.
    pub(crate) fn fixed(&mut self, name: &str, fixed: Fixed) {
        self.word(name, (fixed.units() >> 64) as u64);
        self.word(name, fixed.units() as u64);
    }

    /// Every loss of a curve, and its side mass.
    pub(crate) fn curve(&mut self, name: &str, curve: &Curve) {
        for (order, loss) in curve.losses() {
            self.fixed(&format!("{name} at order {}", order.get()), loss);
        }
        self.fixed(&format!("{name}: side mass"), curve.side_delta());
    }
}
