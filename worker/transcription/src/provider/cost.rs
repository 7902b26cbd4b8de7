//! The price of a sound at a provider, computed from the prices in the site's configuration.
//!
//! Prices change, and this program has no price list. A sum is an upper estimate of the bill, except that it does not include
//! retries of sounds that the provider processed without answering. The planner uses the same code for its estimate.

pub use undertone_api::job::transcription::{Money, Price, PriceError, Tariff};
use undertone_worker_site::policy::PricedProvider;

use super::settings::ProviderSettings;

// Prices count samples at the rate at which sounds are stored and sent.
const _: () = assert!(undertone_api::job::transcription::price::RATE == undertone_worker_speech::audio::RATE);

impl PricedProvider for ProviderSettings {
    fn name(&self) -> &str {
        &self.name
    }

    fn tariff_if_known(&self) -> Option<Tariff> {
        self.tariff().ok().flatten()
    }
}

#[cfg(test)]
mod tests;
