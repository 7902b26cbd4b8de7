//! One participant of a round: the worker's own modules on a real site's disk and its gateway to the server, called in
//! the order of the worker's daemon. The computing of a run is omitted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use support::stage::{self, TestResult};
use tokio::runtime::Handle;
use undertone_api::dataset::Visibility;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::signed::Signed;
use undertone_worker::config::Config;
use undertone_worker::daemon::{self, PartSession, Site, WorkExamination};
use undertone_worker::dp::release::Outgoing;
use undertone_worker::gateway::{AverageQuery, Download, Gateway, OfferedWork, ServerOffer};
use undertone_worker::run::{RoundAverage, RoundProgress};
use undertone_worker::site::clock::{self, Clock};
use undertone_worker::site::datasets::note_registered;
use undertone_worker::site::folder::Folder;
use undertone_worker::site::keys::SiteKey;
use undertone_worker::site::policy::declare;
use undertone_worker::site::witness::{self, WitnessVerdict};
use undertone_worker::speech::dataset::layout::VERSION;
use undertone_worker::speech::dataset::{Meta, SplitCounts};

use super::{CLASSES, INPUTS};

/// The series of exact vectors.
const SERIES: &str = "open";
/// The time that the server may wait, as in the daemon.
const WAIT: Duration = Duration::from_secs(20);
/// The time limit without an answer.
const PATIENCE: Duration = Duration::from_mins(5);

/// An open site with one dataset.
pub(super) struct OpenSite {
    site: Site,
    gateway: Gateway,
    config: Config,
    clock: Clock,
    /// Its dataset, as known to the server.
    pub(super) dataset: DatasetId,
}

/// A site with a running job.
pub(super) struct RoundParticipant {
    opened: OpenSite,
    session: PartSession,
    lease: String,
}

/// The times of the steps of a participant's round, seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StepTimes {
    pub(super) ask: f64,
    pub(super) clear: f64,
    pub(super) pay: f64,
    pub(super) countersign: f64,
    pub(super) send: f64,
    pub(super) note: f64,
    pub(super) fetch: f64,
}

/// The result of a participant's round.
pub(super) struct RoundResult {
    pub(super) steps: StepTimes,
    pub(super) average: RoundAverage,
    pub(super) sent_bytes: usize,
}

impl OpenSite {
    /// Opens an enrolled site, writes a description of a dataset, and registers it; only the description is read here.
    pub(super) async fn open(enrolled: &stage::TestSite, name: &str, visibility: Visibility) -> TestResult<Self> {
        let folder = Folder::new(enrolled.folder());
        let at = folder.dataset(name)?;
        std::fs::create_dir_all(&at)?;
        std::fs::write(at.join("meta.json"), serde_json::to_string(&description(name))?)?;
        declare(&folder.policy(), name, visibility)?;
        let config = Config::load(&folder)?;
        let gateway = Gateway::for_site(&config, &folder, SiteKey::load(&folder.key())?)?;
        let clock = clock::system();
        let site = Site::open(folder, &config, Arc::clone(&clock))?;
        let local = site.find_datasets()?.into_iter().next().ok_or("the site does not see its dataset")?;
        let dataset = gateway.register(&local.registration()).await?;
        note_registered(site.store(), &local.name, dataset)?;
        // Read again, now with its id.
        site.find_datasets()?;
        Ok(Self { site, gateway, config, clock, dataset })
    }

    /// Waits for the site's part in the job, and takes it up.
    pub(super) async fn take_up(self, job: JobId) -> TestResult<RoundParticipant> {
        let deadline = Instant::now() + PATIENCE;
        let mut decided = Vec::new();
        while Instant::now() < deadline {
            match self.gateway.next_offer(WAIT, &decided, &[]).await? {
                ServerOffer::Nothing => {}
                ServerOffer::Proposal { manifest, dataset } => {
                    daemon::consider(&self.site, &manifest, dataset)?;
                    decided.push(manifest.digest());
                    for (decided, signed) in daemon::pending_decisions(&self.site)? {
                        self.gateway.decide(&signed).await?;
                        daemon::acknowledge(&self.site, &decided)?;
                    }
                }
                ServerOffer::Work(work) => return self.begin(job, work),
            }
        }
        Err("the server offers no work".into())
    }

    fn begin(self, job: JobId, work: OfferedWork) -> TestResult<RoundParticipant> {
        let examined = match daemon::examine_work(&self.site, &work, job)? {
            WorkExamination::Ready(examined) => examined,
            WorkExamination::Refused(reason) | WorkExamination::Foreign(reason) => return Err(reason.into()),
            WorkExamination::Ended(_) | WorkExamination::Waiting(_) => return Err("the work cannot begin".into()),
        };
        if let Some(outcome) = daemon::begin_part(&self.site, &work, &examined, &work.lease)? {
            return Err(format!("the site does not take the work up: {outcome:?}").into());
        }
        let session = PartSession::new(&self.site, *examined)?;
        Ok(RoundParticipant { opened: self, session, lease: work.lease })
    }
}

impl RoundParticipant {
    /// Renews its lease.
    pub(super) async fn renew(&self) -> TestResult<()> {
        if self.opened.gateway.renew(&self.lease).await?.is_active {
            Ok(())
        } else {
            Err("the job does not go on".into())
        }
    }

    /// Runs one round, on a thread of its own as a run does.
    pub(super) fn round(&mut self, handle: &Handle, round: u32, vector: Vec<f32>) -> TestResult<RoundResult> {
        let Self { opened, session, lease } = self;
        let OpenSite { site, gateway, .. } = &*opened;
        let mut watch = LapTimer(Instant::now());
        if session.past(site, SERIES, round)? != RoundProgress::Untouched {
            return Err(format!("round {round} was played before").into());
        }
        let precision = session.precision(SERIES);
        let download = Download::default();
        let query = AverageQuery { series: SERIES, round, precision, wait: Duration::ZERO };
        if handle.block_on(gateway.average(lease, query, &download))?.is_some() {
            return Err(format!("round {round} is closed already").into());
        }
        let ask = watch.lap();
        let clearance = session.clear(site, SERIES, round)?;
        let clear = watch.lap();
        session.pay_vector(site, SERIES, round, &Outgoing::exact(vector, clearance)?)?;
        let pay = watch.lap();
        if let Some(request) = session.charge(site, SERIES, round)? {
            let answer = handle.block_on(gateway.countersign(lease, &request.receipts))?;
            session.store_countersignatures(site, &request, &answer)?;
        }
        let countersign = watch.lap();
        let letter = session.submission(site, SERIES, round)?;
        let submitted = handle.block_on(gateway.submit(lease, SERIES, round, &letter.parcel, &letter.receipts))?;
        let send = watch.lap();
        session.mark_received(site, SERIES, round, &letter)?;
        opened.hold_to_its_log(handle, &letter.receipts, &submitted.countersignatures)?;
        let note = watch.lap();
        let deadline = Instant::now() + PATIENCE;
        let average = loop {
            let query = AverageQuery { series: SERIES, round, precision, wait: WAIT };
            if let Some(average) = handle.block_on(gateway.average(lease, query, &download))? {
                break average;
            }
            if Instant::now() > deadline {
                return Err(format!("round {round} is not closed").into());
            }
        };
        let steps = StepTimes { ask, clear, pay, countersign, send, note, fetch: watch.lap() };
        Ok(RoundResult { steps, average, sent_bytes: letter.parcel.bytes.len() })
    }
}

impl OpenSite {
    /// Stores the server's countersignatures, and requests proofs that the receipts are in its log.
    fn hold_to_its_log(&self, handle: &Handle, receipts: &[Signed], said: &[Signed]) -> TestResult<()> {
        let (store, key, now) = (self.site.store(), &self.config.server_key, || (self.clock)());
        if let Some(wrong) = witness::record_countersignatures(store, key, receipts, said, now())? {
            return Err(wrong.into());
        }
        let question = witness::question(store)?;
        let answer = handle.block_on(self.gateway.witness(question.known.as_ref(), &question.numbers(), None))?;
        match witness::judge(store, key, &question, &answer, now())? {
            WitnessVerdict::Holds(_) => Ok(()),
            WitnessVerdict::Contradicts(wrong) => Err(wrong.into()),
        }
    }
}

/// Returns the seconds since its last call.
struct LapTimer(Instant);

impl LapTimer {
    fn lap(&mut self) -> f64 {
        let now = Instant::now();
        let seconds = (now - self.0).as_secs_f64();
        self.0 = now;
        seconds
    }
}

fn description(name: &str) -> Meta {
    let counts = SplitCounts { utterances: 1000, speakers: 50, frames: 200_000, users: 0 };
    Meta {
        format: VERSION,
        name: name.to_owned(),
        inputs: INPUTS,
        classes: CLASSES,
        utterances: counts.utterances,
        speakers: counts.speakers,
        frames: counts.frames,
        train: counts,
        test: SplitCounts::default(),
        sample_rate: 16_000,
        features: String::new(),
        treatment: None,
        labels: String::new(),
        unit_column: None,
        units: undertone_api::dataset::usual_units(),
        preparation: Some(undertone_worker::speech::dataset::PreparationRecord::default()),
        created: String::new(),
        digest: String::new(),
    }
}
