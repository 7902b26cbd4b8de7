//! Figures that are queried, not counted: jobs, rounds, workers and ledger in the tables, bytes in the store, the
//! process. All replicas of a server report the same figures for tables and store.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::process::ProcessUsage;

/// Statistics of the tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerStatistics {
    /// Jobs by state.
    pub jobs: BTreeMap<String, u64>,
    /// Workers by `seen` and `silent`.
    pub workers: BTreeMap<String, u64>,
    /// Open rounds of running jobs.
    pub rounds_open: u64,
    /// Those of them with a passed deadline.
    pub rounds_late: u64,
    /// Entries of the ledger.
    pub ledger_entries: u64,
    /// Leaves of the log.
    pub log_leaves: u64,
}

/// The figures of the tables and the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Statistics of the tables.
    pub server: ServerStatistics,
    /// Objects in the store.
    pub objects: u64,
    /// Bytes in the store.
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: String,
}

/// Days for which certificates hold; `None` where there is no such certificate.
#[derive(Debug, Clone, Copy, Default)]
pub struct CertificateDays {
    /// Until a generated certificate of the listeners is replaced.
    pub rotation: Option<i64>,
    /// Until the first certificate of the signing keys ends.
    pub signing: Option<i64>,
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
