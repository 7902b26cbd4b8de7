//! Whole searches on made-up public data, with every real component but the network.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use time::OffsetDateTime;
use undertone_api::dataset::{Dataset, SizeClass, Visibility, usual_units};
use undertone_api::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use undertone_api::job::JobKind;
use undertone_api::job::dp_sgd::{
    AcousticModel, AverageWeights, Noise, Optimizer, Party, Rounds, Spec, TestSet, WarmStart,
};
use undertone_privacy::{Delta, Epsilon, NoiseMultiplier, PrivacyUnit, SamplingRate};
use uuid::Uuid;

use super::{Goal, Grid, Search, Tried, TuneError, tune};
use crate::site::policy::{DatasetRules, LifetimeLimits, LongestUnits, ReleasePeriods, RequiredApproval};
use crate::speech::dataset::{Description, Split, Writer};
use crate::speech::features::Treatment;

const SPEAKERS: u32 = 24;

/// Writes four sounds, each held for a few frames, in noise; four utterances of each speaker.
pub(crate) fn write_dataset(target: &Path) {
    let description = Description {
        name: "public".to_owned(),
        inputs: 3,
        classes: 4,
        sample_rate: 16_000,
        features: "three numbers".to_owned(),
        treatment: Treatment::default(),
        preparation: crate::speech::dataset::PreparationRecord::default(),
        unit_column: None,
        labels: "four sounds".to_owned(),
        created: "2026-01-01T00:00:00Z".to_owned(),
    };
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    let mut writer = Writer::create(target, description).unwrap();
    for utterance in 0..4 * SPEAKERS {
        let (mut features, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..3 + rng.next_u32() % 3 {
            let sound = rng.next_u32() % 4;
            for _ in 0..2 + rng.next_u32() % 4 {
                labels.push(sound as u16);
                for coefficient in 0..3 {
                    let noise = rng.next_u32() as f32 / u32::MAX as f32 - 0.5;
                    let center = if sound == 3 || sound != coefficient { -1.0 } else { 1.0 };
                    features.push(3.0 * center + 2.0 * noise);
                }
            }
        }
        let speaker = format!("speaker {:02}", utterance / 4);
        writer.push(&format!("{utterance:03}"), &speaker, Split::Train, &features, &labels).unwrap();
    }
    writer.finish(|_| serde_json::Value::Null).unwrap();
}

fn id(number: u128) -> DatasetId {
    DatasetId(Uuid::from_u128(number))
}

/// Makes a job of a public lead and two wards, with a step that is a thousand times too small.
pub(crate) fn spec() -> Spec {
    let noise = Noise::flat(NoiseMultiplier::new(0.3).unwrap(), 1.0);
    let party = |number, noise| Party { dataset: id(number), sampling_rate: SamplingRate::new(0.5).unwrap(), noise };
    Spec {
        unit: PrivacyUnit::Record,
        model: AcousticModel::lstm(8, Some(4)),
        participants: vec![party(1, None), party(2, Some(noise)), party(3, Some(noise))],
        tests: vec![TestSet { name: "common".to_owned(), dataset: id(1) }],
        warm_start: WarmStart { epochs: 1, batch: 8, learning_rate: 0.001, seed: 3 },
        open: None,
        private: Some(Rounds::new(12, Optimizer::Sgd { learning_rate: 0.001, momentum: 0.5 })),
        audit: None,
        selection: None,
        weights: AverageWeights::Equal,
        spare_releases: 2,
        checkpoint_every: 10,
    }
}

fn rules(visibility: Visibility) -> DatasetRules {
    DatasetRules {
        visibility,
        approval: RequiredApproval::Automatic,
        kinds: vec!["dp_sgd".to_owned()],
        least_noise_multiplier: NoiseMultiplier::new(0.1).unwrap(),
        least_threshold: std::num::NonZeroU32::MIN,
        most_sampling_rate: SamplingRate::ONE,
        least_distance: std::num::NonZeroU32::MIN,
        least_colluding: std::num::NonZeroU32::MIN,
        voices_may_leave: false,
        most_epsilon_per_job: Epsilon::new(8.0).unwrap(),
        most_epsilon_automatic: None,
        most_cost_per_job: None,
        release_periods: ReleasePeriods::default(),
        longest_units: LongestUnits::default(),
        limits: LifetimeLimits::default(),
    }
}

fn search(folder: &Path) -> Search {
    let dataset = folder.join("public");
    if !dataset.exists() {
        write_dataset(&dataset);
    }
    Search {
        spec: spec(),
        dataset,
        rules: rules(Visibility::Public),
        units: vec![20, 20],
        goal: None,
        grid: Grid { rate: vec![1.0, 10.0, 1000.0], ..Grid::default() },
        settings: 10,
        halvings: 1,
        development: 0.2,
        warm: 0.3,
        seed: 5,
        time: None,
        work: folder.join("work"),
    }
}

/// Returns the datasets of the job, as the server knows them.
pub(crate) fn datasets() -> Vec<Dataset> {
    let dataset = |number: u128, visibility| Dataset {
        id: id(number),
        lineage: LineageId(Uuid::from_u128(number)),
        organization: OrganizationId(Uuid::from_u128(number)),
        organization_name: String::new(),
        worker: WorkerId(Uuid::from_u128(number)),
        name: format!("data-{number}"),
        visibility,
        content: undertone_api::dataset::DatasetContent::Speech,
        inputs: 3,
        classes: 4,
        records: SizeClass(20),
        speakers: SizeClass(5),
        test_records: 0,
        seconds: None,
        users: None,
        units: usual_units(),
        approval: None,
        accounts: Vec::new(),
        created_at: OffsetDateTime::UNIX_EPOCH,
    };
    vec![dataset(1, Visibility::Public), dataset(2, Visibility::Private), dataset(3, Visibility::Private)]
}

fn last(tried: &[Tried], number: usize) -> &Tried {
    tried.iter().filter(|tried| tried.number == number).max_by_key(|tried| tried.after).unwrap()
}

#[test]
fn a_step_that_learns_is_found_and_the_spec_with_it_can_be_proposed() {
    let dir = tempfile::tempdir().unwrap();
    let search = search(dir.path());
    let mut told = Vec::new();
    let found = tune(&search, |tried| told.push(tried.clone())).unwrap();
    assert_eq!(told, found.tried);
    assert_eq!(found.chosen.after, 12, "played to its end");
    let worst = found.tried.iter().map(|tried| tried.accuracy).fold(1.0, f64::min);
    assert!(found.chosen.accuracy > worst + 0.1, "{} {worst}", found.chosen.accuracy);
    assert!(found.chosen.accuracy > found.public + 0.1, "{} {}", found.chosen.accuracy, found.public);
    let rate = found.spec.private.unwrap().optimizer.learning_rate();
    assert!((rate - 1.0).abs() < 1e-12, "a thousand times the spec's: {rate}");
    assert_eq!(found.spec.check(&datasets()), []);
    assert_eq!(Spec { private: search.spec.private, ..found.spec }, search.spec, "nothing else has changed");
    // The worse half of three ended at the first rung.
    let ended = (0..3).filter(|number| last(&found.tried, *number).after == 6).count();
    assert_eq!((found.tried.len(), ended), (5, 1));
}

#[test]
fn a_search_that_is_given_again_plays_nothing_again_and_one_cut_short_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let search = search(dir.path());
    let found = tune(&search, |_| ()).unwrap();
    let again = tune(&search, |tried| panic!("{tried:?} was known")).unwrap();
    assert_eq!((again.tried, again.chosen), (found.tried.clone(), found.chosen.clone()));
    // The last two results are lost, as after a power failure.
    let path = found.work.join("journal.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> = text.lines().take(1 + 3).collect();
    std::fs::write(&path, kept.join("\n") + "\n").unwrap();
    let mut told = 0;
    let mended = tune(&search, |_| told += 1).unwrap();
    assert_eq!((told, mended.tried.len()), (2, 5));
    assert_eq!(figures(&mended.chosen), figures(&found.chosen));
}

fn figures(tried: &Tried) -> (usize, u32, u64, u64) {
    (tried.number, tried.after, tried.accuracy.to_bits(), tried.loss.to_bits())
}

#[test]
fn the_same_seed_finds_the_same_to_the_bit_and_another_one_has_other_noise() {
    let dir = tempfile::tempdir().unwrap();
    let search = |work: &str, seed| {
        let search = search(dir.path());
        let grid = Grid { rate: vec![1000.0], ..Grid::default() };
        Search { work: dir.path().join(work), seed, grid, halvings: 0, ..search }
    };
    let all = |search: &Search| tune(search, |_| ()).unwrap().tried.iter().map(figures).collect::<Vec<_>>();
    let (one, again, other) = (all(&search("a", 5)), all(&search("b", 5)), all(&search("c", 6)));
    assert_eq!(one, again);
    assert_ne!(one, other);
}

#[test]
fn data_that_are_not_public_are_not_even_opened() {
    let dir = tempfile::tempdir().unwrap();
    for visibility in [Visibility::Private, Visibility::Open] {
        let search = Search { rules: rules(visibility), dataset: dir.path().join("none"), ..search(dir.path()) };
        assert!(matches!(tune(&search, |_| ()), Err(TuneError::NotPublic(_))));
        assert!(!search.work.exists());
    }
}

#[test]
fn the_noise_is_what_the_goal_asks_for_at_each_setting() {
    let dir = tempfile::tempdir().unwrap();
    let goal = Goal { epsilon: Epsilon::new(8.0).unwrap(), delta: Delta::new(1e-5).unwrap() };
    let grid = Grid { rate: vec![1000.0], batch: vec![1.0, 2.0], ..Grid::default() };
    let search = Search { goal: Some(goal), grid, halvings: 0, ..search(dir.path()) };
    let found = tune(&search, |_| ()).unwrap();
    let z = |batch: f64| {
        let tried = found.tried.iter().find(|tried| (tried.setting.batch - batch).abs() < 1e-9).unwrap();
        tried.noise_multiplier
    };
    assert!(z(2.0) > z(1.0) && z(1.0) > 0.3, "everybody in every batch needs more: {} {}", z(1.0), z(2.0));
    let noise = found.spec.participants[1].noise.unwrap().noise_multiplier.get();
    assert!((noise - z(found.chosen.setting.batch)).abs() < 1e-12);
    assert_eq!(found.spec.check(&datasets()), []);
}

#[test]
fn a_setting_that_cannot_be_played_does_not_end_the_search_and_is_not_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let diverges = Optimizer::Sgd { learning_rate: 1e37, momentum: 0.9 };
    let grid = Grid { optimizers: vec![diverges], ..Grid::default() };
    let search = Search { grid, halvings: 0, ..search(dir.path()) };
    let found = tune(&search, |_| ()).unwrap();
    assert_eq!(found.tried.len(), 2);
    assert_eq!(found.chosen.number, 0);
}

#[test]
fn without_time_there_is_no_result_and_what_is_asked_must_fit_the_spec() {
    let dir = tempfile::tempdir().unwrap();
    let late = Search { time: Some(Duration::ZERO), ..search(dir.path()) };
    assert!(matches!(tune(&late, |_| ()), Err(TuneError::Time)));
    let wrong: [fn(&mut Search); 6] = [
        |search| search.units = vec![20],
        |search| search.units = vec![20, 0],
        |search| search.spec.private = None,
        |search| search.development = 1.0,
        |search| search.spec.participants.iter_mut().for_each(|party| party.noise = None),
        |search| search.grid.clip = vec![f64::NAN],
    ];
    for (number, change) in wrong.into_iter().enumerate() {
        let mut search = search(dir.path());
        change(&mut search);
        assert!(matches!(tune(&search, |_| ()), Err(TuneError::Spec(_))), "{number}");
    }
    let few = Search { units: vec![1; 24], ..search(dir.path()) };
    let mut few = Search { spec: spec(), ..few };
    few.spec.participants = (1..=25).map(|number| Party { dataset: id(number), ..few.spec.participants[1] }).collect();
    assert!(matches!(tune(&few, |_| ()), Err(TuneError::TooFew { speakers: 24, needed: 26 })));
}
