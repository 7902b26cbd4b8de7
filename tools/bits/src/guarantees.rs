//! Closed forms and searches: Gaussian profiles, calibration, groups, audits, planning.

use undertone_privacy::audit::OneRun;
use undertone_privacy::gaussian::GaussianProfile;
use undertone_privacy::ledger::Headroom;
use undertone_privacy::{Adjacency, Epsilon, NoiseMultiplier, OrderGrid, calibrate, group, mechanism};

use crate::Facts;
use crate::seed::Seed;

pub(crate) fn record(facts: &mut Facts) {
    for round in 0..40 {
        let mut seed = Seed::new(2000 + round);
        let (epsilon, delta, sigma) = (seed.epsilon(40.0), seed.delta(), seed.uniform(0.05, 30.0));
        let name = |what: &str| format!("{what} {round}");
        if let Ok(profile) = GaussianProfile::new(1.0, sigma) {
            let profile = profile.times(1 + seed.below(50));
            facts.number(&name("gaussian profile, delta"), profile.delta(epsilon));
            facts.number(&name("gaussian profile, ln delta"), profile.ln_delta(epsilon));
            facts.perhaps(&name("gaussian profile, epsilon"), profile.epsilon(delta).map(Epsilon::get));
        }
        facts.number(&name("largest mu"), GaussianProfile::largest(epsilon, delta).mu());
        let of_group = group::epsilon_delta(epsilon, delta, 1 + seed.below(8));
        facts.perhaps(&name("group epsilon"), of_group.map(|(epsilon, _)| epsilon.get()));
        facts.perhaps(&name("group delta"), of_group.map(|(_, delta)| delta.get()));
        let (canaries, guesses) = (200 + seed.below(800), 20 + seed.below(180));
        let audit = OneRun::new(canaries, guesses, guesses / 2 + seed.below(guesses / 2));
        let lower = audit.ok().and_then(|audit| audit.epsilon_lower(delta, 0.95).ok());
        facts.perhaps(&name("audit, epsilon at least"), lower);
        let headroom = Headroom::of_filter(epsilon, delta, &OrderGrid::standard());
        let cost = mechanism::curve(&seed.sampled(), Adjacency::AddRemove, headroom.grid());
        facts.word(&name("steps that fit"), cost.map_or(u64::MAX, |cost| headroom.releases(&cost)));
        let noise = calibrate::noise_for(&headroom, seed.rate(), 500, Adjacency::AddRemove);
        facts.perhaps(&name("least noise"), noise.ok().map(NoiseMultiplier::get));
    }
}
