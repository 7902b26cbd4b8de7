//! A job of two sites on disk, of which one leads and one asks, with annotators in memory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use undertone_api::dataset::Visibility;
use undertone_api::id::{DatasetId, QuestionId};
use undertone_api::job::active_learning::{POOL, PRIVATE_TEST, PrivateTest, PrivateTraining, Report, Spec, TRAINING};
use undertone_api::job::{Measurement, Report as AnyReport, Spec as AnySpec};
use undertone_api::question::Answer;
use undertone_api::signed::Manifest;
use undertone_privacy::SamplingRate;
use uuid::Uuid;

use crate::dp::randomness::Purpose;
use crate::fixture::{self, LEAD as LEAD_DATASET, ORGANIZATION, OURS, WORKER, active_learning, local};
use crate::queries::log::{ColumnMap, ReadOptions};
use crate::queries::prepare::{PrepareOptions, prepare};
use crate::queries::released::Released;
use crate::run::active_learning::run;
use crate::run::fake::{AnswerFn, CHOICES, CrashPoint, FakeRelease, FakeServer, is_crash};
use crate::run::{AnswerLine, RoundKey, RoundProgress, RunError};
use crate::speech::progress::SilentProgress;

pub(super) const LEAD: usize = 0;
pub(super) const ASKER: usize = 1;
/// The participant with the private test set, where there is one.
pub(super) const TESTER: usize = 2;
/// The number of texts that pass the gate of the fixtures' job.
pub(super) const FREQUENT_TEXTS: usize = 60;
/// Calls of a lead to the server before it submits its files, for a job of two rounds.
pub(super) const CALLS_BEFORE_FILES: u32 = 9;

const POOL_KEY: RoundKey<'static> = RoundKey::new(POOL, 1);
/// The public test set of a job with a private lead, or the private test set of another.
const EXAM: DatasetId = DatasetId(Uuid::from_u128(77));
/// Noisy steps of each training of a private lead.
pub(super) const STEPS: u32 = 40;

/// A job of a lead and of an asking participant.
pub(super) struct TestAnnotation {
    manifest: Manifest,
    server: FakeServer,
}

/// Returns the true label of a text.
pub(super) fn true_label(text: &str) -> &'static str {
    if text.contains("invoice") { "billing" } else { "card" }
}

/// Returns `count` texts of each of both labels.
fn texts(prefix: &str, count: usize) -> Vec<String> {
    let pair = |n: usize| [format!("{prefix} {n}: mail me the invoice"), format!("{prefix} {n}: my card is lost")];
    (0..count).flat_map(pair).collect()
}

fn write_log(folder: &Path, name: &str, csv: &str, has_labels: bool) {
    let path = folder.join(format!("{name}.csv"));
    std::fs::write(&path, csv).unwrap();
    let column = |name: &str| Some(name.to_owned());
    let mut columns = ColumnMap { count: column("count"), ..ColumnMap::text("text") };
    if has_labels {
        columns.label = column("label");
        columns.subset = column("subset");
    }
    let mut options = PrepareOptions::new(vec![path], ReadOptions::new(columns), &folder.join(name), name, [7; _]);
    if has_labels {
        options.test = vec!["test".to_owned()];
    }
    prepare(&options, &SilentProgress).unwrap();
}

/// Returns the lead's log: 60 labelled rows to learn from, and 20 that are held out.
fn labelled_log() -> String {
    let row = |subset: &'static str| move |text: String| format!("{text},1,{},{subset}\n", true_label(&text));
    let train = texts("public", 30).into_iter().map(row("train"));
    let rows: String = train.chain(texts("test", 10).into_iter().map(row("test"))).collect();
    format!("text,count,label,subset\n{rows}")
}

/// Returns annotators of whom those with `true` give the true label and the others the wrong one.
fn annotators(honesty: &[bool]) -> Arc<AnswerFn> {
    let honesty = honesty.to_vec();
    Arc::new(move |question: QuestionId, pool: &[Released]| {
        let text = pool.iter().find(|released| released.id() == question).unwrap().text();
        let (right, wrong) = if true_label(text) == "billing" { ("billing", "card") } else { ("card", "billing") };
        let answers = honesty.iter().zip(1..).map(|(is_honest, annotator)| {
            let label = if *is_honest { right } else { wrong }.to_owned();
            AnswerLine { question, annotator, answer: Answer::Label { label } }
        });
        answers.collect()
    })
}

/// Returns annotators that give no usable label.
fn useless_annotators() -> Arc<AnswerFn> {
    Arc::new(|question: QuestionId, _: &[Released]| {
        let other = QuestionId(Uuid::from_u128(1));
        let strange = Answer::Label { label: "strange".to_owned() };
        let answers = [
            (question, 1, Answer::Unsure),
            (question, 2, Answer::Skip),
            (question, 3, strange),
            (other, 4, Answer::Unsure),
        ];
        answers.map(|(question, annotator, answer)| AnswerLine { question, annotator, answer }).to_vec()
    })
}

impl TestAnnotation {
    /// Makes the fixtures' job after `change`, with logs on disk.
    pub(super) fn new(change: impl FnOnce(&mut Spec)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_log(folder.path(), "lead", &labelled_log(), true);
        let frequent = texts("patient", FREQUENT_TEXTS / 2).into_iter().map(|text| format!("{text},400\n"));
        let rare = texts("secret", 20).into_iter().map(|text| format!("{text},1\n"));
        let rows = frequent.chain(rare).collect::<String>();
        write_log(folder.path(), "asker", &format!("text,count\n{rows}"), false);
        let mut spec = active_learning();
        change(&mut spec);
        let spec = AnySpec::ActiveLearning(spec);
        let charge = spec.cost(&local(Visibility::Private).to_dataset(OURS, ORGANIZATION, WORKER));
        let manifest = fixture::manifest(spec, charge);
        let datasets = HashMap::from([(LEAD_DATASET, folder.path().join("lead")), (OURS, folder.path().join("asker"))]);
        let server = FakeServer::new(folder, datasets);
        server.state().public.insert(LEAD_DATASET);
        server.state().answers = Some(annotators(&[true]));
        Self { manifest, server }
    }

    /// Makes the fixtures' job after `change`, with a private lead that is measured on a public test set.
    pub(super) fn with_private_lead(change: impl FnOnce(&mut Spec)) -> Self {
        let mut job = Self::new(|spec| {
            spec.tests[0].dataset = EXAM;
            spec.private_lead = Some(PrivateTraining {
                sampling_rate: SamplingRate::new(0.5).unwrap(),
                noise_multiplier: fixture::z(0.1),
                clip: 1.0,
                steps: STEPS,
                learning_rate: 0.1,
            });
            change(spec);
        });
        write_log(job.server.folder(), "exam", &labelled_log(), true);
        let exam = job.server.folder().join("exam");
        {
            let mut state = job.server.state();
            state.datasets.insert(EXAM, exam);
            state.public = HashSet::from([EXAM]);
        }
        let lead = local(Visibility::Private).to_dataset(LEAD_DATASET, ORGANIZATION, WORKER);
        job.manifest.participants[LEAD].charge = job.manifest.spec.cost(&lead);
        job.manifest.participants[LEAD].units = 50;
        job
    }

    /// Makes the fixtures' job after `change`, with a private test set that measures `measurements` classifiers.
    pub(super) fn with_private_test(measurements: u32, change: impl FnOnce(&mut Spec)) -> Self {
        let mut job = Self::new(|spec| {
            spec.private_test = Some(PrivateTest { dataset: EXAM, noise_multiplier: fixture::z(0.1), measurements });
            change(spec);
        });
        write_log(job.server.folder(), "exam", &labelled_log(), true);
        let exam = job.server.folder().join("exam");
        job.server.state().datasets.insert(EXAM, exam);
        let dataset = local(Visibility::Private).to_dataset(EXAM, ORGANIZATION, WORKER);
        let mut tester = job.manifest.participants[ASKER].clone();
        (tester.dataset, tester.charge) = (EXAM, job.manifest.spec.cost(&dataset));
        job.manifest.participants.push(tester);
        job
    }

    /// Runs the asking participant, then the lead and the private test set beside each other. A crashed process of the
    /// test set is followed by another. Returns the end of the test set's part; if it failed, the job is cancelled.
    pub(super) fn run_measured(&self) -> Result<(), RunError> {
        self.run_process(ASKER).unwrap();
        std::thread::scope(|scope| {
            let lead = scope.spawn(|| {
                let end = self.run_process(LEAD);
                if end.is_err() {
                    self.server.cancel();
                }
                end
            });
            let tester = loop {
                match self.run_process(TESTER) {
                    Err(error) if is_crash(&error) => {}
                    end => break end,
                }
            };
            if tester.is_err() {
                self.server.cancel();
            }
            assert_eq!(lead.join().unwrap().is_ok(), tester.is_ok());
            tester
        })
    }

    /// Puts a file of the job at the server, as another lead would.
    pub(super) fn put_file(&self, name: &str, content: Vec<u8>) {
        self.server.state().files.insert(name.to_owned(), content);
    }

    /// Makes a participant's randomness repeatable.
    pub(super) fn seed(&self, index: usize) {
        self.server.state().site(index).seed = Some(9);
    }

    /// Crashes the private test set at a point of a measurement.
    pub(super) fn crash_at_measurement(&self, point: CrashPoint, number: u32) {
        self.server.state().site(TESTER).crash(point, RoundKey::new(PRIVATE_TEST, number));
    }

    /// Returns the released vectors of the private test set, by measurement.
    pub(super) fn measurements(&self) -> BTreeMap<u32, Vec<f32>> {
        let state = self.server.state();
        let vectors = state.vectors.iter().filter(|((series, _), _)| series == PRIVATE_TEST);
        vectors.map(|((_, number), vectors)| (*number, vectors[&TESTER].clone())).collect()
    }

    /// Returns the number of payments for the private test set.
    pub(super) fn tester_payments(&self) -> u32 {
        self.server.state().site(TESTER).payments
    }

    /// Makes a participant's site refuse every release.
    pub(super) fn refuse_releases_of(&self, index: usize) {
        self.server.state().site(index).refuses = true;
    }

    /// Makes the lead's randomness repeatable.
    pub(super) fn seed_lead(&self) {
        self.seed(LEAD);
    }

    /// Crashes the lead at a point of a training.
    pub(super) fn crash_at_training(&self, point: CrashPoint, round: u32) {
        self.server.state().site(LEAD).crash(point, RoundKey::new(TRAINING, round));
    }

    /// Makes the lead's site refuse every release.
    pub(super) fn refuse_releases(&self) {
        self.refuse_releases_of(LEAD);
    }

    /// Returns the number of the lead's payments.
    pub(super) fn lead_payments(&self) -> u32 {
        self.server.state().site(LEAD).payments
    }

    /// Returns how often the lead drew batches, and how often noise.
    pub(super) fn lead_draws(&self) -> [u32; 2] {
        let mut state = self.server.state();
        [Purpose::Sampling, Purpose::Noise]
            .map(|purpose| state.site(LEAD).draws.get(&(purpose as u32)).copied().unwrap_or(0))
    }

    /// Returns the released vectors of the lead's trainings, by round.
    pub(super) fn trainings(&self) -> BTreeMap<u32, Vec<f32>> {
        let state = self.server.state();
        let trainings = state.vectors.iter().filter(|((series, _), _)| series == TRAINING);
        trainings.map(|((_, round), vectors)| (*round, vectors[&LEAD].clone())).collect()
    }

    /// Returns the names of the files at the server.
    pub(super) fn file_names(&self) -> Vec<String> {
        self.server.state().files.keys().cloned().collect()
    }

    /// Runs one process of one participant.
    pub(super) fn run_process(&self, index: usize) -> Result<(), RunError> {
        let AnySpec::ActiveLearning(spec) = &self.manifest.spec else { panic!("it is of another kind") };
        run(spec, &mut self.server.start(index, self.manifest.clone()))
    }

    pub(super) fn change_spec(&mut self, change: impl FnOnce(&mut Spec)) {
        let AnySpec::ActiveLearning(spec) = &mut self.manifest.spec else { panic!("it is of another kind") };
        change(spec);
    }

    /// Crashes the lead after this number of calls to the server.
    pub(super) fn crash_after_calls(&self, calls: u32) {
        self.server.state().site(LEAD).crash_after_calls = Some(calls);
    }

    /// Crashes the lead when the server has received the choice of a round.
    pub(super) fn crash_at_choice(&self, round: u32) {
        self.server.state().site(LEAD).crash(CrashPoint::Accepted, RoundKey::new(CHOICES, round));
    }

    /// Crashes the asking participant between storing its pool and sending it.
    pub(super) fn crash_before_sending(&self) {
        self.server.state().site(ASKER).crash(CrashPoint::Stored, POOL_KEY);
    }

    pub(super) fn set_annotators(&self, honesty: &[bool]) {
        self.server.state().answers = Some(annotators(honesty));
    }

    pub(super) fn set_useless_annotators(&self) {
        self.server.state().answers = Some(useless_annotators());
    }

    /// Makes the lead's log private.
    pub(super) fn close_lead_log(&self) {
        self.server.state().public.clear();
    }

    /// Damages the private log on disk.
    pub(super) fn damage_log(&self) {
        let rows = self.server.folder().join("asker/rows");
        let part = std::fs::read_dir(rows).unwrap().next().unwrap().unwrap().path();
        std::fs::write(part, "not a log").unwrap();
    }

    pub(super) fn remove_rehearsal(&self) {
        std::fs::remove_file(self.server.work_folder(LEAD).join("rehearsal.json")).unwrap();
    }

    /// Returns the names of the files in the work folders, except for the journal.
    pub(super) fn work_files(&self) -> Vec<String> {
        let folders = [LEAD, ASKER].map(|index| self.server.work_folder(index));
        let items = folders.into_iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
        let names = items.map(|item| item.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with("round-")).collect()
    }

    /// Returns the number of calls of the lead's last process.
    pub(super) fn calls(&self) -> u32 {
        self.server.state().site(LEAD).calls
    }

    pub(super) fn choices(&self) -> BTreeMap<u32, Vec<(QuestionId, f64)>> {
        self.server.state().choices.clone()
    }

    pub(super) fn report(&self) -> Option<Report> {
        match self.server.state().report.clone()? {
            AnyReport::ActiveLearning(report) => Some(report),
            _ => panic!("it is of another kind"),
        }
    }

    pub(super) fn file(&self, name: &str) -> Vec<u8> {
        self.server.state().files[name].clone()
    }

    pub(super) fn payments(&self) -> u32 {
        self.server.state().site(ASKER).payments
    }

    /// Returns the pools at the server, in order of arrival.
    pub(super) fn pools(&self) -> Vec<Vec<u8>> {
        self.server.state().pools.iter().map(|(_, bytes)| bytes.clone()).collect()
    }

    /// Adds a pool of another process at the server.
    pub(super) fn add_pool(&self, pool: Vec<u8>) {
        self.server.state().pools.push((OURS, pool));
    }

    /// Returns the pool on the asking participant's disk.
    pub(super) fn stored_pool(&self) -> Vec<u8> {
        let state = &mut self.server.state();
        let release = &state.site(ASKER).releases[&(POOL.to_owned(), 1)];
        let FakeRelease::Pool(bytes) = release else { panic!("it is no pool") };
        bytes.clone()
    }

    pub(super) fn progress(&self) -> RoundProgress {
        self.server.state().site(ASKER).progress(POOL_KEY)
    }

    /// Returns the rounds after which the lead measured, in order; a repetition must report the same figures.
    pub(super) fn measurement_rounds(&self) -> Vec<u32> {
        let state = self.server.state();
        let mut figures: Vec<&Measurement> = Vec::new();
        for figure in &state.measurements {
            let is_same = |other: &&Measurement| (other.round, &other.test) == (figure.round, &figure.test);
            match figures.iter().copied().find(is_same) {
                Some(other) => assert_eq!(other, figure, "a figure never changes"),
                None => figures.push(figure),
            }
        }
        figures.iter().map(|figure| figure.round).collect()
    }
}
