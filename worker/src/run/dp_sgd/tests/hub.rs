//! A server in memory, and three sites on disk that can be killed at every critical moment.

mod ground;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use time::OffsetDateTime;
use undertone_api::dataset::{Dataset, SizeClass, Visibility};
use undertone_api::id::DatasetId;
use undertone_api::job::audit::{AuditFinding, AuditPlan};
use undertone_api::job::dp_sgd::{Rounds, Spec};
use undertone_api::job::{Measurement, Report, Spec as AnySpec};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_privacy::Event;
use uuid::Uuid;

use crate::dp::randomness::{Purpose as Use, Randomness};
use crate::dp::release::Outgoing;
use crate::dp::sabotage::{self, Sabotage};
use crate::run::dp_sgd::checkpoint::{Checkpoint, Plan};
use crate::run::{Average, Exchange, Past, Run, RunError};
use crate::site::clearance::{Clearance, PublicProof, ReleaseGrant};
use crate::speech::model::Model;

use ground::{manifest, spec, write_dataset};

const PARTICIPANTS: usize = 3;
const UTTERANCES: u64 = 24;

/// The event after which a site dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    Granted,
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

/// The state that a site keeps across its processes.
#[derive(Default)]
struct Disk {
    stored: HashMap<(String, u32), Vec<f32>>,
    paid: u32,
    lives: u32,
    crashes: Vec<(Crash, String, u32)>,
    refuses: bool,
    stop_after: Option<u32>,
    sabotage: Option<Sabotage>,
    findings: Vec<AuditFinding>,
    /// The number of requests for randomness, by purpose.
    drawn: HashMap<u32, u32>,
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
    /// Makes a job of three, with real datasets on disk, after `change` of its spec.
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
        let AnySpec::DpSgd(spec) = &self.manifest.spec else { panic!("it is of another kind") };
        spec
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Runs one process of one participant.
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

    /// Runs all participants concurrently, each restarted until it is done.
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

    /// Breaks a site without the accountant's knowledge.
    pub(super) fn sabotage(&self, index: usize, sabotage: Sabotage) {
        self.state().sites[index].sabotage = Some(sabotage);
    }

    /// Returns the findings of a site's audits, in order of submission.
    pub(super) fn findings(&self, index: usize) -> Vec<AuditFinding> {
        self.state().sites[index].findings.clone()
    }

    /// Returns the audit that the manifest promises of a site.
    pub(super) fn audited(&self, index: usize) -> Option<AuditPlan> {
        let party = &self.manifest.participants[index];
        self.manifest.spec.audit_plan(&Dataset {
            id: party.dataset,
            lineage: party.lineage,
            organization: party.organization,
            organization_name: party.organization_name.clone(),
            worker: party.worker,
            name: party.dataset_name.clone(),
            visibility: if index == 0 { Visibility::Public } else { Visibility::Private },
            content: undertone_api::dataset::DatasetContent::Speech,
            inputs: 3,
            classes: 4,
            records: SizeClass(20),
            speakers: SizeClass(5),
            test_records: 0,
            seconds: None,
            users: None,
            units: undertone_api::dataset::usual_units(),
            approval: None,
            accounts: Vec::new(),
            created_at: OffsetDateTime::UNIX_EPOCH,
        })
    }

    /// Reads a file in a site's work folder.
    pub(super) fn kept(&self, index: usize, name: &str) -> std::io::Result<Vec<u8>> {
        std::fs::read(self.work(index).join(name))
    }

    /// Removes a file of a site's work folder.
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

    /// Returns the event of one payment of a site.
    pub(super) fn event(&self, index: usize) -> Event {
        self.spec().private_event(&self.spec().participants[index]).unwrap()
    }

    /// Returns the number of a site's requests for randomness of a purpose.
    pub(super) fn drawn(&self, index: usize, purpose: Use) -> u32 {
        self.state().sites[index].drawn.get(&(purpose as u32)).copied().unwrap_or(0)
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

    /// Returns the published parameters at a participant's end of a series.
    pub(super) fn parameters(&self, index: usize, series: &str) -> Vec<f32> {
        let rounds = if series == "open" { self.spec().open } else { self.spec().private }.unwrap();
        let checkpoint = Checkpoint::load(&self.work(index), series, self.plan(&rounds)).unwrap();
        assert_eq!(checkpoint.round, rounds.rounds);
        checkpoint.result().to_vec()
    }

    /// Returns the trained parameters after a participant's last step in a series, without averaging.
    pub(super) fn last_iterate(&self, index: usize, series: &str) -> Vec<f32> {
        let rounds = if series == "open" { self.spec().open } else { self.spec().private }.unwrap();
        Checkpoint::load(&self.work(index), series, self.plan(&rounds)).unwrap().parameters
    }

    /// Returns the lengths of all vectors of a series.
    pub(super) fn lengths(&self, series: &str) -> Vec<usize> {
        let state = self.state();
        let rounds = state.rounds.iter().filter(|((name, _), _)| name == series);
        rounds.flat_map(|(_, vectors)| vectors.values().map(Vec::len)).collect()
    }

    /// Returns the losses measured in a series, in order.
    pub(super) fn losses(&self, series: &str) -> Vec<f64> {
        self.state().measurements.iter().filter(|m| m.series == series).map(|m| m.loss).collect()
    }

    fn plan(&self, rounds: &Rounds) -> Plan {
        let shape = *self.model("warm_start.safetensors").shape();
        let length = shape.subset(rounds.trained(&self.spec().model)).len();
        Plan { length, rule: rounds.optimizer, averaging: rounds.averaging }
    }

    fn work(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("work-{index}"))
    }

    /// Returns the number of submissions that close a round.
    fn expected(state: &State, series: &str, round: u32) -> usize {
        let absent = state.absent.is_some_and(|(_, rounds)| series == "private" && round <= rounds);
        PARTICIPANTS - usize::from(absent)
    }
}

/// One process of a site.
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

    /// Encodes and decodes a vector as on the wire. The random numbers are the same for all, like those of one server.
    fn travel(&self, series: &str, vector: &[f32]) -> Vec<f32> {
        let spec = self.hub.spec();
        let rounds = if series == "open" { &spec.open } else { &spec.private };
        let precision = rounds.as_ref().unwrap().exchange.precision;
        let mut dice = ChaCha20Rng::seed_from_u64(5);
        let bytes = undertone_proto::vector::write(vector, precision, || dice.next_u32()).unwrap();
        let form = undertone_proto::vector::VectorForm::new(precision, vector.len() as u64).unwrap();
        undertone_proto::vector::read(&bytes, form).unwrap()
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

    fn chance(&mut self, purpose: Use) -> Randomness {
        *self.hub.state().sites[self.index].drawn.entry(purpose as u32).or_default() += 1;
        Randomness::from_os(purpose)
    }

    fn clear(&mut self, series: &str, round: u32) -> Result<Clearance, RunError> {
        if self.index == 0 {
            return Ok(Clearance::Public(PublicProof::in_test()));
        }
        {
            let site = &self.hub.state().sites[self.index];
            if site.refuses {
                return Err(RunError::Refused("not with our data".to_owned()));
            }
        }
        self.die(Crash::Granted, series, round)?;
        let event = if series == "private" { self.hub.event(self.index) } else { Event::NonPrivate };
        Ok(Clearance::Granted(ReleaseGrant::in_test(event)))
    }

    fn send(&mut self, series: &str, round: u32, vector: Outgoing) -> Result<(), RunError> {
        assert_eq!(vector.grant().is_some(), self.index != 0);
        let vector = self.travel(series, vector.vector());
        {
            let site = &mut self.hub.state().sites[self.index];
            site.stored.insert((series.to_owned(), round), vector);
            site.paid += u32::from(self.index != 0);
        }
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
                let mean: Vec<f32> = mean.map(|value| value as f32).collect();
                Average { mean: self.travel(series, &mean), contributors: count as u32 }
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

    fn audited(&self) -> Option<AuditPlan> {
        self.hub.audited(self.index)
    }

    fn audit(&mut self, finding: AuditFinding) -> Result<(), RunError> {
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
