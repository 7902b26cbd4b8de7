//! A server in memory and the disks of a job's sites, for tests of whole runs. A [`FakeExchange`] is one process of one
//! site: it averages, pays, stores, and crashes where the test asks for it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod masked;
mod state;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use futures::future::join_all;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use time::OffsetDateTime;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use undertone_api::dataset::{Dataset, DatasetContent, SizeClass, Visibility, usual_units};
use undertone_api::id::{DatasetId, QuestionId};
use undertone_api::job::audit::{AuditFinding, AuditPlan};
use undertone_api::job::dp_sgd::Precision;
use undertone_api::job::{Measurement, Report, Spec};
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_privacy::{Event, PrivacyUnit};

use self::state::to_owned_key;
pub(crate) use self::state::{AnswerFn, CrashPoint, FakeRelease, FakeState};
use super::{
    AnswerLine, Artifacts, Averaging, MaskedAveraging, Outbound, Questions, RoundAverage, RoundKey, RoundProgress,
    RunContext, RunError, TranscriptionSite,
};
use crate::config::queries::Queries;
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::Outgoing;
use crate::queries::gate::OutgoingPool;
use crate::queries::released::Released;
use crate::site::clearance::{Clearance, DepartureProof, PublicProof, ReleaseGrant};
use crate::speech::transcribe::outbound::{DeliveryResult, OutboundError, SealedSounds, deliver};
use crate::speech::transcribe::provider::line::ProviderLine;

/// The text of a requested crash.
const CRASH: &str = "crash";
/// The series under which a crash at a choice of questions is requested.
pub(crate) const CHOICES: &str = "choices";

/// The server of one job, with the folders of its sites.
pub(crate) struct FakeServer {
    folder: tempfile::TempDir,
    state: Mutex<FakeState>,
    changed: Condvar,
}

impl FakeServer {
    /// Makes a server over a folder with the data of the sites.
    pub(crate) fn new(folder: tempfile::TempDir, datasets: HashMap<DatasetId, PathBuf>) -> Self {
        let mut state = FakeState::default();
        state.datasets = datasets;
        Self { folder, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Returns the folder with the data of the sites.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the work folder of a participant.
    pub(crate) fn work_folder(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("work-{index}"))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap()
    }

    /// Starts a process of a participant.
    pub(crate) fn start(&self, index: usize, manifest: Manifest) -> FakeExchange<'_> {
        let work = self.work_folder(index);
        std::fs::create_dir_all(&work).unwrap();
        let mut state = self.state();
        let site = state.site(index);
        site.processes += 1;
        site.calls = 0;
        site.stop_after = site.stop_after.filter(|checks| *checks > 0);
        FakeExchange { server: self, manifest, index, work, outbound: None }
    }

    /// Wakes every process that waits, after a change of the state.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// Cancels the job.
    pub(crate) fn cancel(&self) {
        self.state().is_cancelled = true;
        self.notify();
    }
}

/// Returns whether a run ended by a requested crash.
pub(crate) fn is_crash(error: &RunError) -> bool {
    matches!(error, RunError::Stopped(reason) if reason.to_string() == CRASH)
}

fn crash() -> RunError {
    RunError::Stopped(CRASH.to_owned().into())
}

/// One process of a site.
pub(crate) struct FakeExchange<'a> {
    server: &'a FakeServer,
    manifest: Manifest,
    index: usize,
    work: PathBuf,
    outbound: Option<(TranscriptionSite, Handle)>,
}

impl FakeExchange<'_> {
    /// Sets the site's transcription settings, and the runtime on which sounds are sent.
    pub(crate) fn with_outbound(self, site: TranscriptionSite, runtime: Handle) -> Self {
        Self { outbound: Some((site, runtime)), ..self }
    }

    fn crash_at(&self, point: CrashPoint, key: RoundKey<'_>) -> Result<(), RunError> {
        let mut state = self.server.state();
        let crashes = &mut state.site(self.index).crashes;
        let request = (point, to_owned_key(key));
        let Some(position) = crashes.iter().position(|crash| *crash == request) else { return Ok(()) };
        crashes.remove(position);
        Err(crash())
    }

    /// Counts a call to the server; crashes afterwards if that was requested.
    fn count_call(&self) -> Result<(), RunError> {
        let mut state = self.server.state();
        let site = state.site(self.index);
        site.calls += 1;
        if site.crash_after_calls == Some(site.calls) {
            site.crash_after_calls = None;
            return Err(crash());
        }
        Ok(())
    }

    fn wait<T>(&self, mut ready: impl FnMut(&mut FakeState) -> Option<T>) -> Result<T, RunError> {
        let mut state = self.server.state();
        loop {
            if state.is_cancelled {
                return Err(RunError::Stopped("cancelled".to_owned().into()));
            }
            if let Some(value) = ready(&mut state) {
                return Ok(value);
            }
            state = self.server.changed.wait(state).unwrap();
        }
    }

    /// Stores and pays for a release.
    fn store(&self, key: RoundKey<'_>, release: FakeRelease) -> Result<(), RunError> {
        {
            let is_charged = self.participant().charge.is_some();
            let mut state = self.server.state();
            let site = state.site(self.index);
            site.releases.insert(to_owned_key(key), release);
            site.payments += u32::from(is_charged);
        }
        self.crash_at(CrashPoint::Stored, key)
    }

    /// Hands the stored release to the server.
    fn submit(&self, key: RoundKey<'_>) -> Result<(), RunError> {
        {
            let mut state = self.server.state();
            let release = state.site(self.index).releases[&to_owned_key(key)].clone();
            state.site(self.index).accepted.insert(to_owned_key(key));
            match release {
                FakeRelease::Vector(vector) => {
                    let earlier = state.vectors.entry(to_owned_key(key)).or_default().insert(self.index, vector);
                    assert!(earlier.is_none(), "{key}: no vector is submitted twice");
                }
                FakeRelease::Sum(sum) => {
                    let earlier = state.sums.entry(to_owned_key(key)).or_default().insert(self.index, sum);
                    assert!(earlier.is_none(), "{key}: no sum is submitted twice");
                }
                FakeRelease::Pool(bytes) => state.pools.push((self.participant().dataset, bytes)),
                FakeRelease::Batch(_) => panic!("{key}: a batch does not go to the server"),
            }
        }
        self.server.notify();
        self.crash_at(CrashPoint::Accepted, key)
    }

    /// Returns the event of a release, as the site's ledger reserved it.
    fn event(&self, series: &str) -> Option<Event> {
        let charge = self.participant().charge.as_ref()?;
        Some(match &self.manifest.spec {
            Spec::DpSgd(spec) if series == "private" => spec.private_event(&spec.participants[self.index], 3).unwrap(),
            _ => charge.event.clone(),
        })
    }

    /// Encodes and decodes a vector as on the wire. The random numbers are the same for all, like those of one server.
    fn transmit(&self, series: &str, vector: &[f32]) -> Vec<f32> {
        let precision = match &self.manifest.spec {
            Spec::DpSgd(spec) => {
                let rounds = if series == "open" { &spec.open } else { &spec.private };
                rounds.as_ref().unwrap().exchange.precision
            }
            Spec::Evaluation(_) | Spec::ActiveLearning(_) | Spec::Analytics(_) => Precision::F32,
            Spec::Transcription(_) => panic!("this kind sends no vectors"),
        };
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let bytes = undertone_proto::vector::write(vector, precision, || rng.next_u32()).unwrap();
        let form = undertone_proto::vector::VectorForm::new(precision, vector.len() as u64).unwrap();
        undertone_proto::vector::read(&bytes, form).unwrap()
    }
}

impl RunContext for FakeExchange<'_> {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn participant(&self) -> &ManifestParticipant {
        &self.manifest.participants[self.index]
    }

    fn folder(&self) -> &Path {
        &self.work
    }

    fn models(&self) -> Option<PathBuf> {
        Some(self.server.folder().join("models"))
    }

    fn dataset(&self, id: DatasetId) -> Result<PathBuf, RunError> {
        Ok(self.server.state().datasets[&id].clone())
    }

    fn confirm_public(&self, id: DatasetId) -> Result<PublicProof, RunError> {
        let is_public = self.server.state().public.contains(&id);
        if is_public { Ok(PublicProof::in_test()) } else { Err(RunError::refused("the dataset is not public")) }
    }

    fn round_progress(&self, key: RoundKey<'_>) -> Result<RoundProgress, RunError> {
        Ok(self.server.state().site(self.index).progress(key))
    }

    fn fix_period(&mut self, _: &mut dyn FnMut() -> Result<Duration, RunError>) -> Result<(), RunError> {
        Ok(())
    }

    fn draw_randomness(&mut self, purpose: Purpose) -> Randomness {
        let mut state = self.server.state();
        let site = state.site(self.index);
        *site.draws.entry(purpose as u32).or_default() += 1;
        site.seed.map_or_else(|| Randomness::from_os(purpose), |seed| Randomness::in_test(purpose, seed))
    }

    fn clear(&mut self, key: RoundKey<'_>) -> Result<Clearance, RunError> {
        {
            let mut state = self.server.state();
            let site = state.site(self.index);
            assert_eq!(site.progress(key), RoundProgress::Untouched, "{key}: a stored release is not made again");
            if site.refuses {
                return Err(RunError::refused("the site refuses every release"));
            }
        }
        self.crash_at(CrashPoint::Cleared, key)?;
        Ok(match self.event(key.series) {
            Some(event) => Clearance::Granted(ReleaseGrant::in_test(event)),
            None => Clearance::Public(PublicProof::in_test()),
        })
    }

    fn submit_report(&mut self, report: Report) -> Result<(), RunError> {
        self.server.state().report = Some(report);
        self.count_call()
    }

    fn is_stopped(&self) -> bool {
        let mut state = self.server.state();
        let is_cancelled = state.is_cancelled;
        let checks = &mut state.site(self.index).stop_after;
        let is_due = *checks == Some(0);
        *checks = checks.map(|checks| checks.saturating_sub(1));
        is_due || is_cancelled
    }
}

impl Averaging for FakeExchange<'_> {
    fn longest_unit(&self, _: PrivacyUnit) -> Option<usize> {
        None
    }

    fn is_closed(&mut self, key: RoundKey<'_>) -> Result<bool, RunError> {
        let absent = self.server.state().absent;
        Ok(absent.is_some_and(|(index, rounds)| index == self.index && key.series == "private" && key.round <= rounds))
    }

    fn send_vector(&mut self, key: RoundKey<'_>, vector: Outgoing) -> Result<(), RunError> {
        assert_eq!(vector.grant().is_some(), self.participant().charge.is_some());
        let vector = self.transmit(key.series, vector.vector());
        self.store(key, FakeRelease::Vector(vector))?;
        self.submit(key)
    }

    fn resend_vector(&mut self, key: RoundKey<'_>) -> Result<(), RunError> {
        self.submit(key)
    }

    fn fetch_average(&mut self, key: RoundKey<'_>) -> Result<RoundAverage, RunError> {
        let participants = match &self.manifest.spec {
            // The private lead alone contributes.
            Spec::ActiveLearning(_) => 1,
            _ => self.manifest.participants.len(),
        };
        self.wait(|state| {
            let is_incomplete = state.absent.is_some_and(|(_, rounds)| key.series == "private" && key.round <= rounds);
            if self.masks(key.series).is_some() {
                return self.masked_mean(state, key);
            }
            let vectors = state.vectors.get(&to_owned_key(key))?;
            let count = vectors.len();
            (count >= participants - usize::from(is_incomplete)).then(|| {
                let length = vectors.values().next().map_or(0, Vec::len);
                let sum = |n: usize| vectors.values().map(|vector| f64::from(vector[n])).sum::<f64>();
                let mean: Vec<f32> = (0..length).map(|n| (sum(n) / count as f64) as f32).collect();
                RoundAverage { mean: self.transmit(key.series, &mean), contributors: count as u32 }
            })
        })
    }

    fn masking(&mut self, series: &str) -> Option<&mut dyn MaskedAveraging> {
        let is_member = self.masks(series).is_some() && self.participant().charge.is_some();
        is_member.then_some(self as &mut dyn MaskedAveraging)
    }

    fn promised_audit(&self) -> Option<AuditPlan> {
        promised_audit(&self.manifest, self.index)
    }

    fn submit_finding(&mut self, finding: AuditFinding) -> Result<(), RunError> {
        self.server.state().site(self.index).findings.push(finding);
        Ok(())
    }
}

impl Artifacts for FakeExchange<'_> {
    fn put_file(&mut self, name: &str, content: Vec<u8>) -> Result<(), RunError> {
        assert_eq!(self.index, 0, "only the lead puts files");
        self.server.state().files.insert(name.to_owned(), content);
        self.server.notify();
        self.count_call()
    }

    fn fetch_file(&mut self, name: &str) -> Result<Vec<u8>, RunError> {
        self.wait(|state| state.files.get(name).cloned())
    }

    fn report_measurement(&mut self, measurement: Measurement) -> Result<(), RunError> {
        assert_eq!(self.index, 0, "only the lead measures");
        self.server.state().measurements.push(measurement);
        self.count_call()
    }
}

impl Questions for FakeExchange<'_> {
    fn query_settings(&self) -> Queries {
        Queries { memory_mib: 64, ..Queries::default() }
    }

    fn send_pool(&mut self, key: RoundKey<'_>, pool: OutgoingPool) -> Result<(), RunError> {
        self.store(key, FakeRelease::Pool(pool.bytes().to_vec()))?;
        self.submit(key)
    }

    fn resend_pool(&mut self, key: RoundKey<'_>) -> Result<(), RunError> {
        self.submit(key)
    }

    fn fetch_pools(&mut self) -> Result<Vec<Released>, RunError> {
        self.count_call()?;
        Ok(read_pools(&self.server.state(), &self.manifest))
    }

    fn choose_questions(&mut self, round: u32, choice: &[(QuestionId, f64)]) -> Result<(), RunError> {
        {
            let mut state = self.server.state();
            let stored = state.choices.entry(round).or_insert_with(|| choice.to_vec());
            assert_eq!(stored, choice, "another choice is refused");
        }
        self.crash_at(CrashPoint::Accepted, RoundKey::new(CHOICES, round))?;
        self.count_call()
    }

    fn fetch_answers(&mut self, round: u32) -> Result<Vec<AnswerLine>, RunError> {
        self.count_call()?;
        let state = self.server.state();
        let answers = state.answers.clone().unwrap();
        let questions = read_pools(&state, &self.manifest);
        Ok(state.choices[&round].iter().flat_map(|(question, _)| answers(*question, &questions)).collect())
    }
}

impl Outbound for FakeExchange<'_> {
    fn longest_recordings(&self) -> Option<u64> {
        None
    }

    fn transcription_site(&self) -> TranscriptionSite {
        self.outbound.as_ref().map(|(site, _)| site.clone()).unwrap()
    }

    fn dispatch_batch(
        &mut self,
        key: RoundKey<'_>,
        batch: &Arc<SealedSounds>,
        lines: &[ProviderLine],
    ) -> Result<Vec<Result<DeliveryResult, OutboundError>>, RunError> {
        let release = FakeRelease::Batch(batch.digest().to_owned());
        let stored = self.server.state().site(self.index).releases.get(&to_owned_key(key)).cloned();
        match stored {
            Some(stored) => assert_eq!(stored, release, "{key}: the same bits"),
            None => self.store(key, release)?,
        }
        let (_, runtime) = self.outbound.as_ref().unwrap();
        let stop = CancellationToken::new();
        let departure = DepartureProof::in_test(batch.digest());
        let parts = lines.iter().zip(0_u32..).map(|(line, provider)| deliver(batch, provider, line, &stop, &departure));
        let results = runtime.block_on(join_all(parts));
        self.crash_at(CrashPoint::Accepted, key)?;
        Ok(results)
    }
}

/// Returns the questions of all pools; of a pool that came twice, once.
fn read_pools(state: &FakeState, manifest: &Manifest) -> Vec<Released> {
    let mut datasets = HashSet::new();
    let pools = state.pools.iter().filter(|(dataset, _)| datasets.insert(*dataset));
    pools.flat_map(|(dataset, bytes)| Released::pool(manifest.job, *dataset, bytes).unwrap()).collect()
}

/// Returns the audit that a manifest promises of a participant; the lead's data are public.
pub(crate) fn promised_audit(manifest: &Manifest, index: usize) -> Option<AuditPlan> {
    let party = &manifest.participants[index];
    manifest.spec.audit_plan(&Dataset {
        id: party.dataset,
        lineage: party.lineage,
        organization: party.organization,
        organization_name: party.organization_name.clone(),
        worker: party.worker,
        name: party.dataset_name.clone(),
        visibility: if index == 0 { Visibility::Public } else { Visibility::Private },
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
    })
}
