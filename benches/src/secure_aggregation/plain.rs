//! A round of plain averaging: the encoding, decoding and averaging of the product.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use undertone_api::job::dp_sgd::Precision;
use undertone_proto::vector::{VectorError, VectorForm, WeightedSum, code, read, write};

use super::{GroupCase, MeasuredRound, RoundCost, add, add_noise, median, timed};

/// Measures a round in which the survivors' vectors arrive.
pub(super) fn measure(case: GroupCase) -> Result<MeasuredRound, VectorError> {
    let form = VectorForm::new(Precision::Bf16, case.length as u64)?;
    let mut signal = vec![0; case.length];
    let mut sum = vec![0; case.length];
    let mut weighted = WeightedSum::new(case.length);
    let mut site_seconds = Vec::new();
    let mut server_seconds = 0.0;
    let mut vector_bytes = 0;
    for site in 0..case.survivors() {
        let exact = case.signal(site);
        let noisy = add_noise(site, case.deviation, &exact);
        let numbers: Vec<f32> = noisy.iter().map(|value| *value as f32).collect();
        let (bytes, seconds) = timed(|| encode(&numbers));
        let bytes = bytes?;
        site_seconds.push(seconds);
        vector_bytes = vector_bytes.max(bytes.len());
        let (received, seconds) = timed(|| {
            let numbers = read(&bytes, form)?;
            let mut plain = Vec::new();
            code::plain(&numbers, &mut plain);
            weighted.add(1.0, &plain)
        });
        received?;
        server_seconds += seconds;
        add(&mut signal, &exact);
        add(&mut sum, &noisy);
    }
    let (mean, seconds) = timed(|| encode(&weighted.mean(case.survivors() as f64)));
    let mean = mean?;
    server_seconds += seconds;
    let (decoded, seconds) = timed(|| read(&mean, form));
    decoded?;
    let cost = RoundCost {
        site_seconds: median(site_seconds) + seconds,
        server_seconds,
        key_seconds: 0.0,
        bytes: vector_bytes + mean.len(),
        // Submit the vector, and fetch the mean.
        exchanges: 2,
        key_exchanges: 0,
    };
    Ok(MeasuredRound { cost, signal, sum })
}

/// Encodes numbers as the product does.
pub(super) fn encode(numbers: &[f32]) -> Result<Vec<u8>, VectorError> {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    write(numbers, Precision::Bf16, || rng.next_u32())
}
