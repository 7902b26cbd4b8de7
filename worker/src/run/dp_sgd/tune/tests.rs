//! Whole searches on made-up public data, with every real component but the network.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use time::OffsetDateTime;
use undertone_api::dataset::{Dataset, DatasetContent, SizeClass, Visibility, usual_units};
use undertone_api::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use undertone_api::job::JobKind;
use undertone_api::job::dp_sgd::{
    AcousticModel, AverageWeights, Noise, Optimizer, Party, Rounds, RowColumns, Spec, TestSet, TrainingLoss, WarmStart,
};
use undertone_privacy::{Delta, Epsilon, NoiseMultiplier, PrivacyUnit, SamplingRate};
use uuid::Uuid;

use super::{PrivacyGoal, SettingGrid, TrialResult, TuneError, TuneSearch, tune};
use crate::site::gate::prove_public;
use crate::site::policy::{
    AggregationRules, DatasetRules, LifetimeLimits, LongestUnits, ReleasePeriods, RequiredApproval,
};
use crate::speech::dataset::{Description, Split, Writer};
use crate::speech::features::Treatment;
use crate::tables::dataset::read_meta;

pub(crate) use crate::run::dp_sgd::tests::{columns, row_spec, write_table};

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

fn dataset_id(number: u128) -> DatasetId {
    DatasetId(Uuid::from_u128(number))
}

/// Makes a job of a public lead and two wards, with a step that is a thousand times too small.
pub(crate) fn spec() -> Spec {
    let noise = Noise::flat(NoiseMultiplier::new(0.3).unwrap(), 1.0);
    let party = |number, noise| Party {
        dataset: dataset_id(number),
        sampling_rate: SamplingRate::new(0.5).unwrap(),
        noise,
        rounds: None,
    };
    Spec {
        unit: PrivacyUnit::Record,
        model: AcousticModel::lstm(8, Some(4)),
        initial_model: None,
        participants: vec![party(1, None), party(2, Some(noise)), party(3, Some(noise))],
        open_terms: Vec::new(),
        rehearsal: None,
        tests: vec![TestSet { name: "common".to_owned(), dataset: dataset_id(1) }],
        warm_start: WarmStart { epochs: 1, batch: 8, learning_rate: 0.001, seed: 3 },
        open: None,
        private: Some(Rounds::new(12, Optimizer::Sgd { learning_rate: 0.001, momentum: 0.5 })),
        audit: None,
        selection: None,
        secure_aggregation: None,
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
        secure_aggregation: AggregationRules::default(),
        limits: LifetimeLimits::default(),
    }
}

fn search(folder: &Path) -> TuneSearch {
    let dataset = folder.join("public");
    if !dataset.exists() {
        write_dataset(&dataset);
    }
    TuneSearch {
        spec: spec(),
        dataset,
        published: prove_public(&rules(Visibility::Public)).unwrap(),
        units: vec![20, 20],
        goal: None,
        grid: SettingGrid { rate: vec![1.0, 10.0, 1000.0], ..SettingGrid::default() },
        settings: 10,
        halvings: 1,
        development: 0.2,
        warm: 0.3,
        seed: 5,
        time: None,
        stop: Arc::default(),
        models: folder.join("models"),
        work: folder.join("work"),
    }
}

/// Returns the datasets of the job, as the server knows them.
pub(crate) fn datasets() -> Vec<Dataset> {
    let dataset = |number: u128, visibility| Dataset {
        id: dataset_id(number),
        lineage: LineageId(Uuid::from_u128(number)),
        organization: OrganizationId(Uuid::from_u128(number)),
        organization_name: String::new(),
        worker: WorkerId(Uuid::from_u128(number)),
        name: format!("data-{number}"),
        visibility,
        content: DatasetContent::Speech,
        inputs: 3,
        classes: 4,
        records: SizeClass(20),
        speakers: SizeClass(5),
        test_records: 0,
        seconds: None,
        users: None,
        table: None,
        units: usual_units(),
        approval: None,
        accounts: Vec::new(),
        created_at: OffsetDateTime::UNIX_EPOCH,
    };
    vec![dataset(1, Visibility::Public), dataset(2, Visibility::Private), dataset(3, Visibility::Private)]
}

fn last_result(results: &[TrialResult], number: usize) -> &TrialResult {
    results.iter().filter(|result| result.number == number).max_by_key(|result| result.after).unwrap()
}

#[test]
fn search_finds_the_step_that_learns_and_a_valid_spec() {
    let dir = tempfile::tempdir().unwrap();
    let search = search(dir.path());
    let mut reports = Vec::new();
    let result = tune(&search, |trial| reports.push(trial.clone())).unwrap();
    assert_eq!(reports, result.tried);
    assert_eq!(result.chosen.after, 12, "rehearsed to its end");
    let worst = result.tried.iter().map(|trial| trial.accuracy).fold(1.0, f64::min);
    assert!(result.chosen.accuracy > worst + 0.1, "{} {worst}", result.chosen.accuracy);
    let public = result.public.accuracy;
    assert!(result.chosen.accuracy > public + 0.1, "{} {public}", result.chosen.accuracy);
    let rate = result.spec.private.unwrap().optimizer.learning_rate();
    assert!((rate - 1.0).abs() < 1e-12, "a thousand times the spec's: {rate}");
    assert_eq!(result.spec.check(&datasets()), []);
    assert_eq!(Spec { private: search.spec.private, ..result.spec }, search.spec, "nothing else has changed");
    // The worse half of three ended at the first rung.
    let ended = (0..3).filter(|number| last_result(&result.tried, *number).after == 6).count();
    assert_eq!((result.tried.len(), ended), (5, 1));
}

#[test]
fn repeated_search_rehearses_only_the_missing_settings() {
    let dir = tempfile::tempdir().unwrap();
    let search = search(dir.path());
    let result = tune(&search, |_| ()).unwrap();
    let again = tune(&search, |trial| panic!("{trial:?} is in the journal")).unwrap();
    assert_eq!((again.tried, again.chosen), (result.tried.clone(), result.chosen.clone()));
    // The last two results are lost, as after a power failure.
    let path = result.work.join("journal.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().take(1 + 3).collect();
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let mut reports = 0;
    let resumed = tune(&search, |_| reports += 1).unwrap();
    assert_eq!((reports, resumed.tried.len()), (2, 5));
    assert_eq!(figures(&resumed.chosen), figures(&result.chosen));
}

fn figures(result: &TrialResult) -> (usize, u32, u64, u64) {
    (result.number, result.after, result.accuracy.to_bits(), result.loss.to_bits())
}

#[test]
fn same_seed_gives_the_same_bits_and_another_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let search = |work: &str, seed| {
        let search = search(dir.path());
        let grid = SettingGrid { rate: vec![1000.0], ..SettingGrid::default() };
        TuneSearch { work: dir.path().join(work), seed, grid, halvings: 0, ..search }
    };
    let all = |search: &TuneSearch| tune(search, |_| ()).unwrap().tried.iter().map(figures).collect::<Vec<_>>();
    let one = all(&search("a", 5));
    let again = all(&search("b", 5));
    let other = all(&search("c", 6));
    assert_eq!(one, again);
    assert_ne!(one, other);
}

#[test]
fn data_that_are_not_public_have_no_search() {
    for visibility in [Visibility::Private, Visibility::Open] {
        assert!(prove_public(&rules(visibility)).is_err());
    }
}

#[test]
fn stopped_search_ends_within_the_setting() {
    let dir = tempfile::tempdir().unwrap();
    let search = search(dir.path());
    let stop = || search.stop.store(true, Ordering::Relaxed);
    let result = tune(&search, |_| stop()).unwrap();
    assert_eq!(result.tried.len(), 1, "the first one ended before");
}

#[test]
fn noise_of_each_setting_meets_the_goal() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = std::num::NonZeroU32::MIN;
    let goal = PrivacyGoal { epsilon: Epsilon::new(8.0).unwrap(), delta: Delta::new(1e-5).unwrap(), jobs };
    let grid = SettingGrid { rate: vec![1000.0], batch: vec![1.0, 2.0], ..SettingGrid::default() };
    let search = TuneSearch { goal: Some(goal), grid, halvings: 0, ..search(dir.path()) };
    let result = tune(&search, |_| ()).unwrap();
    let z = |batch: f64| {
        let trial = result.tried.iter().find(|trial| (trial.setting.batch - batch).abs() < 1e-9).unwrap();
        trial.noise_multiplier
    };
    assert!(z(2.0) > z(1.0) && z(1.0) > 0.3, "every unit in every batch needs more: {} {}", z(1.0), z(2.0));
    let noise = result.spec.participants[1].noise.unwrap().noise_multiplier.get();
    assert!((noise - z(result.chosen.setting.batch)).abs() < 1e-12);
    assert_eq!(result.spec.check(&datasets()), []);
}

#[test]
fn setting_that_diverges_is_not_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let diverges = Optimizer::Sgd { learning_rate: 1e37, momentum: 0.9 };
    let grid = SettingGrid { optimizers: vec![diverges], ..SettingGrid::default() };
    let search = TuneSearch { grid, halvings: 0, ..search(dir.path()) };
    let result = tune(&search, |_| ()).unwrap();
    assert_eq!(result.tried.len(), 2);
    assert_eq!(result.chosen.number, 0);
}

#[test]
fn search_without_time_or_with_wrong_input_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let late = TuneSearch { time: Some(Duration::ZERO), ..search(dir.path()) };
    assert!(matches!(tune(&late, |_| ()), Err(TuneError::Time)));
    let changes: [fn(&mut TuneSearch); 6] = [
        |search| search.units = vec![20],
        |search| search.units = vec![20, 0],
        |search| search.spec.private = None,
        |search| search.development = 1.0,
        |search| search.spec.participants.iter_mut().for_each(|party| party.noise = None),
        |search| search.grid.clip = vec![f64::NAN],
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut search = search(dir.path());
        change(&mut search);
        assert!(matches!(tune(&search, |_| ()), Err(TuneError::Spec(_))), "{number}");
    }
    let few = TuneSearch { units: vec![1; 24], ..search(dir.path()) };
    let mut few = TuneSearch { spec: spec(), ..few };
    few.spec.participants =
        (1..=25).map(|number| Party { dataset: dataset_id(number), ..few.spec.participants[1] }).collect();
    assert!(matches!(tune(&few, |_| ()), Err(TuneError::TooFew { groups: 24, noun: "speakers", needed: 26 })));
}

/// Returns a search for a job on a table, with a step that changes no parameter, and with one that learns.
fn row_search(folder: &Path, change: impl FnOnce(&mut Spec)) -> TuneSearch {
    let dataset = folder.join("visits");
    if !dataset.exists() {
        write_table(&dataset, 0);
    }
    let mut spec = row_spec();
    spec.warm_start.epochs = 0;
    let private = spec.private.as_mut().unwrap();
    (private.rounds, private.optimizer) = (30, Optimizer::Adam { learning_rate: 1e-50 });
    change(&mut spec);
    let grid = SettingGrid { rate: vec![5e48], ..SettingGrid::default() };
    TuneSearch { spec, dataset, grid, halvings: 0, ..search(folder) }
}

fn rows(spec: &mut Spec) -> &mut RowColumns {
    spec.model.rows.as_mut().unwrap()
}

/// Makes the model predict the cost, a number.
pub(crate) fn predict_cost(spec: &mut Spec) {
    rows(spec).target = columns()[4].clone();
    (spec.model.loss, spec.model.classes) = (TrainingLoss::SquaredError, Some(1));
}

/// Returns the datasets of a job on tables with the columns of the table in `folder`, as the server knows them.
pub(crate) fn tables(folder: &Path) -> Vec<Dataset> {
    let schema = read_meta(folder).unwrap().schema;
    let table = |dataset: Dataset| Dataset {
        content: DatasetContent::Table,
        inputs: 0,
        classes: 0,
        users: Some(SizeClass(20)),
        table: Some(schema.clone()),
        units: vec![PrivacyUnit::User],
        ..dataset
    };
    datasets().into_iter().map(table).collect()
}

#[test]
fn search_on_a_table_finds_the_step_that_learns_and_resumes() {
    let dir = tempfile::tempdir().unwrap();
    let search = row_search(dir.path(), |_| ());
    let result = tune(&search, |_| ()).unwrap();
    let (own, chosen) = (last_result(&result.tried, 0), &result.chosen);
    assert!(own.loss.to_bits() == result.public.loss.to_bits(), "its step is too small: {own:?}");
    assert!(chosen.number == 1 && chosen.accuracy > 0.7 && chosen.accuracy > own.accuracy, "{chosen:?} {own:?}");
    assert_eq!(result.spec.check(&tables(&search.dataset)), []);
    assert_eq!(result.held.len(), 3);
    assert!(result.held.iter().all(|units| *units > 0) && result.held.iter().sum::<u64>() < 58, "{:?}", result.held);
    // The second result is lost, as after a power failure.
    let path = result.work.join("journal.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().take(1 + 1).collect();
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let mut reports = 0;
    let resumed = tune(&search, |_| reports += 1).unwrap();
    assert_eq!((reports, figures(&resumed.chosen)), (1, figures(&result.chosen)));
}

#[test]
fn number_is_ranked_by_its_error() {
    let dir = tempfile::tempdir().unwrap();
    let result = tune(&row_search(dir.path(), predict_cost), |_| ()).unwrap();
    let (own, chosen) = (last_result(&result.tried, 0), &result.chosen);
    assert!(own.loss.to_bits() == result.public.loss.to_bits(), "its step is too small: {own:?}");
    assert!(chosen.number == 1 && chosen.loss < 0.8 * own.loss, "{chosen:?} {own:?}");
}

#[test]
fn noisy_roles_have_the_rows_of_charged_units() {
    let dir = tempfile::tempdir().unwrap();
    let loss = |most| {
        let search = row_search(dir.path(), |spec| {
            rows(spec).rows_per_unit = most;
            spec.private.as_mut().unwrap().rounds = 2;
        });
        let result = tune(&search, |_| ()).unwrap();
        last_result(&result.tried, 1).loss.to_bits()
    };
    // The data, the roles and the noise are the same: the rows of a unit make the difference.
    assert_ne!(loss(1), loss(3));
    assert_eq!(loss(3), loss(1000), "no unit has more than three rows");
}

/// A change of a spec.
type SpecChange = fn(&mut Spec);

#[test]
fn wrong_spec_of_a_table_is_refused_by_its_field() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |change: fn(&mut Spec)| {
        tune(&row_search(dir.path(), change), |trial| panic!("{trial:?} was measured")).unwrap_err().to_string()
    };
    let changes: [(&str, SpecChange); 5] = [
        ("spec.unit", |spec| spec.unit = PrivacyUnit::Record),
        ("spec.model.loss", |spec| spec.model.loss = TrainingLoss::SquaredError),
        ("spec.model.rows.rows_per_unit", |spec| rows(spec).rows_per_unit = 0),
        ("column `age` with another kind", |spec| {
            rows(spec).features[0].kind = undertone_api::table::ColumnKind::Integer { least: 0, most: 99 };
        }),
        ("`private`", |spec| spec.private = None),
    ];
    for (field, change) in changes {
        let message = refused(change);
        assert!(message.contains(field), "{field}: {message}");
    }
}

#[test]
fn copies_are_searched_beside_the_other_settings() {
    let dir = tempfile::tempdir().unwrap();
    let grid = SettingGrid { rate: vec![1000.0], copies: vec![1, 2], ..SettingGrid::default() };
    let search = TuneSearch { grid, halvings: 0, ..search(dir.path()) };
    let result = tune(&search, |_| ()).unwrap();
    let mut tried: Vec<_> = result.tried.iter().map(|trial| trial.setting.copies).collect();
    tried.sort_unstable();
    assert_eq!(tried, [None, None, Some(2)], "its own, the rate without copies, and the rate with copies");
    let loss = |copies| {
        let found = result.tried.iter().find(|trial| trial.number > 0 && trial.setting.copies == copies);
        found.map(|trial| trial.loss.to_bits())
    };
    assert!(loss(None).is_some() && loss(None) != loss(Some(2)), "the copies take part in the rounds");
    let wrong = SettingGrid { copies: vec![17], ..SettingGrid::default() };
    let wrong = TuneSearch { grid: wrong, ..search };
    assert!(matches!(tune(&wrong, |_| ()), Err(TuneError::Spec(why)) if why.contains("--copies 17")));
}
