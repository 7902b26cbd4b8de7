//! Recognizes words: from the logits of a classifier of frames to the most probable words of a lexicon under a language
//! model.
//!
//! [`ClassLabels`] states what the classes are: states of phones (hybrid recognition), or characters and a blank (CTC).
//! [`FrameScores`] turns logits into scores, and [`WordDecoder`] searches. [`NgramModel`] reads ARPA files, [`Lexicon`]
//! reads dictionaries in the format of the CMU Pronouncing Dictionary. [`best_classes`], [`best_phones`] and
//! [`best_characters`] need no lexicon. Every reader has limits, and its errors name the line.
//!
//! To add a kind of labels: a variant of [`ClassLabels`], its scores, and its topology in `search`.

mod arpa;
mod best_path;
#[cfg(test)]
mod fuzz;
mod input;
mod labels;
mod lexicon;
mod mdef;
mod scores;
mod search;
mod tree;

pub use arpa::{LanguageState, LanguageWord, NgramModel};
pub use best_path::{best_characters, best_classes, best_phones};
pub use input::InputError;
pub use labels::{CharacterSet, ClassLabels, PhoneStates, SpellingError};
pub use lexicon::{Lexicon, Pronunciation};
pub use scores::FrameScores;
pub use search::{Decoding, FrameWord, SearchOptions, WordDecoder};
pub use tree::NetworkError;
