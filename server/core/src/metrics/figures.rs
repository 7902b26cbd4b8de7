//! Figures that are queried, not counted: jobs, rounds, workers and ledger in the tables, bytes in the store, the
//! process. All replicas of a server report the same figures for tables and store.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures::TryStreamExt as _;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use super::process::ProcessUsage;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::view::statistics::{self, ServerStatistics};

/// The time for which figures are cached, because a store may contain many objects.
const FRESH: Duration = Duration::from_secs(10);

/// The figures of the tables and the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    server: ServerStatistics,
    objects: u64,
    bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: String,
}

/// Days for which certificates hold; `None` where there is no such certificate.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CertificateDays {
    /// Until a generated certificate of the listeners is replaced.
    pub(super) rotation: Option<i64>,
    /// Until the first certificate of the signing keys ends.
    pub(super) signing: Option<i64>,
}

/// Queries all figures, at most once every [`FRESH`].
pub(super) async fn look(ctx: &Ctx) -> Result<Figures, Error> {
    let mut cache = ctx.metrics.0.figures.lock().await;
    if let Some((_, figures)) = cache.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
        return Ok(figures.clone());
    }
    let server = statistics::take(ctx).await?;
    let mut objects = 0;
    let mut bytes = 0;
    let mut listed = ctx.store.list(None);
    while let Some(object) =
        listed.try_next().await.map_err(|error| Error::internal("counting what is stored", error))?
    {
        objects += 1;
        bytes += object.size;
    }
    let figures = Figures { server, objects, bytes };
    *cache = Some((Instant::now(), figures.clone()));
    Ok(figures)
}

/// Registers the figures by name; those of the tables and the store only if they are available.
pub(super) fn register(all: &mut Registry, figures: Option<&Figures>, days: CertificateDays) {
    if let Some(Figures { server, objects, bytes }) = figures {
        register_states(all, "jobs", "Jobs by state", &server.jobs);
        register_states(all, "workers", "Workers, `seen` in the last two minutes or `silent`", &server.workers);
        register_number(all, "rounds_open", "Rounds that wait for submissions", server.rounds_open);
        register_number(all, "rounds_late", "Of these, rounds whose deadline has passed", server.rounds_late);
        register_number(all, "ledger_entries", "Entries of the consortium's ledger", server.ledger_entries);
        register_number(all, "log_leaves", "Leaves of the transparency log", server.log_leaves);
        register_number(all, "objects", "Objects in the store", *objects);
        register_gauge(all, "object", "Bytes in the store", Unit::Bytes, *bytes as f64);
    }
    if let Some(days) = days.rotation {
        let what = "Days until the next generated certificate takes the place of the present one";
        register_number(all, "certificate_rotation_days", what, days.max(0) as u64);
    }
    if let Some(days) = days.signing {
        let what = "Days until the server can sign no longer, because a certificate of its signing keys ends";
        register_number(all, "signing_certificate_days", what, days.max(0) as u64);
    }
    let usage = ProcessUsage::now();
    register_gauge(
        all,
        "process_resident_memory",
        "Memory of the process that is resident",
        Unit::Bytes,
        usage.resident as f64,
    );
    register_gauge(all, "process_cpu", "Time of processors that the process has used", Unit::Seconds, usage.processor);
    register_number(all, "process_open_files", "Files and sockets that the process has open", usage.open_files);
    register_number(all, "process_threads", "Threads of the process", usage.threads);
}

fn register_states(all: &mut Registry, name: &str, help: &str, counts: &BTreeMap<String, u64>) {
    let family = Family::<StateLabel, Gauge<u64, AtomicU64>>::default();
    for (state, count) in counts {
        family.get_or_create(&StateLabel { state: state.clone() }).set(*count);
    }
    all.register(name, help, family);
}

fn register_number(all: &mut Registry, name: &str, help: &str, value: u64) {
    let gauge = Gauge::<u64, AtomicU64>::default();
    gauge.set(value);
    all.register(name, help, gauge);
}

fn register_gauge(all: &mut Registry, name: &str, help: &str, unit: Unit, value: f64) {
    let gauge = Gauge::<f64, AtomicU64>::default();
    gauge.set(value);
    all.register_with_unit(name, help, unit, gauge);
}
