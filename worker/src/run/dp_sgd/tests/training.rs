//! A job of three sites that can be killed at every critical moment, and its results.

mod input;

use std::collections::HashMap;
use std::path::PathBuf;

use undertone_api::id::DatasetId;
use undertone_api::job::audit::{AuditFinding, AuditPlan};
use undertone_api::job::dp_sgd::{Rounds, Spec};
use undertone_api::job::{INITIAL_MODEL, Report, Spec as AnySpec};
use undertone_api::signed::Manifest;
use undertone_privacy::Event;
use uuid::Uuid;

use crate::dp::randomness::Purpose;
use crate::dp::sabotage::{self, Sabotage};
use crate::run::dp_sgd::checkpoint::{ArmCheckpoint, CheckpointPlan};
use crate::run::dp_sgd::run;
use crate::run::dp_sgd::tune::tests::write_dataset as write_public_dataset;
use crate::run::fake::{CrashPoint, FakeServer, is_crash, promised_audit};
use crate::run::{RoundKey, RunError};
use crate::speech::model::Model;
use crate::speech::prepare::spell::CHARACTERS_FILE;

use input::{manifest, write_dataset};

pub(in crate::run::dp_sgd) use input::spec;
pub(crate) use input::{columns, row_spec, write_table};

const PARTICIPANTS: usize = 3;
const UTTERANCES: u64 = 24;

/// A job of three participants. The first leads.
pub(super) struct TestTraining {
    manifest: Manifest,
    server: FakeServer,
    sabotages: HashMap<usize, Sabotage>,
}

fn dataset(index: usize) -> DatasetId {
    DatasetId(Uuid::from_u128(index as u128 + 1))
}

impl TestTraining {
    /// Makes a job of three, with real datasets on disk, after `change` of its spec.
    pub(super) fn new(change: impl FnOnce(&mut Spec)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |index: usize| folder.path().join(format!("data-{index}"));
        for index in 0..PARTICIPANTS {
            write_dataset(&path(index), index as u64);
        }
        let datasets = (0..PARTICIPANTS).map(|index| (dataset(index), path(index))).collect();
        let mut spec = spec();
        change(&mut spec);
        let server = FakeServer::new(folder, datasets);
        server.state().public.insert(dataset(0));
        Self { manifest: manifest(spec), server, sabotages: HashMap::new() }
    }

    /// Makes a job of three with tables on disk, after `change` of its spec.
    pub(super) fn with_tables(change: impl FnOnce(&mut Spec)) -> Self {
        let mut spec = input::row_spec();
        change(&mut spec);
        let folder = tempfile::tempdir().unwrap();
        let path = |index: usize| folder.path().join(format!("data-{index}"));
        for index in 0..PARTICIPANTS {
            input::write_table(&path(index), index as u64);
        }
        let datasets = (0..PARTICIPANTS).map(|index| (dataset(index), path(index))).collect();
        let server = FakeServer::new(folder, datasets);
        server.state().public.insert(dataset(0));
        Self { manifest: manifest(spec), server, sabotages: HashMap::new() }
    }

    /// Returns the folder of a participant's dataset.
    pub(super) fn data_folder(&self, index: usize) -> PathBuf {
        self.server.folder().join(format!("data-{index}"))
    }

    /// Replaces the lead's data by those of more speakers, so that parts of them can take roles.
    pub(super) fn replace_lead_data(&self) {
        let folder = self.server.folder().join("data-0");
        std::fs::remove_dir_all(&folder).unwrap();
        write_public_dataset(&folder);
    }

    /// Returns the work folder of a participant.
    pub(super) fn work_folder(&self, index: usize) -> PathBuf {
        self.server.work_folder(index)
    }

    /// Takes back that a dataset is public.
    pub(super) fn make_private(&self, index: usize) {
        self.server.state().public.remove(&dataset(index));
    }

    /// Writes the file of characters of a dataset.
    pub(super) fn set_characters(&self, index: usize, text: &str) {
        let folder = self.server.work_folder(index).with_file_name(format!("data-{index}"));
        std::fs::write(folder.join(CHARACTERS_FILE), text).unwrap();
    }

    fn spec(&self) -> &Spec {
        let AnySpec::DpSgd(spec) = &self.manifest.spec else { panic!("it is of another kind") };
        spec
    }

    /// Runs one process of one participant.
    pub(super) fn run_process(&self, index: usize) -> Result<(), RunError> {
        sabotage::on_this_thread(self.sabotages.get(&index).copied());
        let end = run(self.spec(), &mut self.server.start(index, self.manifest.clone()));
        sabotage::on_this_thread(None);
        self.server.notify();
        end
    }

    /// Runs all participants concurrently, each restarted until it is done.
    pub(super) fn run_all(&self) {
        std::thread::scope(|scope| {
            for index in 0..self.spec().participants.len() {
                scope.spawn(move || {
                    while let Err(end) = self.run_process(index) {
                        assert!(is_crash(&end), "{index}: {end}");
                    }
                });
            }
        });
    }

    pub(super) fn crash(&self, index: usize, point: CrashPoint, series: &str, round: u32) {
        self.server.state().site(index).crash(point, RoundKey::new(series, round));
    }

    pub(super) fn refuse(&self, index: usize) {
        self.server.state().site(index).refuses = true;
    }

    pub(super) fn stop_after(&self, index: usize, checks: u32) {
        self.server.state().site(index).stop_after = Some(checks);
    }

    /// Closes the first rounds of `private` without a participant.
    pub(super) fn set_absent(&self, index: usize, rounds: u32) {
        self.server.state().absent = Some((index, rounds));
    }

    /// Sets the file that the server serves as the initial model.
    pub(super) fn serve_initial_model(&self, content: Vec<u8>) {
        self.put_file(INITIAL_MODEL, content);
    }

    /// Sets a file of the job at the server.
    pub(super) fn put_file(&self, name: &str, content: Vec<u8>) {
        self.server.state().files.insert(name.to_owned(), content);
    }

    /// Breaks a site without the accountant's knowledge.
    pub(super) fn sabotage(&mut self, index: usize, sabotage: Sabotage) {
        self.sabotages.insert(index, sabotage);
    }

    /// Returns the findings of a site's audits, in order of submission.
    pub(super) fn findings(&self, index: usize) -> Vec<AuditFinding> {
        self.server.state().site(index).findings.clone()
    }

    /// Returns the audit that the manifest promises of a site.
    pub(super) fn promised_audit(&self, index: usize) -> Option<AuditPlan> {
        promised_audit(&self.manifest, index)
    }

    /// Reads a file in a site's work folder.
    pub(super) fn read_work_file(&self, index: usize, name: &str) -> std::io::Result<Vec<u8>> {
        std::fs::read(self.server.work_folder(index).join(name))
    }

    /// Removes a file of a site's work folder.
    pub(super) fn remove_work_file(&self, index: usize, name: &str) {
        std::fs::remove_file(self.server.work_folder(index).join(name)).unwrap();
    }

    pub(super) fn cancel(&self) {
        self.server.cancel();
    }

    pub(super) fn report(&self) -> Option<Report> {
        self.server.state().report.clone()
    }

    pub(super) fn payments(&self, index: usize) -> u32 {
        self.server.state().site(index).payments
    }

    /// Returns the event of one payment of a site.
    pub(super) fn event(&self, index: usize) -> Event {
        self.spec().private_event(&self.spec().participants[index], 3).unwrap()
    }

    /// Returns the number of a site's requests for randomness of a purpose.
    pub(super) fn draws(&self, index: usize, purpose: Purpose) -> u32 {
        self.server.state().site(index).draws.get(&(purpose as u32)).copied().unwrap_or(0)
    }

    /// Makes all draws of all sites repeatable.
    pub(super) fn repeat_draws(&self) {
        for index in 0..PARTICIPANTS {
            self.server.state().site(index).seed = Some(index as u8 + 1);
        }
    }

    /// Returns a site's vector of a round of the private series.
    pub(super) fn vector(&self, index: usize, round: u32) -> Vec<f32> {
        self.server.state().vectors[&("private".to_owned(), round)][&index].clone()
    }

    pub(super) fn processes(&self, index: usize) -> u32 {
        self.server.state().site(index).processes
    }

    pub(super) fn submissions(&self, index: usize) -> usize {
        self.server.state().vectors.values().filter(|round| round.contains_key(&index)).count()
    }

    /// Returns the number of masked rounds with a site's sum.
    pub(super) fn sums(&self, index: usize) -> usize {
        self.server.state().sums.values().filter(|round| round.contains_key(&index)).count()
    }

    /// Returns the rounds after which the lead measured in a series, in order.
    pub(super) fn measurement_rounds(&self, series: &str) -> Vec<u32> {
        self.server.state().measurements.iter().filter(|m| m.series == series).map(|m| m.round).collect()
    }

    pub(super) fn file(&self, name: &str) -> Vec<u8> {
        self.server.state().files[name].clone()
    }

    pub(super) fn model(&self, name: &str) -> Model {
        Model::from_safetensors(&self.file(name)).unwrap()
    }

    /// Returns the published parameters at a participant's end of a series.
    pub(super) fn parameters(&self, index: usize, series: &str) -> Vec<f32> {
        let (rounds, checkpoint) = self.checkpoint(index, series);
        assert_eq!(checkpoint.round, rounds.rounds);
        checkpoint.result().to_vec()
    }

    /// Returns the trained parameters after a participant's last step in a series, without averaging.
    pub(super) fn last_iterate(&self, index: usize, series: &str) -> Vec<f32> {
        self.checkpoint(index, series).1.parameters
    }

    fn checkpoint(&self, index: usize, series: &str) -> (Rounds, ArmCheckpoint) {
        let rounds = if series == "open" { self.spec().open } else { self.spec().private }.unwrap();
        let shape = *self.model("warm_start.safetensors").shape();
        let length = rounds.coordinates(&self.spec().model, shape.inputs as u32, shape.classes as u32) as usize;
        let plan = CheckpointPlan { length, rule: rounds.optimizer, averaging: rounds.averaging };
        (rounds, ArmCheckpoint::load(&self.server.work_folder(index), series, plan).unwrap())
    }

    /// Returns the lengths of all vectors of a series.
    pub(super) fn vector_lengths(&self, series: &str) -> Vec<usize> {
        let state = self.server.state();
        let rounds = state.vectors.iter().filter(|((name, _), _)| name == series);
        rounds.flat_map(|(_, vectors)| vectors.values().map(Vec::len)).collect()
    }

    /// Returns the lengths of all sums of masked rounds.
    pub(super) fn sum_lengths(&self) -> Vec<usize> {
        self.server.state().sums.values().flat_map(|round| round.values().map(Vec::len)).collect()
    }

    /// Returns the losses measured in a series, in order.
    pub(super) fn losses(&self, series: &str) -> Vec<f64> {
        self.server.state().measurements.iter().filter(|m| m.series == series).map(|m| m.loss).collect()
    }
}
