//! Private transcription: recognizers outside hear pieces of recordings in clear speech, among dummies that hide how many pieces carry
//! which word of a vocabulary from a reader of these counts.
//!
//! After Prεεch (Ahmed, Chowdhury, Fawaz, Ramanathan, "Prεεch: A System for Privacy-Preserving Speech Transcription",
//! USENIX Security 2020). The road is one way, each step a room of its own:
//!
//! | step | room | what it leaves |
//! |---|---|---|
//! | 1 | [`segment`] | at most one [`piece`] of each window of a public grid, in order, with its times; silence is counted and dropped |
//! | 2 | [`recognize`] | a first transcript, made at the site by a recognizer of its own |
//! | 3 | [`sensitive`], [`parts`] | the pieces that never leave: they keep the text of step 2 |
//! | 4 | [`vocabulary`] | the words by which pieces are counted, and what their choice tells |
//! | 5 | [`plan`], [`noise`] | who hears which piece and how many dummies of which word, drawn once and kept |
//! | 6 | [`dummy`] | what the dummies say |
//! | 7 | [`speak`] | the dummies' speech; true pieces and dummies equally loud and long, by public numbers |
//! | 6, 7 | [`recorded`] | both at once, of public recordings: people instead of an engine |
//! | 8 | [`voice`] | both in one voice |
//! | 9 | [`outbound`], [`provider`] | what was heard in them; the only rooms from which anything leaves, and only with a charge |
//! | 10 | [`transcript`] | the transcript without the dummies, and how many of its words are wrong |
//! | 11 | [`attack`] | what somebody who receives the sounds makes of them: which are dummies, and what they are about |
//!
//! Rooms know samples, words and times. None of them knows a job, a ledger or a server: what leaves a site is decided
//! above them, after the ledger has committed. None of them logs a word, a sample or the name of a recording. To add a
//! step: a room beside these, a line in the table.
//!
//! Everywhere below, audio is mono at [`RATE`](super::audio::RATE) (16 kHz) as `f32` with full scale = 1, as
//! [`audio`](super::audio) reads it.

pub mod attack;
pub mod dummy;
#[cfg(test)]
mod fuzz;
pub mod inside;
pub mod noise;
pub mod outbound;
pub mod parts;
pub mod piece;
pub mod plan;
pub mod provider;
pub mod recognize;
pub mod recorded;
pub mod segment;
pub mod sensitive;
pub mod speak;
pub mod transcript;
pub mod vocabulary;
pub mod voice;
pub mod wav;
pub mod web;
