//! The excitation of the vocoder, of power 1: pulses at one pitch where speech is voiced, noise elsewhere. It keeps the voicing of
//! each frame of the recording, and nothing else: neither pitch nor breath.

use super::envelope::HOP;
use undertone_worker_speech::audio::RATE;

/// The pitch of the target voice, in Hz.
pub(super) const PITCH: f64 = 110.0;
/// Decimation factor for the autocorrelation: 4 kHz.
const SPARSE: usize = 4;
/// Samples at that rate in one comparison: 30 ms.
const COMPARED: usize = 120;
/// Lags at that rate, from 400 to 60 Hz.
const LAGS: std::ops::Range<usize> = 10..67;
/// Autocorrelation below which a frame is noise, and above which it is voiced.
const VOICED: (f64, f64) = (0.4, 0.65);
/// Share of pulses in the power of voiced speech.
const PULSES: f64 = 0.95;
/// Seed of the noise: the same for every sound, so that repeated conversion gives the same bits.
const SEED: u64 = 1;

/// Returns the voicing of each frame of 5 ms, 0 to 1: the largest normalized autocorrelation at a pitch of speech.
pub(super) fn voicing(samples: &[f64]) -> Vec<f64> {
    // Zeros before the first frame, for as long as its comparison starts earlier.
    let before = (COMPARED + LAGS.end).div_ceil(2);
    let mut sparse = vec![0.0; before];
    sparse.extend(samples.chunks(SPARSE).map(|chunk| chunk.iter().sum::<f64>() / SPARSE as f64));
    let frames = samples.len() / HOP + 1;
    sparse.resize(before + frames * HOP / SPARSE + COMPARED + LAGS.end, 0.0);
    let at = |frame: usize| {
        let part = &sparse[frame * HOP / SPARSE..][..COMPARED + LAGS.end];
        let base = &part[..COMPARED];
        let own = energy(base);
        let alike = |lag: usize| {
            let later = &part[lag..lag + COMPARED];
            let product: f64 = base.iter().zip(later).map(|(one, other)| one * other).sum();
            product / ((own * energy(later)).sqrt() + 1e-9)
        };
        let best = LAGS.map(alike).fold(0.0, f64::max);
        ((best - VOICED.0) / (VOICED.1 - VOICED.0)).clamp(0.0, 1.0)
    };
    (0..frames).map(at).collect()
}

/// Returns an excitation of `samples` samples.
pub(super) fn excite(voicing: &[f64], samples: usize) -> Vec<f64> {
    let period = f64::from(RATE) / PITCH;
    let (mut noise, mut pulse) = (SEED, 0.0);
    let value = |n: usize| {
        let (frame, part) = (n / HOP, (n % HOP) as f64 / HOP as f64);
        let of = |frame: usize| voicing.get(frame).or(voicing.last()).copied().unwrap_or(0.0);
        let voiced = PULSES * (of(frame) * (1.0 - part) + of(frame + 1) * part);
        let mut value = (1.0 - voiced).sqrt() * uniform(&mut noise);
        if n as f64 >= pulse {
            value += (voiced * period).sqrt();
            pulse += period;
        }
        value
    };
    (0..samples).map(value).collect()
}

fn energy(part: &[f64]) -> f64 {
    part.iter().map(|sample| sample * sample).sum()
}

/// Returns the next number of a linear congruential generator (Knuth's MMIX), of mean 0 and power 1. It need not be unpredictable.
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let high = u32::try_from(*state >> 32).unwrap_or(u32::MAX);
    (f64::from(high) / f64::from(u32::MAX) * 2.0 - 1.0) * 3.0_f64.sqrt()
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::{PITCH, energy, excite, uniform, voicing};

    #[test]
    fn tone_is_voiced_and_noise_is_not() {
        let tone: Vec<f64> = (0..16_000).map(|n| (TAU * 200.0 * f64::from(n) / 16_000.0).sin()).collect();
        let mut state = 7;
        let noise: Vec<f64> = (0..16_000).map(|_| uniform(&mut state)).collect();
        let mean = |sound: &[f64]| voicing(sound)[20..180].iter().sum::<f64>() / 160.0;
        assert!(mean(&tone) > 0.95 && mean(&noise) < 0.3, "{} {}", mean(&tone), mean(&noise));
        assert_eq!(voicing(&[0.0; 800]), vec![0.0; 11]);
        assert_eq!(voicing(&[]), vec![0.0]);
    }

    #[test]
    fn excitation_has_power_one_and_one_pitch() {
        for voiced in [0.0, 0.5, 1.0] {
            let sound = excite(&[voiced; 401], 32_000);
            let power = energy(&sound) / 32_000.0;
            assert!((power - 1.0).abs() < 0.05, "{voiced}: {power}");
        }
        let pulses = excite(&[1.0; 401], 32_000).iter().filter(|sample| **sample > 5.0).count();
        assert!((pulses as f64 / 2.0 - PITCH).abs() < 1.0, "{pulses}");
    }
}
