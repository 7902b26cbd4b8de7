//! What a sound costs at a provider: the contract's arithmetic, by the prices of the site's configuration.
//!
//! Prices change, and nobody here knows them. A sum is an estimate of the bill, from above: retries of what was heard and not
//! answered are not in it. A planner computes with the same code what is to be expected.

pub use undertone_api::job::transcription::{Money, Price, PriceError, Tariff};

// Samples are counted at the rate at which everything here is kept and sent.
const _: () = assert!(undertone_api::job::transcription::price::RATE == crate::speech::audio::RATE);
