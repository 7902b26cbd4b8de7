//! Whole runs of three sites on threads, with a server in memory that averages.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod keys;

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;
use time::OffsetDateTime;
use undertone_api::id::{ConsortiumId, DatasetId, JobId, LineageId, OrganizationId, WorkerId};
use undertone_api::job::analytics::{NUMBERS_FILE, Report, Spec, VECTOR};
use undertone_api::job::{Charge, DatasetUse, Report as AnyReport, Spec as AnySpec};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_api::table::{TableColumn, TableSchema};
use undertone_privacy::Adjacency;
use uuid::Uuid;

use super::{ROUND, run};
use crate::run::RunError;
use crate::run::fake::{CrashPoint, FakeServer, is_crash};
use crate::speech::progress::SilentProgress;
use crate::tables::add::{AddOptions, add};
use crate::tables::numbers::encode_numbers;
use crate::tables::source::SourceOptions;

const PARTICIPANTS: usize = 3;
/// Patients of a site. Each has three rows.
const PATIENTS: usize = 40;

fn columns() -> Vec<TableColumn> {
    serde_json::from_value(json!([
        { "name": "age", "kind": "integer", "least": 0, "most": 100 },
        { "name": "sex", "kind": "category", "values": ["f", "m"] },
    ]))
    .unwrap()
}

/// Returns the age and the sex of a patient of a site.
fn patient(site: usize, patient: usize) -> (usize, &'static str) {
    ((site * 13 + patient * 7) % 101, if patient.is_multiple_of(4) { "m" } else { "f" })
}

/// Adds the table of a site. The rows of a patient are equal, so that any of them may count.
fn write_table(target: &Path, site: usize, columns: Vec<TableColumn>) {
    let mut text = "patient,age,sex\n".to_owned();
    for row in 0..3 * PATIENTS {
        let (age, sex) = patient(site, row % PATIENTS);
        writeln!(text, "p{},{age},{sex}", row % PATIENTS).unwrap();
    }
    add_table(target, site, columns, &text);
}

/// Adds the table of a site from the text of a CSV file.
fn add_table(target: &Path, site: usize, columns: Vec<TableColumn>, text: &str) {
    let path = target.with_extension("csv");
    std::fs::write(&path, text).unwrap();
    let options = AddOptions {
        sources: SourceOptions::Files { paths: vec![path], format: None },
        schema: TableSchema { unit_column: "patient".to_owned(), columns, encoder: None },
        zone: None,
        output: target.to_path_buf(),
        name: target.file_name().unwrap().to_string_lossy().into_owned(),
        replace: true,
        created: String::new(),
        fresh_key: [site as u8; 32],
    };
    add(&options, None, &SilentProgress).unwrap();
}

fn dataset(index: usize) -> DatasetId {
    DatasetId(Uuid::from_u128(index as u128 + 1))
}

/// Returns a spec with almost no noise: count and mean of ages, and a histogram of ages by sex.
fn spec() -> Spec {
    let parties: Vec<_> = (0..PARTICIPANTS).map(|index| json!({ "dataset": dataset(index) })).collect();
    serde_json::from_value(json!({
        "unit": "user",
        "participants": parties,
        "columns": columns(),
        "queries": [
            { "name": "ages", "limits": { "rows": 2 }, "aggregates": [
                { "aggregate": "count" }, { "aggregate": "count_units" }, { "aggregate": "mean", "column": "age" },
            ] },
            { "name": "by sex", "group_by": [{ "by": "values", "column": "sex" }], "aggregates": [
                { "aggregate": "histogram", "column": "age", "edges": [0, 50, 100] },
            ] },
        ],
        "noise_multiplier": 1.0 / 1024.0,
        "quorum": 3,
        "deadline_seconds": 60,
    }))
    .unwrap()
}

/// A job of three sites.
struct TestAnalysis {
    manifest: Manifest,
    server: FakeServer,
}

impl TestAnalysis {
    fn new() -> Self {
        Self::with(spec(), |path, index| write_table(path, index, columns()))
    }

    /// Makes a job whose tables `write` adds.
    fn with(spec: Spec, write: impl Fn(&Path, usize)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |index: usize| folder.path().join(format!("data-{index}"));
        (0..PARTICIPANTS).for_each(|index| write(&path(index), index));
        let datasets = (0..PARTICIPANTS).map(|index| (dataset(index), path(index))).collect();
        Self { manifest: manifest(spec), server: FakeServer::new(folder, datasets) }
    }

    fn run_process(&self, index: usize) -> Result<(), RunError> {
        let AnySpec::Analytics(spec) = &self.manifest.spec else { panic!("it is of another kind") };
        let end = run(spec, &mut self.server.start(index, self.manifest.clone()));
        self.server.notify();
        end
    }

    fn run_all(&self) {
        std::thread::scope(|scope| {
            for index in 0..PARTICIPANTS {
                scope.spawn(move || {
                    while let Err(end) = self.run_process(index) {
                        assert!(is_crash(&end), "{index}: {end}");
                    }
                });
            }
        });
    }

    fn report(&self) -> Report {
        let report = self.server.state().report.clone();
        let Some(AnyReport::Analytics(report)) = report else { panic!("the first site reports: {report:?}") };
        report
    }
}

fn manifest(spec: Spec) -> Manifest {
    let participant = |index: usize| ManifestParticipant {
        dataset: dataset(index),
        dataset_name: format!("data-{index}"),
        lineage: LineageId(Uuid::from_u128(100 + index as u128)),
        organization: OrganizationId(Uuid::from_u128(200 + index as u128)),
        organization_name: format!("site {index}"),
        worker: WorkerId(Uuid::from_u128(300 + index as u128)),
        purpose: DatasetUse::Participate,
        units: 50,
        charge: Some(Charge {
            unit: spec.unit,
            adjacency: Adjacency::ZeroOut,
            event: spec.event(),
            releases: if spec.selects_keys() { 2 } else { 1 },
        }),
        site_key: None,
    };
    Manifest {
        job: JobId(Uuid::from_u128(1000)),
        consortium: ConsortiumId(Uuid::from_u128(1001)),
        title: "ages of three sites".to_owned(),
        proposed_by: "site 0".to_owned(),
        participants: (0..PARTICIPANTS).map(participant).collect(),
        spec: AnySpec::Analytics(spec),
        model: None,
        initial_model: None,
        limits: None,
        proposal: None,
        issued_at: OffsetDateTime::UNIX_EPOCH,
    }
}

/// Returns the numbers of an aggregate in a cell.
fn numbers(report: &Report, query: usize, cell: usize, aggregate: usize) -> Vec<f64> {
    let aggregate = &report.queries[query].cells[cell].aggregates[aggregate];
    aggregate.numbers.iter().map(|number| number.value.unwrap_or(f64::NAN)).collect()
}

#[test]
fn averages_agree_with_the_plain_sums_of_all_sites() {
    let job = TestAnalysis::new();
    job.run_all();
    let report = job.report();
    assert_eq!(report.sites, 3);
    let patients = || (0..PARTICIPANTS).flat_map(|site| (0..PATIENTS).map(move |number| patient(site, number)));
    let units = patients().count() as f64;
    let mean = patients().map(|(age, _)| age as f64).sum::<f64>() / units;
    let close = |found: &[f64], expected: f64, error: f64| {
        assert!((found[0] - expected).abs() <= error, "{found:?} instead of {expected}");
    };
    close(&numbers(&report, 0, 0, 0), 2.0 * units, 0.5);
    close(&numbers(&report, 0, 0, 1), units, 0.5);
    close(&numbers(&report, 0, 0, 2), mean, 0.5);
    for (cell, sex) in ["f", "m"].into_iter().enumerate() {
        let found = numbers(&report, 1, cell, 0);
        let of_sex = || patients().filter(|(_, other)| *other == sex);
        close(&found, of_sex().filter(|(age, _)| *age < 50).count() as f64, 0.5);
        close(&found[1..], of_sex().filter(|(age, _)| *age >= 50).count() as f64, 0.5);
    }
    let payments: Vec<u32> = (0..PARTICIPANTS).map(|index| job.server.state().site(index).payments).collect();
    assert_eq!(payments, [1; 3], "one release of each site");
    assert!(job.server.state().measurements.is_empty(), "no figure leaves beside the release");
    let files = job.server.state().files.clone();
    assert_eq!(files.into_iter().collect::<Vec<_>>(), [(NUMBERS_FILE.to_owned(), encode_numbers(&report).unwrap())]);
}

#[test]
fn crash_after_payment_resends_the_vector_unpaid() {
    let job = TestAnalysis::new();
    job.server.state().site(0).crash(CrashPoint::Stored, ROUND);
    job.server.state().site(2).crash(CrashPoint::Accepted, ROUND);
    job.run_all();
    let releases: Vec<usize> = (0..PARTICIPANTS).map(|index| job.server.state().site(index).releases.len()).collect();
    assert_eq!((releases, job.report().sites), (vec![1; 3], 3));
    assert_eq!(job.server.state().site(0).payments, 1);
}

#[test]
fn table_with_another_schema_is_refused_before_its_release() {
    let job = TestAnalysis::new();
    let mut changed = columns();
    changed[0] = serde_json::from_value(json!({ "name": "age", "kind": "integer", "least": 0, "most": 99 })).unwrap();
    write_table(&job.server.folder().join("data-1"), 1, changed);
    let end = job.run_process(1).unwrap_err().to_string();
    assert!(end.contains("`data-1`") && end.contains("`age`"), "{end}");
    assert!(!job.server.state().site(1).releases.contains_key(&(VECTOR.to_owned(), 1)));
}
