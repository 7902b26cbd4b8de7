//! The cost of privacy in dummies, seconds and money, as tables like the paper's: against ε, d, N and the vocabulary.

use std::num::NonZeroU32;

use serde_json::{Value, json};
use support::stage::TestResult;
use undertone_api::job::transcription::window::SOUND;
use undertone_privacy::histogram::Partition;
use undertone_privacy::{Delta, Epsilon};
use undertone_worker::speech::audio::RATE;
use undertone_worker::speech::transcribe::noise::{CollusionPromise, DummyMechanism};
use undertone_worker::speech::transcribe::provider::cost::Price;

use super::sizes::TranscriptionSizes;
use super::{rounded, say};
use crate::report::Report;

/// The point that each table varies in one direction: ε, d, N, words.
const MIDDLE: (f64, u32, u32, u32) = (1.0, 6, 5, 200);
const DELTA: f64 = 1e-5;
const EPSILONS: [f64; 5] = [0.5, 1.0, 2.0, 3.0, 5.0];
const DISTANCES: [u32; 4] = [6, 12, 24, 48];
const PROVIDERS: [u32; 4] = [1, 3, 5, 9];
const VOCABULARIES: [u32; 4] = [50, 200, 1_000, 5_000];

/// # Errors
/// When the output is closed, or there is no noise.
pub(super) fn measure(report: &mut Report, sizes: &TranscriptionSizes) -> TestResult<()> {
    let (epsilon, distance, providers, words) = MIDDLE;
    for value in EPSILONS {
        say(report, row("epsilon", sizes, (value, distance, providers, words))?)?;
    }
    for value in DISTANCES {
        say(report, row("distance", sizes, (epsilon, value, providers, words))?)?;
    }
    for value in PROVIDERS {
        say(report, row("providers", sizes, (epsilon, distance, value, words))?)?;
    }
    for value in VOCABULARIES {
        say(report, row("vocabulary", sizes, (epsilon, distance, providers, value))?)?;
    }
    Ok(())
}

fn row(
    table: &str,
    sizes: &TranscriptionSizes,
    (epsilon, distance, providers, words): (f64, u32, u32, u32),
) -> TestResult<Value> {
    let count = |count: u32| NonZeroU32::new(count).ok_or("a count is at least 1");
    let partition = Partition::new(count(providers)?, NonZeroU32::MIN)?;
    let mechanism =
        DummyMechanism::calibrated(Epsilon::new(epsilon)?, Delta::new(DELTA)?, count(distance)?, partition)?;
    let (noise, dummies) = (mechanism.noise(), mechanism.expected(words));
    let seconds = dummies * SOUND;
    let price = Price {
        currency: "USD".to_owned(),
        per_minute: sizes.per_minute.clone(),
        step_seconds: sizes.step,
        least_seconds: 0,
    };
    // Each dummy is a request of its own, rounded up separately.
    let money = price.tariff()?.cost(std::iter::repeat_n((SOUND * f64::from(RATE)) as u64, dummies.ceil() as usize));
    let collusion = |promise: &CollusionPromise| json!([promise.colluding, rounded(promise.epsilon), promise.delta]);
    Ok(json!({
        "table": table, "epsilon": epsilon, "delta": DELTA, "distance": distance, "providers": providers,
        "vocabulary": words, "shift": noise.shift(), "rate": noise.rate(), "dummies_per_word": rounded(noise.mean()),
        "deviation_per_word": rounded(noise.variance().sqrt()), "dummies": dummies.round(),
        "dummy_hours": rounded(seconds / 3_600.0), "money": money.to_string(),
        "colluding_epsilon_delta": mechanism.promises().iter().map(collusion).collect::<Vec<_>>(),
    }))
}
