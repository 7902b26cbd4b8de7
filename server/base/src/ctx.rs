//! The context of the service layer: database, clock, randomness, keys, files. One value, cheap to clone, made once in
//! `build`.

mod change_notifier;
mod checked_callers;
mod clock;
mod event_hub;
mod offer_cache;
mod part_plans;
pub(crate) mod random;
mod receipt_groups;
mod uploads;

use std::sync::Arc;

use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::auth::{Passwords, Provider};
use crate::compute::ComputePool;
use crate::config::Config;
use crate::db::Db;
use crate::exchange::annotate::READING;
use crate::exchange::object::Store;
use crate::exchange::spool::{SpoolLimits, SpoolSlots};
use crate::fairness::FairQueue;
use crate::keys::{LiveKeys, ServerSigner};
use crate::metrics::Metrics;
use crate::tls::ServedCertificate;

use self::receipt_groups::RECEIPTS;

pub use change_notifier::{ChangeNotifier, ChangeSubscription, DisplaySubscription, DisplayedChange, JobChannels};
pub use checked_callers::{CHECK_AGE, CallerCheck, CheckedCaller, CheckedCallers};
pub use clock::{Clock, ManualClock};
pub use event_hub::LOOKS_AT_A_TIME;
pub use event_hub::{
    EventHub, MOST_STREAMS, MOST_STREAMS_IN_ALL, MOST_STREAMS_OF_ADDRESS, MOST_STREAMS_OF_ORGANIZATION, StreamCaller,
    StreamPermit, StreamRefusal, StreamSubject, SubjectState, UpdateReceiver, UpdateSender,
};
pub use offer_cache::{CachedOffer, CachedOffers, OfferCache};
pub use part_plans::{MOST_PART_PLANS, PartPlan, PartPlans, SeriesPlan};
pub use random::{Random, fingerprint};
pub use receipt_groups::{
    MOST_GROUP_RECEIPTS, MOST_GROUP_WORKERS, MOST_WAITING_CALLS, ReceiptBatch, ReceiptGroups, VerifiedReceipt,
};
pub use uploads::UploadBytes;

/// The context of the service layer.
#[derive(Clone)]
pub struct Ctx(
    Arc<Parts>,
    ChangeNotifier,
    Arc<EventHub>,
    Arc<OfferCache>,
    Arc<SpoolSlots>,
    Arc<UploadBytes>,
    Arc<ComputePool>,
    Arc<FairQueue>,
    Arc<ReceiptGroups>,
    Arc<PartPlans>,
);

/// The parts of a [`Ctx`].
pub struct Parts {
    /// The configuration.
    pub config: Config,
    /// The database.
    pub db: Db,
    /// The clock.
    pub clock: Clock,
    /// The generator of secrets and ids.
    pub random: Random,
    /// Signs the server's documents; the public half of its first key is in every enrolment token.
    pub signer: ServerSigner,
    /// The keys that sign tokens and encrypt members' second factors.
    pub keys: LiveKeys,
    /// Identity providers, besides passwords.
    pub providers: Vec<Provider>,
    /// The store of vectors and files.
    pub store: Store,
    /// The certificate of both listeners, if the server serves TLS itself.
    pub tls: Option<ServedCertificate>,
    /// Counters and timings.
    pub metrics: Metrics,
    /// The addresses by which people and workers reach the server.
    pub addresses: Addresses,
    /// Hashes and checks passwords.
    pub passwords: Passwords,
    /// Cancelled at shutdown; every loop listens to it.
    pub shutdown: CancellationToken,
}

/// The addresses by which people and workers reach the server, without a trailing slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// For browsers: `https://undertone.example.org`.
    pub http: String,
    /// For workers: `https://undertone.example.org:8421`.
    pub grpc: String,
}

impl Ctx {
    /// Makes a context of its parts.
    pub fn new(parts: Parts) -> Self {
        let spools = SpoolSlots::new(SpoolLimits::default(), parts.metrics.clone());
        let compute = Arc::new(ComputePool::new(parts.metrics.queues()));
        let uploads = Arc::new(UploadBytes::new(parts.metrics.queues()));
        let event_hub = Arc::new(EventHub::new(parts.metrics.queues()));
        let readings = Arc::new(FairQueue::new(READING, parts.metrics.queues()));
        let receipts = Arc::new(ReceiptGroups::new(RECEIPTS, parts.metrics.queues()));
        let changes = ChangeNotifier::new();
        let plans = Arc::default();
        Self(Arc::new(parts), changes, event_hub, Arc::default(), spools, uploads, compute, readings, receipts, plans)
    }

    /// Returns the notifier of changes.
    pub const fn changes(&self) -> &ChangeNotifier {
        &self.1
    }

    /// Returns the registry of event streams.
    pub const fn event_hub(&self) -> &Arc<EventHub> {
        &self.2
    }

    /// Returns the cache of offers to workers.
    pub const fn offer_cache(&self) -> &Arc<OfferCache> {
        &self.3
    }

    /// Returns the queue of exports.
    pub const fn spools(&self) -> &Arc<SpoolSlots> {
        &self.4
    }

    /// Returns the bytes of running uploads.
    pub const fn uploads(&self) -> &Arc<UploadBytes> {
        &self.5
    }

    /// Returns the pool for computations of privacy loss.
    pub const fn compute(&self) -> &Arc<ComputePool> {
        &self.6
    }

    /// Returns the turns at reading pools of questions.
    pub fn readings(&self) -> &FairQueue {
        &self.7
    }

    /// Returns the receipts that wait to be counted together.
    pub fn receipt_groups(&self) -> &ReceiptGroups {
        &self.8
    }

    /// Returns the cache of what manifests plan for participants.
    pub fn part_plans(&self) -> &PartPlans {
        &self.9
    }

    /// Returns the current time, UTC, to the microsecond.
    pub fn now(&self) -> OffsetDateTime {
        self.clock.now()
    }

    /// Returns a new id of version 7: ids made later sort later, to the millisecond.
    pub fn id<T: From<Uuid>>(&self) -> T {
        let millis = self.now().unix_timestamp_nanos() / 1_000_000;
        let random: [u8; 10] = self.random.bytes();
        T::from(uuid::Builder::from_unix_timestamp_millis(millis.max(0) as u64, &random).into_uuid())
    }
}

impl std::ops::Deref for Ctx {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
