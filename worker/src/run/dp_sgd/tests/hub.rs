//! A server in memory, and three sites on disk that can be killed at every doubtful moment.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use time::OffsetDateTime;
use undertone_api::dataset::{Dataset, SizeClass, Visibility};
use undertone_api::id::{ConsortiumId, DatasetId, JobId, LineageId, OrganizationId, WorkerId};
use undertone_api::job::audit::{Audited, Finding};
use undertone_api::job::dp_sgd::{
    Model as ModelSpec, Noise, Optimizer, Party, Rounds, Spec, TestSet, WarmStart, Weights,
};
use undertone_api::job::{Charge, Measurement, Purpose, Report, Spec as AnySpec};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_privacy::{Adjacency, Event, NoiseMultiplier, PrivacyUnit, SamplingRate};
use uuid::Uuid;

use crate::dp::release::Outgoing;
use crate::dp::sabotage::{self, Sabotage};
use crate::run::dp_sgd::checkpoint::Checkpoint;
use crate::run::{Average, Exchange, Past, Run, RunError};
use crate::site::clearance::{Clearance, Published, Spent};
use crate::speech::dataset::{Description, Split, Writer};
use crate::speech::model::Model;

const PARTICIPANTS: usize = 3;
const UTTERANCES: u64 = 24;

/// After what a site dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    Paid,
    Stored,
    Accepted,
}

#[derive(Default)]
struct State {
    /// Submissions by series and round, by participant.
    rounds: HashMap<(String, u32), BTreeMap<usize, Vec<f32>>>,
    artifacts: HashMap<String, Vec<u8>>,
    measurements: Vec<Measurement>,
    report: Option<Report>,
    cancelled: bool,
    /// A participant that misses the first rounds of `private`.
    absent: Option<(usize, u32)>,
    sites: [Disk; PARTICIPANTS],
}

/// What a site keeps across its lives.
#[derive(Default)]
struct Disk {
    stored: HashMap<(String, u32), Vec<f32>>,
    paid: u32,
    lives: u32,
    crashes: Vec<(Crash, String, u32)>,
    refuses: bool,
    stop_after: Option<u32>,
    sabotage: Option<Sabotage>,
    findings: Vec<Finding>,
}

pub(super) struct Hub {
    manifest: Manifest,
    folder: tempfile::TempDir,
    state: Mutex<State>,
    changed: Condvar,
}

fn dataset(index: usize) -> DatasetId {
    DatasetId(Uuid::from_u128(index as u128 + 1))
}

impl Hub {
    /// A job of three, with real datasets on disk, after `change` of its spec.
    pub(super) fn new(change: impl FnOnce(&mut Spec)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for index in 0..PARTICIPANTS {
            write_dataset(&folder.path().join(format!("data-{index}")), index as u64);
            std::fs::create_dir(folder.path().join(format!("work-{index}"))).unwrap();
        }
        let mut spec = spec();
        change(&mut spec);
        let manifest = manifest(spec);
        Self { manifest, folder, state: Mutex::default(), changed: Condvar::new() }
    }

    fn spec(&self) -> &Spec {
        let AnySpec::DpSgd(spec) = &self.manifest.spec;
        spec
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// One life of one participant.
    pub(super) fn live(&self, index: usize) -> Result<(), RunError> {
        let broken = {
            let site = &mut self.state().sites[index];
            site.lives += 1;
            site.sabotage
        };
        sabotage::on_this_thread(broken);
        let end = self.spec().run(&mut Site { hub: self, index, work: self.work(index) });
        sabotage::on_this_thread(None);
        self.changed.notify_all();
        end
    }

    /// All participants at once, each reborn until it is done.
    pub(super) fn run_all(&self) {
        std::thread::scope(|scope| {
            for index in 0..self.spec().participants.len() {
                scope.spawn(move || {
                    while let Err(end) = self.live(index) {
                        assert!(matches!(&end, RunError::Stopped(reason) if reason == "crash"), "{index}: {end}");
                    }
                });
            }
        });
    }

    pub(super) fn crash(&self, index: usize, when: Crash, series: &str, round: u32) {
        self.state().sites[index].crashes.push((when, series.to_owned(), round));
    }

    pub(super) fn refuse(&self, index: usize) {
        self.state().sites[index].refuses = true;
    }

    pub(super) fn stop_after(&self, index: usize, calls: u32) {
        self.state().sites[index].stop_after = Some(calls);
    }

    pub(super) fn close_without(&self, index: usize, rounds: u32) {
        self.state().absent = Some((index, rounds));
    }

    /// Breaks a site behind the accountant's back.
    pub(super) fn sabotage(&self, index: usize, sabotage: Sabotage) {
        self.state().sites[index].sabotage = Some(sabotage);
    }

    /// What a site's audits found, in the order they were handed in.
    pub(super) fn findings(&self, index: usize) -> Vec<Finding> {
        self.state().sites[index].findings.clone()
    }

    /// The audit that the manifest promises of a site.
    pub(super) fn audited(&self, index: usize) -> Option<Audited> {
        let party = &self.manifest.participants[index];
        self.manifest.spec.audited(&Dataset {
            id: party.dataset,
            lineage: party.lineage,
            organization: party.organization,
            organization_name: party.organization_name.clone(),
            worker: party.worker,
            name: party.dataset_name.clone(),
            visibility: if index == 0 { Visibility::Public } else { Visibility::Private },
            inputs: 3,
            classes: 4,
            records: SizeClass(20),
            speakers: SizeClass(5),
            test_records: 0,
            accounts: Vec::new(),
            created_at: OffsetDateTime::UNIX_EPOCH,
        })
    }

    /// A file in a site's work folder.
    pub(super) fn kept(&self, index: usize, name: &str) -> std::io::Result<Vec<u8>> {
        std::fs::read(self.work(index).join(name))
    }

    /// Loses a file of a site's work folder.
    pub(super) fn forget(&self, index: usize, name: &str) {
        std::fs::remove_file(self.work(index).join(name)).unwrap();
    }

    pub(super) fn cancel(&self) {
        self.state().cancelled = true;
        self.changed.notify_all();
    }

    pub(super) fn report(&self) -> Option<Report> {
        self.state().report.clone()
    }

    pub(super) fn paid(&self, index: usize) -> u32 {
        self.state().sites[index].paid
    }

    pub(super) fn lives(&self, index: usize) -> u32 {
        self.state().sites[index].lives
    }

    pub(super) fn sent(&self, index: usize) -> usize {
        self.state().rounds.values().filter(|round| round.contains_key(&index)).count()
    }

    pub(super) fn measured(&self, series: &str) -> Vec<u32> {
        self.state().measurements.iter().filter(|m| m.series == series).map(|m| m.round).collect()
    }

    pub(super) fn file(&self, name: &str) -> Vec<u8> {
        self.state().artifacts[name].clone()
    }

    pub(super) fn model(&self, name: &str) -> Model {
        Model::from_safetensors(&self.file(name)).unwrap()
    }

    /// Parameters with which a participant ended a series.
    pub(super) fn parameters(&self, index: usize, series: &str) -> Vec<f32> {
        let rounds = if series == "open" { self.spec().open } else { self.spec().private }.unwrap();
        let checkpoint =
            Checkpoint::load(&self.work(index), series, &self.model("warm_start.safetensors"), rounds.optimizer)
                .unwrap();
        assert_eq!(checkpoint.round, rounds.rounds);
        checkpoint.parameters
    }

    fn work(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("work-{index}"))
    }

    /// How many must submit before a round closes.
    fn expected(state: &State, series: &str, round: u32) -> usize {
        let absent = state.absent.is_some_and(|(_, rounds)| series == "private" && round <= rounds);
        PARTICIPANTS - usize::from(absent)
    }
}

/// One life of a site.
struct Site<'a> {
    hub: &'a Hub,
    index: usize,
    work: PathBuf,
}

impl Site<'_> {
    fn die(&self, when: Crash, series: &str, round: u32) -> Result<(), RunError> {
        let crashes = &mut self.hub.state().sites[self.index].crashes;
        let due = crashes.iter().position(|crash| *crash == (when, series.to_owned(), round));
        due.map_or(Ok(()), |due| {
            crashes.remove(due);
            Err(RunError::Stopped("crash".to_owned()))
        })
    }

    fn wait<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> Result<T, RunError> {
        let mut state = self.hub.state();
        loop {
            if state.cancelled {
                return Err(RunError::Stopped("cancelled".to_owned()));
            }
            if let Some(found) = ready(&mut state) {
                return Ok(found);
            }
            state = self.hub.changed.wait(state).unwrap();
        }
    }

    fn accept(&self, series: &str, round: u32) -> Result<(), RunError> {
        let mut state = self.hub.state();
        let place = (series.to_owned(), round);
        let vector = state.sites[self.index].stored[&place].clone();
        let before = state.rounds.entry(place).or_default().insert(self.index, vector);
        assert!(before.is_none(), "nothing is submitted twice");
        drop(state);
        self.hub.changed.notify_all();
        self.die(Crash::Accepted, series, round)
    }
}

impl Exchange for Site<'_> {
    fn manifest(&self) -> &Manifest {
        &self.hub.manifest
    }

    fn own(&self) -> &ManifestParticipant {
        &self.hub.manifest.participants[self.index]
    }

    fn folder(&self) -> &Path {
        &self.work
    }

    fn dataset(&self, id: DatasetId) -> Result<PathBuf, RunError> {
        let index = (0..PARTICIPANTS).find(|index| dataset(*index) == id).unwrap();
        Ok(self.hub.folder.path().join(format!("data-{index}")))
    }

    fn past(&self, series: &str, round: u32) -> Result<Past, RunError> {
        let state = self.hub.state();
        let place = (series.to_owned(), round);
        let accepted = state.rounds.get(&place).is_some_and(|round| round.contains_key(&self.index));
        let stored = state.sites[self.index].stored.contains_key(&place);
        Ok(if accepted {
            Past::Accepted
        } else if stored {
            Past::Stored
        } else {
            Past::Untouched
        })
    }

    fn closed(&mut self, series: &str, round: u32) -> Result<bool, RunError> {
        let state = self.hub.state();
        Ok(state.absent.is_some_and(|(index, rounds)| index == self.index && series == "private" && round <= rounds))
    }

    fn clear(&mut self, series: &str, round: u32) -> Result<Clearance, RunError> {
        if self.index == 0 {
            return Ok(Clearance::Public(Published::in_test()));
        }
        {
            let site = &mut self.hub.state().sites[self.index];
            if site.refuses {
                return Err(RunError::Refused("not with our data".to_owned()));
            }
            site.paid += 1;
        }
        self.die(Crash::Paid, series, round)?;
        let party = self.hub.spec().participants[self.index];
        let event = match (series, party.noise) {
            ("private", Some(noise)) => Event::PoissonSampledGaussian {
                sampling_rate: party.sampling_rate,
                noise_multiplier: noise.noise_multiplier,
            },
            _ => Event::NonPrivate,
        };
        Ok(Clearance::Paid(Spent::in_test(event)))
    }

    fn send(&mut self, series: &str, round: u32, vector: Outgoing) -> Result<(), RunError> {
        let (vector, receipt) = vector.into_parts();
        assert_eq!(receipt.is_some(), self.index != 0);
        self.hub.state().sites[self.index].stored.insert((series.to_owned(), round), vector);
        self.die(Crash::Stored, series, round)?;
        self.accept(series, round)
    }

    fn resend(&mut self, series: &str, round: u32) -> Result<(), RunError> {
        self.accept(series, round)
    }

    fn average(&mut self, series: &str, round: u32) -> Result<Average, RunError> {
        let place = (series.to_owned(), round);
        self.wait(|state| {
            let submitted = state.rounds.get(&place)?;
            let count = submitted.len();
            (count >= Hub::expected(state, series, round)).then(|| {
                let length = submitted.values().next().map_or(0, Vec::len);
                let mean = (0..length).map(|n| submitted.values().map(|v| f64::from(v[n])).sum::<f64>() / count as f64);
                Average { mean: mean.map(|value| value as f32).collect(), contributors: count as u32 }
            })
        })
    }

    fn put(&mut self, name: &str, content: Vec<u8>) -> Result<(), RunError> {
        assert_eq!(self.index, 0, "only the lead puts");
        self.hub.state().artifacts.insert(name.to_owned(), content);
        self.hub.changed.notify_all();
        Ok(())
    }

    fn get(&mut self, name: &str) -> Result<Vec<u8>, RunError> {
        self.wait(|state| state.artifacts.get(name).cloned())
    }

    fn measure(&mut self, measurement: Measurement) -> Result<(), RunError> {
        assert_eq!(self.index, 0, "only the lead measures");
        self.hub.state().measurements.push(measurement);
        Ok(())
    }

    fn report(&mut self, report: Report) -> Result<(), RunError> {
        assert_eq!(self.index, 0, "only the lead reports");
        self.hub.state().report = Some(report);
        Ok(())
    }

    fn audited(&self) -> Option<Audited> {
        self.hub.audited(self.index)
    }

    fn audit(&mut self, finding: Finding) -> Result<(), RunError> {
        self.hub.state().sites[self.index].findings.push(finding);
        Ok(())
    }

    fn stopped(&self) -> bool {
        let mut state = self.hub.state();
        let left = &mut state.sites[self.index].stop_after;
        let stop = *left == Some(0);
        *left = if stop { None } else { left.map(|left| left - 1) };
        stop || state.cancelled
    }
}

fn spec() -> Spec {
    let rounds = Rounds {
        rounds: 40,
        optimizer: Optimizer::Adam { learning_rate: 0.02 },
        evaluate_every: 10,
        deadline_seconds: 60,
        quorum: 3,
    };
    let noise = Noise { noise_multiplier: NoiseMultiplier::new(0.5).unwrap(), clip: 0.5 };
    let party = |index: usize, noise: Option<Noise>| Party {
        dataset: dataset(index),
        sampling_rate: SamplingRate::new(0.6).unwrap(),
        noise,
    };
    Spec {
        unit: PrivacyUnit::Record,
        model: ModelSpec { hidden: 10, classes: Some(4) },
        participants: vec![party(0, None), party(1, Some(noise)), party(2, Some(noise))],
        tests: vec![TestSet { name: "held out".to_owned(), dataset: dataset(0) }],
        warm_start: WarmStart { epochs: 2, batch: 5, learning_rate: 0.01, seed: 5 },
        open: Some(rounds),
        private: Some(rounds),
        audit: None,
        weights: Weights::Equal,
        spare_releases: 4,
        checkpoint_every: 6,
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
        purpose: Purpose::Participate,
        units: if spec.unit == PrivacyUnit::Speaker { 5 } else { 20 },
        charge: (index > 0).then_some(Charge {
            unit: spec.unit,
            adjacency: Adjacency::AddRemove,
            event: Event::NonPrivate,
            releases: 100,
        }),
    };
    Manifest {
        job: JobId(Uuid::from_u128(1000)),
        consortium: ConsortiumId(Uuid::from_u128(1001)),
        title: "four sounds".to_owned(),
        proposed_by: "site 0".to_owned(),
        participants: (0..spec.participants.len()).map(participant).collect(),
        spec: AnySpec::DpSgd(spec),
        model: None,
        limits: None,
        issued_at: OffsetDateTime::UNIX_EPOCH,
    }
}

/// Utterances of four sounds, each held for a few frames, in noise; four speakers; every sixth utterance held out.
fn write_dataset(target: &Path, seed: u64) {
    let description = Description {
        name: target.file_name().unwrap().to_string_lossy().into_owned(),
        inputs: 3,
        classes: 4,
        sample_rate: 16_000,
        features: "three numbers".to_owned(),
        labels: "four sounds".to_owned(),
        created: "2026-01-01T00:00:00Z".to_owned(),
    };
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut writer = Writer::create(target, description).unwrap();
    for utterance in 0..UTTERANCES {
        let (mut features, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..3 + rng.next_u32() % 4 {
            let sound = rng.next_u32() % 4;
            for _ in 0..2 + rng.next_u32() % 5 {
                labels.push(sound as u16);
                for coefficient in 0..3 {
                    let noise = rng.next_u32() as f32 / u32::MAX as f32 - 0.5;
                    let center = if sound == 3 || sound != coefficient { -1.0 } else { 1.0 };
                    features.push(3.0 * center + 2.0 * noise);
                }
            }
        }
        let split = if utterance % 6 == 5 { Split::Test } else { Split::Train };
        let speaker = format!("speaker {}", utterance / 6);
        writer.push(&format!("{utterance}"), &speaker, split, &features, &labels).unwrap();
    }
    writer.finish(|_| serde_json::Value::Null).unwrap();
}
