//! The cost and the gain of secure aggregation beside plain averaging, in the same run: traffic and time of a round,
//! and the noise of the average.
//!
//! *Plain* is the way of today's rounds: each site adds its full noise σ, the vector travels in 16 bits (bf16, packed),
//! and the server averages and sends the mean in 16 bits. *Masked* is the crate's protocol: each site adds noise of
//! σ/√(n − t), the masked vector travels in b bits, and the server opens the sum and sends the mean in the same 16 bits.
//! Noise is drawn by the worker's sampler in both.
//!
//! Training and noise take no time here: each site has its noisy vector when the round begins. `time_ratio` is of the time
//! from then to the mean: that of a site (the median, because all have the same work), of the server, and of the line.
//! Keys and shares are exchanged while the sites train; `time_ratio_with_keys` counts them as well. Sites and server are
//! computed one after another on this machine, because they share no core in a consortium. The line is calculated from
//! the bytes and the exchanges.
//!
//! Each group is measured on a coarse grid, on which 16 bits suffice, and on a fine one, on which rounding to integers
//! adds little to the sensitivity of a large model: that needs C/γ well above √d.
//!
//! `price` compares guarantees instead: the noise that a site needs in the group for the ε of plain averaging, and the ε that is left
//! against all other sites together.
//!
//! Environment variables set the sizes: `UNDERTONE_AGGREGATION_SITES` (`3,10,50`) and `UNDERTONE_AGGREGATION_LENGTH`
//! (1999496, the paper's model).

mod masked;
mod plain;
mod price;

use std::num::NonZeroU32;
use std::time::Instant;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use serde_json::json;
use undertone_privacy::calibrate;
use undertone_secure_aggregation::modulus::Modulus;
use undertone_secure_aggregation::roster::GroupTerms;
use undertone_worker::dp::noise::DiscreteGaussian;

use crate::report::{Outcome, Report};

const SITES: &str = "3,10,50";
/// 13 coefficients, 200 units, 9,096 classes.
const LENGTH: usize = 1_999_496;
/// σ, the deviation of the noise of one site's own guarantee, in steps of each grid.
const DEVIATIONS: [u32; 2] = [1 << 9, 1 << 16];
/// The line of each site: 100 Mbit/s, 25 ms each way.
const BITS_PER_SECOND: f64 = 1e8;
const DELAY_SECONDS: f64 = 0.025;

/// The sizes of one measurement.
#[derive(Clone, Copy)]
struct GroupCase {
    sites: usize,
    terms: GroupTerms,
    /// The number of sites that drop out after they have shared.
    dropouts: usize,
    length: usize,
    /// σ in steps of the grid.
    deviation: u32,
}

impl GroupCase {
    fn survivors(self) -> usize {
        self.sites - self.dropouts
    }

    /// Returns the greatest magnitude of a coordinate without noise, in steps.
    fn bound(self) -> u32 {
        self.deviation / 32 * 25
    }

    /// Returns a site's vector without noise, uniform up to the bound.
    fn signal(self, site: usize) -> Vec<i32> {
        let mut rng = ChaCha20Rng::seed_from_u64(site as u64);
        let width = u64::from(2 * self.bound() + 1);
        let draw = |word: u32| ((u64::from(word) * width) >> 32) as i32 - self.bound().cast_signed();
        (0..self.length).map(|_| draw(rng.next_u32())).collect()
    }
}

/// Returns a vector with noise of a deviation.
fn add_noise(site: usize, deviation: u32, signal: &[i32]) -> Vec<i32> {
    let noise = DiscreteGaussian::integer(u64::from(deviation));
    let mut rng = ChaCha20Rng::seed_from_u64(1000 + site as u64);
    signal.iter().map(|value| value + noise.sample(&mut rng) as i32).collect()
}

/// The cost of a round in one of the two ways.
struct RoundCost {
    /// A site, from its vector to the mean.
    site_seconds: f64,
    server_seconds: f64,
    /// Site and server, for keys and shares.
    key_seconds: f64,
    /// The bytes of one site, both directions.
    bytes: usize,
    /// The number of calls of a site that wait for an answer, from the vector on.
    exchanges: u32,
    /// The number of such calls for keys and shares.
    key_exchanges: u32,
}

impl RoundCost {
    fn computing_seconds(&self) -> f64 {
        self.site_seconds + self.server_seconds
    }

    fn seconds(&self) -> f64 {
        let line = 8.0 * self.bytes as f64 / BITS_PER_SECOND + 2.0 * DELAY_SECONDS * f64::from(self.exchanges);
        self.computing_seconds() + line
    }

    fn seconds_with_keys(&self) -> f64 {
        self.seconds() + self.key_seconds + 2.0 * DELAY_SECONDS * f64::from(self.key_exchanges)
    }
}

/// A round's cost, with the sums of signal and noise.
struct MeasuredRound {
    cost: RoundCost,
    signal: Vec<i32>,
    sum: Vec<i32>,
}

impl MeasuredRound {
    /// Returns the standard deviation of the average's noise, in steps.
    fn average_noise(&self, survivors: usize) -> f64 {
        let errors = self.sum.iter().zip(&self.signal).map(|(sum, signal)| f64::from(sum - signal) / survivors as f64);
        (errors.map(|error| error * error).sum::<f64>() / self.sum.len() as f64).sqrt()
    }
}

pub(crate) fn run(report: &mut Report) -> Outcome {
    let list = std::env::var("UNDERTONE_AGGREGATION_SITES").unwrap_or_else(|_| SITES.to_owned());
    let length = match std::env::var("UNDERTONE_AGGREGATION_LENGTH") {
        Ok(text) => text.parse().map_err(|error| format!("UNDERTONE_AGGREGATION_LENGTH: `{text}`: {error}"))?,
        Err(_) => LENGTH,
    };
    report.line(json!({
        "vector": { "numbers": length },
        "line": { "bits_per_second": BITS_PER_SECOND, "delay_ms": 1e3 * DELAY_SECONDS },
        "plain": "full noise at each site, bf16 packed by zstd, the mean back in bf16",
        "masked": "a share of the noise at each site, masked in b bits, the mean back in bf16; records of the round on disk",
    }))?;
    for text in list.split(',') {
        let sites: usize =
            text.trim().parse().map_err(|error| format!("UNDERTONE_AGGREGATION_SITES: `{list}`: {error}"))?;
        let colluding = (sites / 4) as u8;
        let smallest_group = (usize::midpoint(sites, usize::from(colluding)) + 1) as u8;
        let terms = GroupTerms { smallest_group, colluding };
        let [coarse, fine] = DEVIATIONS;
        let most = sites.saturating_sub(usize::from(smallest_group));
        for (deviation, dropouts) in [(coarse, 0), (coarse, most), (fine, 0)] {
            measure(report, GroupCase { sites, terms, dropouts, length, deviation })?;
        }
    }
    Ok(())
}

fn measure(report: &mut Report, case: GroupCase) -> Outcome {
    let GroupCase { sites, terms, dropouts, length, .. } = case;
    let honest = NonZeroU32::new(terms.least_honest().into()).ok_or("a group without an honest site")?;
    let deviation = calibrate::site_deviation(case.deviation, honest);
    let bits = calibrate::modulus_bits(sites as u32, case.bound().into(), deviation, length as u64);
    let modulus = Modulus::new(bits.ok_or("the sums exceed 32 bits")?)?;
    let begun = Instant::now();
    let plain = plain::measure(case)?;
    let masked = masked::measure(case, deviation, modulus)?;
    eprintln!("secure_aggregation: {sites} sites, {dropouts} dropouts: {:.1} s", begun.elapsed().as_secs_f64());
    let noise = (plain.average_noise(case.survivors()), masked.round.average_noise(case.survivors()));
    let costs = |cost: &RoundCost| {
        json!({
            "site_seconds": cost.site_seconds, "server_seconds": cost.server_seconds, "bytes": cost.bytes,
            "exchanges": cost.exchanges, "key_seconds": cost.key_seconds, "key_exchanges": cost.key_exchanges,
            "seconds": cost.seconds(),
        })
    };
    report.line(json!({
        "sites": sites, "colluding": terms.colluding, "smallest_group": terms.smallest_group, "dropouts": dropouts,
        "bits": modulus.bits(), "deviation_steps": case.deviation, "site_deviation_steps": deviation,
        "traffic_ratio": masked.round.cost.bytes as f64 / plain.cost.bytes as f64,
        // Beside bf16 that is not packed.
        "traffic_ratio_unpacked": masked.round.cost.bytes as f64 / (4 * length) as f64,
        "time_ratio": masked.round.cost.seconds() / plain.cost.seconds(),
        "time_ratio_with_keys": masked.round.cost.seconds_with_keys() / plain.cost.seconds_with_keys(),
        "computing_ratio": masked.round.cost.computing_seconds() / plain.cost.computing_seconds(),
        "noise_ratio": noise.0 / noise.1, "noise_ratio_expected": f64::from(terms.least_honest()).sqrt(),
        "exact": masked.is_exact, "price": price::compare(case)?,
        "plain": costs(&plain.cost), "masked": costs(&masked.round.cost), "overhead_bytes": masked.overhead_bytes,
    }))
}

/// Runs a step, and returns its result and its seconds.
fn timed<T>(step: impl FnOnce() -> T) -> (T, f64) {
    let begun = Instant::now();
    let result = step();
    (result, begun.elapsed().as_secs_f64())
}

/// Returns the median, or 0 without a value.
fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or_default()
}

/// Adds a vector to a sum.
fn add(sum: &mut [i32], vector: &[i32]) {
    sum.iter_mut().zip(vector).for_each(|(total, value)| *total += value);
}
