//! The state of the server in memory and of the sites' disks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use undertone_api::id::{DatasetId, QuestionId};
use undertone_api::job::audit::AuditFinding;
use undertone_api::job::{Measurement, Report};

use crate::queries::released::Released;
use crate::run::{AnswerLine, RoundKey, RoundProgress};

/// The event after which a process crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CrashPoint {
    /// The site has cleared the release, and nothing is stored.
    Cleared,
    /// The release is stored and paid, and nothing has left.
    Stored,
    /// The server, or every recipient, has the release.
    Accepted,
}

/// A release on a site's disk.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FakeRelease {
    /// The numbers of a vector.
    Vector(Vec<f32>),
    /// A noisy integer sum, which the server learns only added to those of the group.
    Sum(Vec<i32>),
    /// The bytes of a pool of questions.
    Pool(Vec<u8>),
    /// The digest of a sealed batch.
    Batch(String),
}

/// A key of a round that owns its series.
pub(super) type OwnedKey = (String, u32);

pub(super) fn to_owned_key(key: RoundKey<'_>) -> OwnedKey {
    (key.series.to_owned(), key.round)
}

/// The answers of the annotators to a question of the pools.
pub(crate) type AnswerFn = dyn Fn(QuestionId, &[Released]) -> Vec<AnswerLine> + Send + Sync;

/// The state of the server and of all sites.
#[derive(Default)]
pub(crate) struct FakeState {
    /// The folder of each dataset.
    pub(crate) datasets: HashMap<DatasetId, PathBuf>,
    /// The datasets that the policies mark as public.
    pub(crate) public: HashSet<DatasetId>,
    /// Vectors by round and participant.
    pub(crate) vectors: HashMap<OwnedKey, BTreeMap<usize, Vec<f32>>>,
    /// Sums of masked rounds by round and participant.
    pub(crate) sums: HashMap<OwnedKey, BTreeMap<usize, Vec<i32>>>,
    /// Pools in order of arrival.
    pub(crate) pools: Vec<(DatasetId, Vec<u8>)>,
    /// The chosen questions, by round.
    pub(crate) choices: BTreeMap<u32, Vec<(QuestionId, f64)>>,
    /// The annotators.
    pub(crate) answers: Option<Arc<AnswerFn>>,
    /// Files of the job.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Figures in order of arrival.
    pub(crate) measurements: Vec<Measurement>,
    /// The job's report.
    pub(crate) report: Option<Report>,
    /// A participant that misses the first rounds of `private`.
    pub(crate) absent: Option<(usize, u32)>,
    pub(super) is_cancelled: bool,
    sites: BTreeMap<usize, FakeSite>,
}

impl FakeState {
    /// Returns the disk of a participant's site.
    pub(crate) fn site(&mut self, index: usize) -> &mut FakeSite {
        self.sites.entry(index).or_default()
    }
}

/// The state that a site keeps across its processes, and what a test requests of it.
#[derive(Default)]
pub(crate) struct FakeSite {
    /// Releases on disk.
    pub(crate) releases: HashMap<OwnedKey, FakeRelease>,
    /// The number of payments.
    pub(crate) payments: u32,
    /// The number of processes so far.
    pub(crate) processes: u32,
    /// The number of calls to the server by the last process.
    pub(crate) calls: u32,
    /// The findings of audits, in order of submission.
    pub(crate) findings: Vec<AuditFinding>,
    /// The number of requests for randomness, by purpose.
    pub(crate) draws: HashMap<u32, u32>,
    /// The seed of all draws, if they have to be repeatable.
    pub(crate) seed: Option<u8>,
    /// Whether the site refuses every release.
    pub(crate) refuses: bool,
    /// The number of checks for a stop before the answer is yes.
    pub(crate) stop_after: Option<u32>,
    /// The number of calls to the server before a crash.
    pub(crate) crash_after_calls: Option<u32>,
    pub(super) accepted: HashSet<OwnedKey>,
    pub(super) crashes: Vec<(CrashPoint, OwnedKey)>,
}

impl FakeSite {
    /// Requests a crash.
    pub(crate) fn crash(&mut self, point: CrashPoint, key: RoundKey<'_>) {
        self.crashes.push((point, to_owned_key(key)));
    }

    /// Returns the progress of a round.
    pub(crate) fn progress(&self, key: RoundKey<'_>) -> RoundProgress {
        let key = to_owned_key(key);
        if self.accepted.contains(&key) {
            RoundProgress::Accepted
        } else if self.releases.contains_key(&key) {
            RoundProgress::Stored
        } else {
            RoundProgress::Untouched
        }
    }
}
