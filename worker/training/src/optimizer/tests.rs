#![expect(clippy::float_cmp, reason = "halves are exact, and a resumed run must be the same bits")]

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::rule::AdamCorrections;
use super::{Optimizer, OptimizerMemory, Rule, StepDirection};

fn exact(optimizer: &mut Optimizer, parameters: &mut [f32], gradient: &[f32]) {
    optimizer.step(parameters, StepDirection::exact(gradient), 1.0);
}

/// Draws an approximately normal number with variance 1.
fn bell(rng: &mut ChaCha20Rng) -> f64 {
    let sum: f64 = (0..12).map(|_| f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5).sum();
    sum
}

#[test]
fn momentum_carries_a_step_on() {
    let mut optimizer = Optimizer::new(Rule::Sgd { learning_rate: 0.5, momentum: 0.5 }, 1);
    let mut parameters = [1.0];
    exact(&mut optimizer, &mut parameters, &[1.0]);
    assert_eq!(parameters, [0.5]);
    exact(&mut optimizer, &mut parameters, &[0.0]);
    assert_eq!(parameters, [0.25]);
}

#[test]
fn the_pace_scales_the_step_and_not_the_memory() {
    let rules = [Rule::Sgd { learning_rate: 0.5, momentum: 0.5 }, Rule::Adam { learning_rate: 0.5 }];
    for rule in rules {
        let (mut whole, mut half) = (Optimizer::new(rule, 1), Optimizer::new(rule, 1));
        let (mut far, mut near) = ([0.0], [0.0]);
        whole.step(&mut far, StepDirection::exact(&[2.0]), 1.0);
        half.step(&mut near, StepDirection::exact(&[2.0]), 0.5);
        assert!(far[0] < 0.0 && far[0] == 2.0 * near[0], "{far:?} {near:?}");
        assert_eq!(whole.memory(), half.memory());
    }
}

#[test]
fn the_first_step_of_adam_is_the_learning_rate() {
    let mut optimizer = Optimizer::new(Rule::Adam { learning_rate: 0.01 }, 2);
    let mut parameters = [0.0, 0.0];
    exact(&mut optimizer, &mut parameters, &[1e-3, -5.0]);
    assert!((parameters[0] + 0.01).abs() < 1e-6 && (parameters[1] - 0.01).abs() < 1e-6, "{parameters:?}");
}

#[test]
fn without_noise_the_correction_changes_no_bit() {
    let (mut plain, mut corrected) = (
        Optimizer::new(Rule::Adam { learning_rate: 0.01 }, 3),
        Optimizer::new(Rule::DpAdam { learning_rate: 0.01 }, 3),
    );
    let (mut a, mut b) = ([0.3, 0.0, -1.0], [0.3, 0.0, -1.0]);
    for step in 0..50 {
        let gradient = [(step as f32).sin(), 1e-7, 40.0];
        exact(&mut plain, &mut a, &gradient);
        exact(&mut corrected, &mut b, &gradient);
    }
    assert_eq!((a, plain.memory()), (b, corrected.memory()));
}

/// Returns the memory after `steps` of a constant signal, under noise of deviation 0.5 in even rounds and 1.5 in odd
/// ones.
fn under_noise(signal: f64, length: usize, steps: u32) -> OptimizerMemory {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let mut optimizer = Optimizer::new(Rule::DpAdam { learning_rate: 0.0 }, length);
    let mut parameters = vec![0.0; length];
    for step in 0..steps {
        let deviation = if step % 2 == 0 { 0.5 } else { 1.5 };
        let gradient: Vec<f32> = (0..length).map(|_| (signal + deviation * bell(&mut rng)) as f32).collect();
        optimizer.step(&mut parameters, StepDirection::averaged(&gradient, deviation * deviation), 1.0);
    }
    optimizer.memory().clone()
}

#[test]
fn the_corrected_second_moment_is_that_of_the_signal() {
    const LENGTH: usize = 4000;
    for signal in [0.0, 0.25, 2.0] {
        for steps in [1, 30, 300] {
            let OptimizerMemory { second, noise, .. } = under_noise(signal, LENGTH, steps);
            let unbias = 1.0 - super::power(super::BETA_2, steps);
            let noise = noise / unbias;
            let spared = if steps == 1 { 0.25 } else { 1.25 };
            assert!((noise / spared - 1.0).abs() < 0.02, "{steps}: {noise}");
            let mean = second.iter().map(|second| f64::from(*second) / unbias - noise).sum::<f64>() / LENGTH as f64;
            // The deviation of (g + n)² is about √(2φ² + 4g²φ); the mean over rounds and coordinates reduces it.
            let error = (2.0 * noise * noise * 2.0 + 4.0 * signal * signal * noise).sqrt()
                / (LENGTH as f64 * f64::from(steps)).sqrt();
            assert!((mean - signal * signal).abs() < 4.0 * error, "{signal} after {steps}: {mean} ± {error}");
        }
    }
}

#[test]
fn noise_counts_as_floor_and_signal_as_itself() {
    let share_of_floor = |signal: f64, steps: u32| {
        let OptimizerMemory { second, noise, .. } = under_noise(signal, 4000, steps);
        let corrections = AdamCorrections::of_noise(1.0, steps, noise);
        let floor = corrections.signal(0.0);
        assert!(floor > 0.0);
        second.iter().filter(|second| corrections.signal(f64::from(**second)) == floor).count() as f64 / 4000.0
    };
    // Four standard errors, of about 3 % after many steps and 141 % after one.
    assert!(share_of_floor(0.0, 300) > 0.995 && share_of_floor(0.0, 1) > 0.95);
    assert_eq!(share_of_floor(2.0, 300), 0.0);
}

#[test]
fn only_corrected_steps_adapt_under_strong_noise() {
    // Two coordinates whose signals differ fourfold, in noise twenty times the larger. Adam alone steps in the ratio of
    // the signals, as plain descent does. With the correction, both steps become equal once the estimate is fine
    // enough.
    const COPIES: usize = 2000;
    let ratio = |rule: Rule, variance: f64| {
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let mut optimizer = Optimizer::new(rule, 2 * COPIES);
        let mut parameters = vec![0.0; 2 * COPIES];
        for _ in 0..2000 {
            let gradient: Vec<f32> = (0..2 * COPIES)
                .map(|n| (if n < COPIES { 4.0 } else { 1.0 } + variance.sqrt() * bell(&mut rng)) as f32)
                .collect();
            optimizer.step(&mut parameters, StepDirection::averaged(&gradient, variance), 1.0);
        }
        let walked = |range: &[f32]| range.iter().map(|value| f64::from(*value)).sum::<f64>();
        walked(&parameters[..COPIES]) / walked(&parameters[COPIES..])
    };
    let (plain, corrected) =
        (ratio(Rule::Adam { learning_rate: 1e-3 }, 16.0), ratio(Rule::DpAdam { learning_rate: 1e-3 }, 16.0));
    assert!(plain > 2.5 && corrected < 0.75 * plain, "{plain} {corrected}");
}

#[test]
fn a_resumed_optimizer_takes_the_same_steps() {
    for rule in [Rule::Adam { learning_rate: 0.01 }, Rule::DpAdam { learning_rate: 0.01 }] {
        let take = |optimizer: &mut Optimizer, parameters: &mut [f32], step: i32| {
            optimizer.step(
                parameters,
                StepDirection::averaged(&[step as f32], 0.1 * f64::from(step)),
                1.0 / f64::from(step + 1),
            );
        };
        let (mut whole, mut straight) = (Optimizer::new(rule, 1), [0.3]);
        for step in 0..6 {
            take(&mut whole, &mut straight, step);
        }
        let (mut first, mut resumed) = (Optimizer::new(rule, 1), [0.3]);
        for step in 0..3 {
            take(&mut first, &mut resumed, step);
        }
        let mut second = Optimizer::resume(rule, 1, first.memory().clone()).expect("its own memory fits");
        for step in 3..6 {
            take(&mut second, &mut resumed, step);
        }
        assert_eq!(straight, resumed);
        assert_eq!(whole.memory(), second.memory());
    }
}

#[test]
fn memory_of_another_rule_is_refused() {
    let sgd = Optimizer::new(Rule::Sgd { learning_rate: 0.1, momentum: 0.9 }, 3);
    assert_eq!(Optimizer::resume(Rule::Adam { learning_rate: 0.1 }, 3, sgd.memory().clone()), None);
}
