//! The time of an admission as the history grows: in the pure ledger, natively and in the browser, and at a site, on
//! disk.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use support::engine::BrowserEngine;
use tokio::runtime::Runtime;
use undertone_api::id::{DatasetId, JobId, LineageId, WorkerId};
use undertone_api::job::Charge;
use undertone_bits::work::Past;
use undertone_privacy::ledger::FilterKind;
use undertone_privacy::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, PrivacyUnit};
use undertone_worker::site::clock;
use undertone_worker::site::folder::Folder;
use undertone_worker::site::keys::SiteKey;
use undertone_worker::site::ledger::{Ledger, ReleaseContext};
use undertone_worker::site::outbox::{ReleaseOutbox, StoredRelease};
use undertone_worker::site::policy::{LifetimeLimit, UnitLimits};
use undertone_worker::site::store::Store;
use uuid::Uuid;

use super::{compiled, median, time, time_few};
use crate::report::{Outcome, Report};

const PURE: [u64; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// Numbers of events at a site, where each event is signed and synced to the disk.
const SITE: [u64; 2] = [1_000, 10_000];
/// The number of jobs admitted there.
const AT_SITE: u128 = 21;
/// Most jobs admitted between two readings of the clock, because a browser's clock is coarse. At most a fiftieth of the
/// history, so that repeated measurements do not change its length noticeably.
const JOBS: u64 = 500;

pub(super) fn measure(report: &mut Report, runtime: &Runtime, engine: &BrowserEngine) -> Outcome {
    for events in PURE {
        let mut past = Past::new(events);
        let (_, decision) = time(|| past.decide());
        let jobs = JOBS.min(events / 200);
        let seconds = time_few(|| (0..jobs).for_each(|_| past.admit()));
        drop(past);
        runtime.block_on(engine.call(&format!("bits.open_past({events})")))?;
        let (_, in_browser) = runtime.block_on(engine.time(&format!("bits.admit({jobs})"), 0))?;
        report.line(json!({
            "ledger": "pure", "events": events, "decision_seconds": decision,
            "reserve_commit_settle_seconds": seconds / jobs as f64,
            "wasm_reserve_commit_settle_seconds": in_browser / jobs as f64, "compiled": compiled(),
        }))?;
    }
    for events in SITE {
        let site = LedgerSite::new()?;
        site.live(events)?;
        let (decided, decision) = time(|| site.ledger.check(&release_context(u128::MAX), &site.limit));
        decided?;
        let (mut reserves, mut commits) = (Vec::new(), Vec::new());
        for number in 0..AT_SITE {
            let under = release_context(u128::MAX - number);
            let start = Instant::now();
            site.ledger.reserve(&under, &site.limit)?;
            reserves.push(start.elapsed().as_secs_f64());
            let release = site.store(&under, 1)?;
            let start = Instant::now();
            site.ledger.commit(&under, &event(), &release)?;
            commits.push(start.elapsed().as_secs_f64());
        }
        report.line(json!({
            "ledger": "site, in SQLite", "events": events, "decision_seconds": decision,
            "durable_reserve_seconds": median(reserves), "durable_commit_seconds": median(commits),
        }))?;
    }
    Ok(())
}

/// A site with only a ledger.
struct LedgerSite {
    ledger: Ledger,
    limit: UnitLimits,
    folder: tempfile::TempDir,
}

impl LedgerSite {
    fn new() -> Result<Self, Box<dyn Error>> {
        let temporary = tempfile::tempdir()?;
        let folder = Folder::new(temporary.path());
        let key = SiteKey::load_or_make(&folder.key())?;
        let store = Arc::new(Store::create(&folder.ledger())?);
        let ledger = Ledger::open(store, folder.lock()?, key, WorkerId(Uuid::from_u128(1)), clock::system())?;
        let own = LifetimeLimit { epsilon: Epsilon::new(10.0)?, delta: Delta::new(1e-6)?, filter: FilterKind::Renyi };
        let limit = UnitLimits { own, others: Vec::new() };
        Ok(Self { ledger, limit, folder: temporary })
    }

    /// Stores the bytes of a release.
    fn store(&self, under: &ReleaseContext, round: u32) -> Result<StoredRelease, Box<dyn Error>> {
        let outbox = ReleaseOutbox::new(under.job, under.dataset, self.folder.path());
        Ok(outbox.store("private", round, &[], 0)?)
    }

    /// Makes a history of so many events: jobs with a reservation, two releases and a settlement.
    fn live(&self, events: u64) -> Outcome {
        for job in 0..events.div_ceil(4) {
            let under = release_context(u128::from(job));
            self.ledger.reserve(&under, &self.limit)?;
            for round in 1..=2 {
                self.ledger.commit(&under, &event(), &self.store(&under, round)?)?;
            }
            self.ledger.settle(&under)?;
        }
        Ok(())
    }
}

/// Returns a release so small that a budget permits millions of them.
fn event() -> Event {
    Event::Gaussian { noise_multiplier: NoiseMultiplier::new(10_000.0).expect("a noise") }
}

/// Returns one job's part.
fn release_context(job: u128) -> ReleaseContext {
    ReleaseContext {
        job: JobId(Uuid::from_u128(job)),
        dataset: DatasetId(Uuid::from_u128(2)),
        lineage: LineageId(Uuid::from_u128(3)),
        manifest: "digest".to_owned(),
        charge: Charge { unit: PrivacyUnit::Record, adjacency: Adjacency::ZeroOut, event: event(), releases: 3 },
    }
}
