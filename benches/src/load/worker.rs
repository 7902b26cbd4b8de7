//! A simulated worker: an enrolled identity with its site's key, policy, ledger and one described dataset on a disk of
//! its own, that makes the daemon's calls at the daemon's times. The daemon's own modules take the site's decisions.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use support::client::TestClient;
use support::stage::TestResult;
use time::OffsetDateTime;
use tokio::task::{JoinSet, block_in_place};
use undertone_api::dataset::{Visibility, usual_units};
use undertone_api::id::DatasetId;
use undertone_api::log::witness::MOST_RECEIPTS;
use undertone_api::signed::Signed;
use undertone_worker::cli;
use undertone_worker::config::{Config, ServerEndpoint};
use undertone_worker::daemon::{self, Site};
use undertone_worker::gateway::{Gateway, GatewayError, ServerOffer};
use undertone_worker::site::clock;
use undertone_worker::site::datasets::note_registered;
use undertone_worker::site::folder::Folder;
use undertone_worker::site::keys::SiteKey;
use undertone_worker::site::policy::declare;
use undertone_worker::site::witness::{WitnessVerdict, judge, question, record_countersignatures};
use undertone_worker::speech::dataset::layout::VERSION;
use undertone_worker::speech::dataset::{Meta, SplitCounts};

use super::record::RequestRecord;
use super::{job, part};

/// The time that the server may wait for an offer, as in the daemon.
pub(super) const WAIT: Duration = Duration::from_secs(20);
/// The pause after a call that may succeed later.
pub(super) const AGAIN: Duration = Duration::from_millis(200);
/// The number of utterances of every dataset.
pub(super) const UTTERANCES: usize = 480;

/// A simulated worker. Dropping it leaves its site as a crash would.
pub(super) struct SimulatedWorker {
    site: Site,
    gateway: Gateway,
    config: Config,
    steward: TestClient,
    dataset: DatasetId,
}

/// Redeems an enrolment token, as `undertone-worker enroll` does.
///
/// # Errors
/// When the server rejects it, or the disk fails.
pub(super) async fn enrol(root: &Path, token: &str) -> TestResult<()> {
    let folder = Folder::new(root);
    cli::enroll(&folder, token).await?;
    // The server is measured, so stewards sign nothing, and the sites trust its statements.
    let policy = std::fs::read_to_string(folder.policy())?;
    let policy = policy.replace("approval = \"steward\"", "approval = \"server\"");
    // The jobs protect records, which a limit of speakers would refuse.
    std::fs::write(folder.policy(), policy.replace("[budget.speaker]", "[budget.record]"))?;
    Ok(())
}

impl SimulatedWorker {
    /// Opens the enrolled site at `root`, connects it to its server by way of `server`, and registers a dataset of this
    /// name; `steward` decides about it.
    ///
    /// # Errors
    /// When the site cannot be opened, or the server rejects the dataset.
    pub(super) async fn open(
        root: &Path,
        server: &ServerEndpoint,
        steward: TestClient,
        name: &str,
        public: bool,
    ) -> TestResult<Self> {
        let folder = Folder::new(root);
        let config = Config { server: server.clone(), ..Config::load(&folder)? };
        describe(&folder.dataset(name)?, name)?;
        if public {
            declare(&folder.policy(), name, Visibility::Public)?;
        }
        let gateway = Gateway::for_site(&config, &folder, SiteKey::load(&folder.key())?)?;
        let site = Site::open(folder, &config, clock::system())?;
        let datasets = site.find_datasets()?;
        let [local] = &*datasets else { return Err("a simulated site has one dataset".into()) };
        let dataset = gateway.register(&local.registration()).await?;
        note_registered(site.store(), &local.name, dataset)?;
        // Read again, now with its id.
        site.find_datasets()?;
        Ok(Self { site, gateway, config, steward, dataset })
    }

    /// Returns the site.
    pub(super) const fn site(&self) -> &Site {
        &self.site
    }

    /// Returns the gateway to the server.
    pub(super) const fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Returns the worker's configuration.
    pub(super) const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the client of the dataset's steward.
    pub(super) const fn steward(&self) -> &TestClient {
        &self.steward
    }

    /// Returns the dataset.
    pub(super) const fn dataset(&self) -> DatasetId {
        self.dataset
    }

    /// Runs as a daemon until dropped: requests proofs from the server's log, waits for offers, answers them, and takes
    /// part.
    pub(super) async fn live(self: Arc<Self>, record: RequestRecord) {
        // Its parts end with it.
        let mut parts = JoinSet::new();
        let (mut known, mut leases) = (HashSet::<String>::new(), Vec::<String>::new());
        if let Err(error) = self.arrive(&record).await {
            record.failed("worker's start", &error);
        }
        loop {
            let decided: Vec<String> = known.iter().cloned().collect();
            let began = Instant::now();
            let outcome: TestResult<()> = match self.gateway.next_offer(WAIT, &decided, &leases).await {
                Ok(ServerOffer::Nothing) => {
                    let late = began.elapsed().saturating_sub(WAIT);
                    record.waited("NextOffer without an offer, beyond the wait asked for", late);
                    Ok(())
                }
                Ok(ServerOffer::Proposal { manifest, dataset }) => {
                    known.insert(manifest.digest());
                    self.answer(&record, &manifest, dataset).await
                }
                Ok(ServerOffer::Work(work)) => {
                    leases.push(work.lease.clone());
                    parts.spawn(part::run(Arc::clone(&self), work, record.clone()));
                    Ok(())
                }
                Err(error) => Err(error.into()),
            };
            if let Err(error) = outcome {
                record.failed("an offer", &error);
                tokio::time::sleep(AGAIN).await;
            }
            while parts.try_join_next().is_some() {}
        }
    }

    /// Makes the daemon's requests before its first offer.
    async fn arrive(&self, record: &RequestRecord) -> TestResult<()> {
        wait_for_answer(record, "Receipts", || self.gateway.receipts(0)).await?;
        self.prove(record).await
    }

    /// Considers a proposal by policy and ledger, and sends the decision.
    async fn answer(&self, record: &RequestRecord, manifest: &Signed, dataset: DatasetId) -> TestResult<()> {
        block_in_place(|| daemon::consider(&self.site, manifest, dataset))?;
        for (decided, signed) in block_in_place(|| daemon::pending_decisions(&self.site))? {
            wait_for_answer(record, "Decide", || self.gateway.decide(&signed)).await?;
            block_in_place(|| daemon::acknowledge(&self.site, &decided))?;
        }
        Ok(())
    }

    /// Stores the countersignatures in the answer to a submission, then requests proofs, as the daemon does.
    ///
    /// # Errors
    /// When the server contradicts itself or the disk fails.
    pub(super) async fn attest(&self, record: &RequestRecord, receipts: &[Signed], said: &[Signed]) -> TestResult<()> {
        let (store, key) = (self.site.store(), &self.config.server_key);
        if let Some(contradiction) = block_in_place(|| record_countersignatures(store, key, receipts, said, now()))? {
            return Err(contradiction.into());
        }
        self.prove(record).await
    }

    /// Requests proofs until every receipt at the server is proved.
    async fn prove(&self, record: &RequestRecord) -> TestResult<()> {
        let (store, key) = (self.site.store(), &self.config.server_key);
        loop {
            let request = block_in_place(|| question(store))?;
            let (head, numbers) = (request.known.as_ref(), request.numbers());
            let answer = wait_for_answer(record, "Witness", || self.gateway.witness(head, &numbers, None)).await?;
            match block_in_place(|| judge(store, key, &request, &answer, now()))? {
                WitnessVerdict::Holds(proved) if proved < MOST_RECEIPTS => return Ok(()),
                WitnessVerdict::Holds(_) => {}
                WitnessVerdict::Contradicts(contradiction) => return Err(contradiction.into()),
            }
        }
    }
}

/// Returns the time at a site.
pub(super) fn now() -> OffsetDateTime {
    clock::system()()
}

/// Makes a call until it has a final answer; every attempt is a request.
///
/// # Errors
/// The first error that no further attempt can resolve.
pub(super) async fn wait_for_answer<T, F: Future<Output = Result<T, GatewayError>>>(
    record: &RequestRecord,
    kind: &'static str,
    call: impl Fn() -> F,
) -> Result<T, GatewayError> {
    loop {
        match record.request(kind, call()).await {
            Err(error) if error.is_transient() => tokio::time::sleep(AGAIN).await,
            answer => return answer,
        }
    }
}

/// Writes a description, which is all that a site's own modules read of a dataset.
fn describe(at: &Path, name: &str) -> TestResult<()> {
    fs::create_dir_all(at)?;
    let counts = SplitCounts { utterances: UTTERANCES, speakers: 48, frames: UTTERANCES as u64, users: 0 };
    let meta = Meta {
        format: VERSION,
        name: name.to_owned(),
        inputs: job::INPUTS as usize,
        classes: job::CLASSES as usize,
        utterances: UTTERANCES,
        speakers: 48,
        frames: UTTERANCES as u64,
        train: counts,
        test: SplitCounts::default(),
        sample_rate: 16_000,
        features: String::new(),
        treatment: None,
        labels: String::new(),
        unit_column: None,
        units: usual_units(),
        preparation: Some(undertone_worker::speech::dataset::PreparationRecord::default()),
        created: String::new(),
        digest: String::new(),
    };
    Ok(fs::write(at.join("meta.json"), serde_json::to_string(&meta)?)?)
}
