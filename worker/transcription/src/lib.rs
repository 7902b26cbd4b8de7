//! Private transcription: external recognizers transcribe pieces of recordings in clear speech, mixed with dummy pieces. The
//! dummies hide, from a reader of the per-word counts, how many pieces carry each word of a vocabulary.
//!
//! After Prεεch (Ahmed, Chowdhury, Fawaz, Ramanathan, "Prεεch: A System for Privacy-Preserving Speech Transcription",
//! USENIX Security 2020). The pipeline runs in one direction, one module a step:
//!
//! | step | module | result |
//! |---|---|---|
//! | 1 | [`segment`] | at most one [`piece`] for each window between two rests, in order, with its times; silence is counted and dropped |
//! | 2 | [`recognize`] | a first transcript, made at the site by the site's own recognizer |
//! | 3 | [`sensitive`], [`parts`] | the pieces that never leave: they keep the text of step 2 |
//! | 4 | [`vocabulary`] | the words by which pieces are counted, and what the choice of these words discloses |
//! | 5 | [`plan`], [`noise`] | the provider of each piece and the number of dummies of each word, drawn once and stored |
//! | 6 | [`dummy`] | the texts of the dummies |
//! | 7 | [`speak`] | the speech of the dummies; true pieces and dummies have the same loudness and length, set by public numbers |
//! | 6, 7 | [`recorded`] | texts and speech together, from public recordings instead of a speech engine |
//! | 8 | [`voice`] | true pieces and dummies in one voice |
//! | 9 | [`outbound`], [`provider`] | the providers' answers; only these modules send anything, and only after a charge |
//! | 10 | [`transcript`] | the transcript without the dummies, and its word errors |
//! | 11 | [`attack`] | an attacker's accuracy at telling dummies from true pieces, and at estimating topics |
//!
//! These modules handle samples, words and times. None of them depends on jobs, ledgers or servers: their callers decide
//! what leaves a site, after the ledger has committed. None of them logs a word, a sample or the name of a recording. To add
//! a step: add a module here and a row in the table.
//!
//! In the whole crate, audio is mono at [`RATE`](undertone_worker_speech::audio::RATE) (16 kHz) as `f32` with full scale = 1,
//! as [`audio`](undertone_worker_speech::audio) reads it.

pub mod attack;
pub mod dummy;
#[cfg(test)]
mod fuzz;
pub mod noise;
pub mod outbound;
pub mod parts;
pub mod piece;
pub mod plan;
pub mod private_host;
pub mod provider;
pub mod recognize;
pub mod recorded;
pub mod segment;
pub mod sensitive;
pub mod speak;
pub mod transcript;
pub mod vocabulary;
pub mod voice;
pub mod web;

pub use undertone_worker_speech::wav;
