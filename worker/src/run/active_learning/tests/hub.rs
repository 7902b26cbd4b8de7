//! A server and annotators in memory, and two sites on disk: one leads, one asks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use undertone_api::dataset::Visibility;
use undertone_api::id::{DatasetId, QuestionId};
use undertone_api::job::active_learning::{Report, Spec};
use undertone_api::job::{Measurement, Report as AnyReport, Spec as AnySpec};
use undertone_api::question::Answer;
use undertone_api::signed::{Manifest, ManifestParticipant};
use uuid::Uuid;

use crate::config::queries::Queries;
use crate::dp::release::Outgoing;
use crate::fixture::{self, ORGANIZATION, OURS, WORKER, active_learning, local};
use crate::queries::gate::OutgoingPool;
use crate::queries::log::{ColumnMap, ReadOptions};
use crate::queries::prepare::{PrepareOptions, prepare};
use crate::queries::released::Released;
use crate::run::{AnswerLine, Average, Exchange, Past, Run, RunError};
use crate::site::clearance::{Clearance, PublicProof, ReleaseGrant};
use crate::speech::progress::SilentProgress;

pub(super) const LEAD: usize = 0;
pub(super) const ASKER: usize = 1;
/// Texts that pass the gate of the fixtures' job.
pub(super) const OFTEN: usize = 60;
/// Steps of a lead before it submits its files, for a job of two rounds.
pub(super) const BEFORE_FILES: u32 = 9;

/// The requested crashes.
#[derive(Default)]
struct Deaths {
    /// After this number of steps of the lead.
    after: Option<u32>,
    /// At the choice of a round, after the server received it.
    choice: Option<u32>,
    /// Between storing a pool and sending it.
    kept: bool,
}

#[derive(Default)]
struct State {
    stored: Option<Vec<u8>>,
    posed: Vec<Vec<u8>>,
    accepted: bool,
    paid: u32,
    chosen: BTreeMap<u32, Vec<(QuestionId, f64)>>,
    files: BTreeMap<String, Vec<u8>>,
    measured: Vec<Measurement>,
    report: Option<Report>,
    /// Whether each annotator gives the true label.
    people: Vec<bool>,
    nonsense: bool,
    closed: bool,
    steps: u32,
    deaths: Deaths,
}

pub(super) struct Hub {
    folder: tempfile::TempDir,
    manifest: RefCell<Manifest>,
    state: RefCell<State>,
}

/// Returns the true label of a text.
pub(super) fn truth(text: &str) -> &'static str {
    if text.contains("invoice") { "billing" } else { "card" }
}

/// Returns `count` texts of each of both labels.
fn texts(of: &str, count: usize) -> Vec<String> {
    let both =
        (0..count).flat_map(|n| [format!("{of} {n}: mail me the invoice"), format!("{of} {n}: my card is lost")]);
    both.collect()
}

fn write(folder: &Path, name: &str, csv: &str, labels: bool) {
    let path = folder.join(format!("{name}.csv"));
    std::fs::write(&path, csv).unwrap();
    let column = |name: &str| Some(name.to_owned());
    let mut columns = ColumnMap { count: column("count"), ..ColumnMap::text("text") };
    if labels {
        (columns.label, columns.subset) = (column("label"), column("subset"));
    }
    let mut options = PrepareOptions::new(vec![path], ReadOptions::new(columns), &folder.join(name), name, [7; _]);
    if labels {
        options.test = vec!["test".to_owned()];
    }
    prepare(&options, &SilentProgress).unwrap();
}

impl Hub {
    /// Makes the fixtures' job after `change`, with logs on disk.
    pub(super) fn new(change: impl FnOnce(&mut Spec)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let row = |subset: &'static str| move |text: String| format!("{text},1,{},{subset}\n", truth(&text));
        let public: String = texts("public", 30)
            .into_iter()
            .map(row("train"))
            .chain(texts("test", 10).into_iter().map(row("test")))
            .collect();
        write(folder.path(), "lead", &format!("text,count,label,subset\n{public}"), true);
        let often = texts("patient", OFTEN / 2).into_iter().map(|text| format!("{text},400\n"));
        let rare = texts("secret", 20).into_iter().map(|text| format!("{text},1\n"));
        write(folder.path(), "asker", &format!("text,count\n{}", often.chain(rare).collect::<String>()), false);
        for name in ["work-0", "work-1"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mut spec = active_learning();
        change(&mut spec);
        let spec = AnySpec::ActiveLearning(spec);
        let charge = spec.cost(&local(Visibility::Private).to_dataset(OURS, ORGANIZATION, WORKER));
        let manifest = RefCell::new(fixture::manifest(spec, charge));
        Self { folder, manifest, state: RefCell::new(State { people: vec![true], ..State::default() }) }
    }

    /// Runs one process of one participant.
    pub(super) fn live(&self, index: usize) -> Result<(), RunError> {
        let manifest = self.manifest.borrow().clone();
        let AnySpec::ActiveLearning(spec) = manifest.spec.clone() else { panic!("it is of this kind") };
        let work = self.folder.path().join(format!("work-{index}"));
        self.state.borrow_mut().steps = 0;
        spec.run(&mut Site { hub: self, manifest, index, work })
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Spec)) {
        let AnySpec::ActiveLearning(spec) = &mut self.manifest.borrow_mut().spec else { panic!("it is of this kind") };
        change(spec);
    }

    pub(super) fn die_after(&self, steps: u32) {
        self.state.borrow_mut().deaths.after = Some(steps);
    }

    pub(super) fn die_at_choice(&self, round: u32) {
        self.state.borrow_mut().deaths.choice = Some(round);
    }

    pub(super) fn die_after_keeping(&self) {
        self.state.borrow_mut().deaths.kept = true;
    }

    pub(super) fn people(&self, right: &[bool]) {
        self.state.borrow_mut().people = right.to_vec();
    }

    pub(super) fn only_nonsense(&self) {
        self.state.borrow_mut().nonsense = true;
    }

    pub(super) fn close_lead(&self) {
        self.state.borrow_mut().closed = true;
    }

    /// Damages the private log on disk.
    pub(super) fn break_log(&self) {
        let rows = self.folder.path().join("asker/rows");
        let part = std::fs::read_dir(rows).unwrap().next().unwrap().unwrap().path();
        std::fs::write(part, "not a log").unwrap();
    }

    pub(super) fn forget_rehearsal(&self) {
        std::fs::remove_file(self.folder.path().join("work-0/rehearsal.json")).unwrap();
    }

    /// Returns the names of the files in the work folders, except for the journal.
    pub(super) fn left_behind(&self) -> Vec<String> {
        let all = ["work-0", "work-1"].map(|name| std::fs::read_dir(self.folder.path().join(name)).unwrap());
        let names = all.into_iter().flatten().map(|item| item.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with("round-")).collect()
    }

    pub(super) fn steps(&self) -> u32 {
        self.state.borrow().steps
    }

    pub(super) fn chosen(&self) -> BTreeMap<u32, Vec<(QuestionId, f64)>> {
        self.state.borrow().chosen.clone()
    }

    pub(super) fn report(&self) -> Option<Report> {
        self.state.borrow().report.clone()
    }

    pub(super) fn file(&self, name: &str) -> Vec<u8> {
        self.state.borrow().files[name].clone()
    }

    pub(super) fn paid(&self) -> u32 {
        self.state.borrow().paid
    }

    pub(super) fn posed(&self) -> Vec<Vec<u8>> {
        self.state.borrow().posed.clone()
    }

    /// Adds a pool of another process at the server.
    pub(super) fn pose(&self, pool: Vec<u8>) {
        self.state.borrow_mut().posed.push(pool);
    }

    pub(super) fn kept(&self) -> Vec<u8> {
        self.state.borrow().stored.clone().unwrap()
    }

    pub(super) fn past(&self) -> Past {
        let state = self.state.borrow();
        match (&state.stored, state.accepted) {
            (_, true) => Past::Accepted,
            (Some(_), false) => Past::Stored,
            (None, false) => Past::Untouched,
        }
    }

    /// Returns the measured rounds, in order.
    pub(super) fn measured(&self) -> Vec<u32> {
        self.state.borrow().measured.iter().map(|measurement| measurement.round).collect()
    }

    /// Returns the annotators' answers to a question.
    fn said(&self, question: QuestionId, pool: &[Released]) -> Vec<AnswerLine> {
        let state = self.state.borrow();
        if state.nonsense {
            let other = QuestionId(Uuid::from_u128(1));
            let strange = Answer::Label { label: "strange".to_owned() };
            let said = [
                (question, 1, Answer::Unsure),
                (question, 2, Answer::Skip),
                (question, 3, strange),
                (other, 4, Answer::Unsure),
            ];
            return said.map(|(question, annotator, answer)| AnswerLine { question, annotator, answer }).to_vec();
        }
        let text = pool.iter().find(|released| released.id() == question).unwrap().text();
        let (right, wrong) = if truth(text) == "billing" { ("billing", "card") } else { ("card", "billing") };
        let answers = state.people.iter().zip(1..).map(|(honest, annotator)| {
            let label = if *honest { right } else { wrong }.to_owned();
            AnswerLine { question, annotator, answer: Answer::Label { label } }
        });
        answers.collect()
    }
}

/// One process of a site.
struct Site<'a> {
    hub: &'a Hub,
    manifest: Manifest,
    index: usize,
    work: PathBuf,
}

impl Site<'_> {
    /// Counts a step at the server; crashes afterwards, if that was requested.
    fn step(&self) -> Result<(), RunError> {
        let mut state = self.hub.state.borrow_mut();
        state.steps += 1;
        let due = self.index == LEAD && state.deaths.after == Some(state.steps);
        if due {
            state.deaths.after = None;
            return Err(crash());
        }
        Ok(())
    }

    fn pool(&self) -> Vec<Released> {
        let posed = self.hub.posed();
        posed.first().map_or_else(Vec::new, |bytes| Released::pool(self.manifest.job, OURS, bytes).unwrap())
    }

    fn deliver(&self) {
        let mut state = self.hub.state.borrow_mut();
        let bytes = state.stored.clone().unwrap();
        state.posed.push(bytes);
        state.accepted = true;
    }
}

fn crash() -> RunError {
    RunError::Stopped("crash".to_owned())
}

impl Exchange for Site<'_> {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn own(&self) -> &ManifestParticipant {
        &self.manifest.participants[self.index]
    }

    fn folder(&self) -> &Path {
        &self.work
    }

    fn dataset(&self, id: DatasetId) -> Result<PathBuf, RunError> {
        Ok(self.hub.folder.path().join(if id == OURS { "asker" } else { "lead" }))
    }

    fn past(&self, _series: &str, _round: u32) -> Result<Past, RunError> {
        Ok(self.hub.past())
    }

    fn clear(&mut self, _series: &str, _round: u32) -> Result<Clearance, RunError> {
        Ok(Clearance::Granted(ReleaseGrant::in_test(self.own().charge.as_ref().unwrap().event.clone())))
    }

    fn send(&mut self, _series: &str, _round: u32, _vector: Outgoing) -> Result<(), RunError> {
        unreachable!("no vector is sent")
    }

    fn resend(&mut self, _series: &str, _round: u32) -> Result<(), RunError> {
        unreachable!("no vector is sent")
    }

    fn average(&mut self, _series: &str, _round: u32) -> Result<Average, RunError> {
        unreachable!("nothing is averaged")
    }

    fn put(&mut self, name: &str, content: Vec<u8>) -> Result<(), RunError> {
        self.hub.state.borrow_mut().files.insert(name.to_owned(), content);
        self.step()
    }

    fn get(&mut self, _name: &str) -> Result<Vec<u8>, RunError> {
        unreachable!("no file is fetched")
    }

    fn measure(&mut self, measurement: Measurement) -> Result<(), RunError> {
        {
            let measured = &mut self.hub.state.borrow_mut().measured;
            let same = |known: &&Measurement| (known.round, &known.test) == (measurement.round, &measurement.test);
            match measured.iter().find(same) {
                Some(known) => assert_eq!(*known, measurement, "a figure never changes"),
                None => measured.push(measurement),
            }
        }
        self.step()
    }

    fn report(&mut self, report: AnyReport) -> Result<(), RunError> {
        let AnyReport::ActiveLearning(report) = report else { panic!("it is of this kind") };
        self.hub.state.borrow_mut().report = Some(report);
        self.step()
    }

    fn counting(&self) -> Queries {
        Queries { memory_mib: 64, ..Queries::default() }
    }

    fn published(&self, id: DatasetId) -> Result<PublicProof, RunError> {
        if id == OURS || self.hub.state.borrow().closed {
            return Err(RunError::Refused("it is not public".to_owned()));
        }
        Ok(PublicProof::in_test())
    }

    fn ask(&mut self, _series: &str, _round: u32, pool: OutgoingPool) -> Result<(), RunError> {
        {
            let mut state = self.hub.state.borrow_mut();
            state.stored = Some(pool.bytes().to_vec());
            state.paid += 1;
            if std::mem::take(&mut state.deaths.kept) {
                return Err(crash());
            }
        }
        self.deliver();
        Ok(())
    }

    fn ask_again(&mut self, _series: &str, _round: u32) -> Result<(), RunError> {
        self.deliver();
        Ok(())
    }

    fn asked(&mut self) -> Result<Vec<Released>, RunError> {
        self.step()?;
        Ok(self.pool())
    }

    fn choose(&mut self, round: u32, chosen: &[(QuestionId, f64)]) -> Result<(), RunError> {
        {
            let mut state = self.hub.state.borrow_mut();
            let known = state.chosen.entry(round).or_insert_with(|| chosen.to_vec());
            assert_eq!(known, chosen, "another choice is refused");
            if state.deaths.choice == Some(round) {
                state.deaths.choice = None;
                return Err(crash());
            }
        }
        self.step()
    }

    fn answers(&mut self, round: u32) -> Result<Vec<AnswerLine>, RunError> {
        self.step()?;
        let (chosen, pool) = (self.hub.chosen(), self.pool());
        Ok(chosen[&round].iter().flat_map(|(question, _)| self.hub.said(*question, &pool)).collect())
    }

    fn stopped(&self) -> bool {
        false
    }
}
