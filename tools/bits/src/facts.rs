//! Named words, in the order in which they were recorded.

use undertone_privacy::{Curve, Fixed};

/// Results as 64-bit words, each with a name.
#[derive(Debug, Default)]
pub struct Facts {
    /// The name of every word.
    pub names: Vec<String>,
    /// The words.
    pub words: Vec<u64>,
}

/// Represents a missing number: a NaN that no computation yields.
const NONE: u64 = 0x7ff8_dead_dead_dead;

impl Facts {
    /// Records one word.
    pub(crate) fn word(&mut self, name: &str, word: u64) {
        self.names.push(name.to_owned());
        self.words.push(word);
    }

    /// Records a number, by its bits.
    pub(crate) fn number(&mut self, name: &str, number: f64) {
        self.word(name, number.to_bits());
    }

    /// Records a number that may be missing.
    pub(crate) fn perhaps(&mut self, name: &str, number: Option<f64>) {
        self.word(name, number.map_or(NONE, f64::to_bits));
    }

    /// Records an exact fixed-point number.
    pub(crate) fn fixed(&mut self, name: &str, fixed: Fixed) {
        self.word(name, (fixed.units() >> 64) as u64);
        self.word(name, fixed.units() as u64);
    }

    /// Records every loss of a curve, and its side mass.
    pub(crate) fn curve(&mut self, name: &str, curve: &Curve) {
        for (order, loss) in curve.losses() {
            self.fixed(&format!("{name} at order {}", order.get()), loss);
        }
        self.fixed(&format!("{name}: side mass"), curve.side_delta());
    }
}
