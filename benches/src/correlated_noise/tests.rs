//! The price against the mechanism itself, and the noise of the families.

#![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use undertone_privacy::correlated::NoiseEncoder;
use undertone_privacy::pld::Plan;
use undertone_privacy::{Adjacency, Delta, Epsilon};

use super::mechanism::{NoiseFamily, NoiseMechanism};
use super::price::TrainingTerms;
use super::training::draw_normal;

/// Estimates δ(ε) of a unit whose turns are the steps 0 and 2 of 4, each with probability ½, and its standard error: from
/// draws of Cx + z with the unit, against z alone. The unit contributes 1 in one coordinate.
fn simulated_delta(encoder: &NoiseEncoder, deviation: f64, epsilon: f64) -> (f64, f64) {
    const DRAWS: u32 = 60_000;
    let mut rng = ChaCha20Rng::seed_from_u64(14);
    let column = encoder.column();
    let shift = |coins: usize, row: usize| {
        let early = if coins & 1 == 1 { column[row] } else { 0.0 };
        let late = if coins & 2 == 2 && row >= 2 { column[row - 2] } else { 0.0 };
        early + late
    };
    let mut sum = 0.0;
    let mut square = 0.0;
    for draw in 0..DRAWS {
        // A quarter of the draws for each pattern of the two coins.
        let coins = draw as usize % 4;
        let rows: [f64; 4] = std::array::from_fn(|row| shift(coins, row) + deviation * draw_normal(&mut rng));
        let log_ratio = |coins: usize| {
            let terms = rows.iter().enumerate().map(|(row, value)| {
                let shift = shift(coins, row);
                shift * (value - shift / 2.0)
            });
            terms.sum::<f64>() / (deviation * deviation)
        };
        let ratio: f64 = (0..4).map(|coins| log_ratio(coins).exp() / 4.0).sum();
        let loss = (1.0 - epsilon.exp() / ratio).max(0.0);
        sum += loss;
        square += loss * loss;
    }
    let draws = f64::from(DRAWS);
    let mean = sum / draws;
    (mean, ((square / draws - mean * mean) / draws).sqrt())
}

#[test]
fn banded_price_is_exact_and_too_low_for_full_columns() {
    let terms = TrainingTerms { rate: 0.25, steps: 4, epsilon: 1.0, delta: 1e-3 };
    let (z, epsilon) = (0.8, 1.0);
    let event = terms.banded_event(2, z).unwrap();
    let price = Plan::of(&event, Adjacency::ZeroOut).delta(Epsilon::new(epsilon).unwrap()).unwrap();
    let simulate = |encoder: &NoiseEncoder| simulated_delta(encoder, z * encoder.column_norm(), epsilon);
    let (banded, error) = simulate(&NoiseEncoder::banded(&[1.0, 0.6], 4));
    assert!((banded - price).abs() < 4.0 * error, "{banded} ± {error}, price {price}");
    // DP-λCGD: the second turn adds to what remains of the first.
    let (full, error) = simulate(&NoiseEncoder::geometric(0.8, 4));
    assert!(full > price + 10.0 * error, "{full} ± {error}, price {price}");
}

#[test]
fn chosen_noise_costs_at_most_the_epsilon_of_the_terms() {
    let terms = TrainingTerms { rate: 0.25, steps: 40, epsilon: 6.0, delta: 1e-5 };
    let delta = Delta::new(terms.delta).unwrap();
    let (mut banded, mut independent) = (None, None);
    for mechanism in NoiseMechanism::best_of_each(&terms).unwrap() {
        let encoder = &mechanism.encoder;
        let event = match mechanism.family {
            NoiseFamily::Independent | NoiseFamily::Banded(_) => {
                terms.banded_event(mechanism.groups, mechanism.deviation / encoder.column_norm()).unwrap()
            }
            NoiseFamily::Geometric(_) | NoiseFamily::InverseRoot(_) => {
                assert_eq!(mechanism.groups, 4);
                let z = mechanism.deviation / encoder.sensitivity(4);
                let whole = TrainingTerms { rate: 1.0, steps: 1, ..terms };
                whole.banded_event(1, z).unwrap()
            }
        };
        let epsilon = Plan::of(&event, Adjacency::ZeroOut).epsilon(delta).unwrap().unwrap().get();
        assert!(epsilon <= terms.epsilon * (1.0 + 1e-9) && epsilon > terms.epsilon * 0.99, "{epsilon}");
        match mechanism.family {
            NoiseFamily::Banded(_) => banded = Some(mechanism.error.root_mean_square),
            NoiseFamily::Independent => independent = Some(mechanism.error.root_mean_square),
            NoiseFamily::Geometric(_) | NoiseFamily::InverseRoot(_) => {}
        }
    }
    assert!(banded.unwrap() < independent.unwrap());
}
