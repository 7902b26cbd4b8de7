//! The noise of a spec and its promises: one calibration, which plan, ledgers and sites all compute to the same bits.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use undertone_privacy::histogram::{Differences, HistogramError, Partition, TruncatedLaplace};
use undertone_privacy::{Epsilon, Event};

use super::Spec;

/// The most expected dummies of a job, at all providers together. Each costs seconds of speech to synthesize and to
/// transcribe.
pub const MOST_DUMMIES: f64 = 1_000_000.0;

/// The promise against this number of providers that combine their parts. Its figures are rounded up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionPromise))]
pub struct NoisePromise {
    /// The number of colluding providers.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub colluding: NonZeroU32,
    /// ε, nats.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
}

impl Spec {
    /// Returns the number of providers over which pieces are spread, and the assumed number of colluding ones.
    ///
    /// # Errors
    /// [`HistogramError::Partition`] if more collude than there are.
    pub fn partition(&self) -> Result<Partition, HistogramError> {
        let colluding = self.colluding.get();
        let providers = u32::try_from(self.providers.len()).ok().and_then(NonZeroU32::new);
        let providers = providers.ok_or(HistogramError::Partition { providers: 0, colluding })?;
        Partition::new(providers, self.colluding)
    }

    /// Returns the part of the participant's ε for the counts: all of it, or the rest beside a choice of words with noise,
    /// rounded down.
    ///
    /// # Errors
    /// [`HistogramError::Rate`] if the choice leaves nothing.
    pub fn counts_epsilon(&self) -> Result<Epsilon, HistogramError> {
        let all = self.participant.epsilon;
        match self.vocabulary.selection_epsilon() {
            None => Ok(all),
            Some(choice) if choice.get() > 0.0 => {
                Epsilon::new((all.get() - choice.get()).next_down()).map_err(|_| HistogramError::Rate)
            }
            Some(_) => Err(HistogramError::Rate),
        }
    }

    /// Returns the least noise that keeps ([`counts_epsilon`](Spec::counts_epsilon), δ) for counts at the participant's distance
    /// against the colluding providers, counts added and removed together.
    ///
    /// # Errors
    /// [`HistogramError`] if there is none.
    pub fn noise(&self) -> Result<TruncatedLaplace, HistogramError> {
        let of = self.participant;
        let epsilon = self.counts_epsilon()?;
        TruncatedLaplace::calibrated(epsilon, of.delta, of.distance, self.partition()?, Differences::Mixed)
    }

    /// Returns the charged release to the providers: the choice of words with noise, if the spec has one, and the noisy
    /// counts of the vocabulary's words, against the colluding providers.
    ///
    /// # Errors
    /// As [`Spec::noise`].
    pub fn event(&self) -> Result<Event, HistogramError> {
        let counts = self.counts_event()?;
        Ok(match self.vocabulary.selection_epsilon() {
            None => counts,
            Some(epsilon) => Event::Composed { events: vec![Event::Pure { epsilon }, counts] },
        })
    }

    fn counts_event(&self) -> Result<Event, HistogramError> {
        let noise = self.noise()?;
        let rate = Epsilon::new(noise.rate()).map_err(|_| HistogramError::Rate)?;
        let shift = noise.shift();
        let distance = self.participant.distance;
        let partition = self.partition()?;
        Ok(Event::TruncatedLaplace { rate, shift, distance, partition })
    }

    /// Returns the promises against one provider, two, and so on to all of them. Every provider learns the words of a
    /// choice with noise, so its ε is in all of them.
    ///
    /// # Errors
    /// As [`Spec::noise`].
    pub fn promises(&self) -> Result<Vec<NoisePromise>, HistogramError> {
        let noise = self.noise()?;
        let providers = self.partition()?.providers();
        let promise = |colluding| {
            let partition = Partition::new(providers, colluding).ok()?;
            let (epsilon, delta) = noise.guarantee(self.participant.distance, partition, Differences::Mixed);
            let epsilon =
                self.vocabulary.selection_epsilon().map_or(epsilon, |choice| (choice.get() + epsilon).next_up());
            Some(NoisePromise { colluding, epsilon, delta })
        };
        Ok((1..=providers.get()).filter_map(NonZeroU32::new).filter_map(promise).collect())
    }

    /// Returns the expected number of dummies at all providers together with `words` in the vocabulary: E\[η\] for each
    /// word at each provider, and as many for "no word of it", which is covered like one more word.
    ///
    /// # Errors
    /// As [`Spec::noise`].
    pub fn expected_dummies(&self, words: u32) -> Result<f64, HistogramError> {
        let providers = f64::from(self.partition()?.providers().get());
        Ok((f64::from(words) + 1.0) * providers * self.noise()?.mean())
    }
}
