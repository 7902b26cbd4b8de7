//! The labels of the recordings: states of phones, or senones.
//!
//! The corpus has labels of 5,126 senones, and the outlier's recordings show most of theirs once or never. The states of
//! the phones are 126 classes with enough frames each. Every tied senone of `PocketSphinx`'s model for US English
//! belongs to one state of one phone, and the model numbers them state by state.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use support::stage::TestResult;

/// States of phones in the model, which are also its first senones.
const STATES: u16 = 126;
/// Senones of the model.
const SENONES: u16 = 5126;
/// The first state with tied senones: two noises come before it.
const FIRST_TIED: usize = 6;
/// The states of silence, which are not tied.
const SILENCE: std::ops::Range<usize> = 96..99;
/// The first tied senone of each state with tied senones, from the file `mdef` of the model `en-us` of `PocketSphinx` 5.
#[rustfmt::skip]
const TIED_FROM: [u16; 117] = [
    126, 165, 201, 224, 271, 318, 347, 510, 682, 812, 849, 879, 901, 920, 932, 945, 988, 1022, 1055, 1087, 1116, 1144,
    1154, 1167, 1185, 1246, 1311, 1395, 1427, 1460, 1490, 1545, 1604, 1645, 1713, 1795, 1847, 1884, 1923, 1954, 1977,
    2005, 2029, 2054, 2073, 2090, 2147, 2190, 2221, 2326, 2438, 2515, 2568, 2655, 2721, 2733, 2741, 2754, 2803, 2870,
    2927, 2994, 3073, 3137, 3182, 3239, 3282, 3350, 3432, 3501, 3508, 3524, 3545, 3591, 3630, 3665, 3671, 3675, 3681,
    3707, 3741, 3778, 3860, 3947, 4024, 4068, 4139, 4187, 4206, 4219, 4234, 4335, 4439, 4543, 4555, 4568, 4583, 4598,
    4609, 4620, 4652, 4690, 4723, 4747, 4776, 4810, 4860, 4904, 4935, 4955, 4973, 4986, 5025, 5074, 5117, 5121, 5123,
];

/// The classes of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LabelSet {
    /// The states of the phones.
    States,
    /// The senones of the labels' acoustic model.
    Senones,
    /// The same senones, for a model with the 9,096 classes of the original.
    Original,
}

impl LabelSet {
    /// Returns the number of classes.
    pub(super) const fn classes(self) -> u16 {
        match self {
            Self::States => STATES,
            Self::Senones => SENONES,
            Self::Original => 9096,
        }
    }
}

/// One line of the corpus's labels.
#[derive(Serialize, Deserialize)]
struct Alignment {
    u: String,
    frames: u32,
    runs: Vec<(u16, u32)>,
}

/// Returns the state of the phone to which a senone belongs, or `None` for a number that the model does not have.
fn state_of(senone: u16) -> Option<u16> {
    if senone < STATES {
        return Some(senone);
    }
    if senone >= SENONES {
        return None;
    }
    let state = FIRST_TIED + TIED_FROM.partition_point(|first| *first <= senone) - 1;
    let state = if state < SILENCE.start { state } else { state + SILENCE.len() };
    u16::try_from(state).ok()
}

/// Writes the labels of `senones` as states of phones to `states`.
///
/// # Errors
/// When a file cannot be read or written, or a label is not a senone of the model.
pub(super) fn write_states(senones: &Path, states: &Path) -> TestResult<()> {
    let mut output = BufWriter::new(File::create(states)?);
    for line in BufReader::new(File::open(senones)?).lines() {
        let mut alignment: Alignment = serde_json::from_str(&line?)?;
        for (label, _) in &mut alignment.runs {
            *label = state_of(*label).ok_or_else(|| format!("{}: the model has no senone {label}", alignment.u))?;
        }
        serde_json::to_writer(&mut output, &alignment)?;
        output.write_all(b"\n")?;
    }
    Ok(output.flush()?)
}

#[cfg(test)]
mod tests {
    use super::{SENONES, STATES, state_of};

    #[test]
    fn each_senone_belongs_to_one_state_in_order() {
        let states: Vec<u16> = (STATES..SENONES).filter_map(state_of).collect();
        assert_eq!(states.len(), usize::from(SENONES - STATES));
        assert!(states.is_sorted() && states.first() == Some(&6) && states.last() == Some(&(STATES - 1)));
        // Silence has no tied senones, and stays itself.
        assert!((96..99).all(|state| !states.contains(&state) && state_of(state) == Some(state)));
        assert_eq!(
            [state_of(125), state_of(4219), state_of(4234), state_of(SENONES)],
            [Some(125), Some(95), Some(99), None]
        );
    }
}
