//! The texts that survived the gate, before and after they become a pool.

use std::collections::BinaryHeap;

use undertone_api::job::active_learning::Gate as Settings;
use undertone_api::question::MOST_QUESTIONS;
use undertone_privacy::{Event, SamplingRate};
use undertone_proto::question::{self, MAX_COUNT, QuestionError, QuestionLine};
use xxhash_rust::xxh3::xxh3_64;

use super::GateError;
use crate::count::CountError;
use undertone_worker_site::clearance::{Clearance, GrantId, PublicProof};

/// The texts with at least k kept rows, with their exact counts. As private as the log.
///
/// One grant makes one pool, and one sample makes one pool:
///
/// ```compile_fail,E0382
/// use undertone_worker_queries::gate::Survivors;
/// use undertone_worker_site::clearance::Clearance;
/// fn twice(survivors: Survivors, one: Clearance, two: Clearance) {
///     let _ = survivors.release(one);
///     let _ = survivors.release(two);
/// }
/// ```
///
/// ```compile_fail,E0382
/// use undertone_worker_queries::gate::Survivors;
/// use undertone_worker_site::clearance::Clearance;
/// fn with_one_grant(first: Survivors, second: Survivors, granted: Clearance) {
///     let _ = first.release(granted);
///     let _ = second.release(granted);
/// }
/// ```
///
/// They cannot be printed:
///
/// ```compile_fail,E0277
/// use undertone_worker_queries::gate::Survivors;
/// fn print(survivors: &Survivors) -> String {
///     format!("{survivors:?}")
/// }
/// ```
#[must_use = "a sample was drawn for them"]
pub struct Survivors {
    /// The best rank first.
    texts: Vec<RankedText>,
    event: Event,
    rate: SamplingRate,
    counts: bool,
}

/// A survivor and its rank among those that fit into a pool; lower ranks come first. If the release is charged for
/// counts, the most frequent texts come first. If it is charged for the set only, the rank follows from the text alone,
/// so that it reveals nothing about the counts.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct RankedText {
    rank: u64,
    text: String,
    count: u64,
}

impl Survivors {
    /// Collects the exact counts, and keeps at most as many as a pool may hold. The truncation depends only on released
    /// values, so it is free.
    pub(super) fn from_counts(
        counts: impl Iterator<Item = Result<(String, u64), CountError>>,
        settings: &Settings,
    ) -> Result<Self, GateError> {
        let mut best = BinaryHeap::new();
        for survivor in counts {
            let (text, count) = survivor?;
            let rank = if settings.shows_counts() { u64::MAX - count } else { xxh3_64(text.as_bytes()) };
            best.push(RankedText { rank, text, count });
            if best.len() as u64 > MOST_QUESTIONS {
                best.pop();
            }
        }
        Ok(Self {
            texts: best.into_sorted_vec(),
            event: settings.event(),
            rate: settings.sampling_rate,
            counts: settings.shows_counts(),
        })
    }

    /// Returns the texts and their counts, for comparison.
    #[cfg(test)]
    pub(super) fn exact(&self) -> std::collections::BTreeMap<String, u64> {
        self.texts.iter().map(|survivor| (survivor.text.clone(), survivor.count)).collect()
    }

    /// Returns the event that the ledger charges for them.
    pub const fn event(&self) -> &Event {
        &self.event
    }

    /// Returns the result of a release with counts, for rehearsals on data that the site's policy marks as public; a
    /// rehearsal sends nothing. The permission is borrowed, not consumed; private data have none.
    pub(crate) fn rehearsed(self, _published: &PublicProof) -> Vec<(String, u64)> {
        self.texts.into_iter().map(|survivor| (survivor.text, survivor.count)).collect()
    }

    /// Returns the texts and their counts, for the benchmark module, which returns figures only.
    #[cfg(feature = "bench")]
    pub(crate) fn measured(&self) -> impl Iterator<Item = (&str, u64)> {
        self.texts.iter().map(|survivor| (survivor.text.as_str(), survivor.count))
    }

    /// Makes a pool, which the site stores and charges before it leaves. It consumes the permission: a grant for
    /// exactly this release, or the site's statement that the data are public. The pool contains counts only if the
    /// release is charged for showing them.
    ///
    /// # Errors
    /// [`GateError`] when the grant is for another release, or for one without sampling. Nothing has been charged then.
    pub fn release(self, clearance: Clearance) -> Result<OutgoingPool, GateError> {
        let grant = match clearance {
            Clearance::Public(_) => None,
            Clearance::Granted(_) if self.rate == SamplingRate::ONE => return Err(GateError::Unsampled),
            Clearance::Granted(grant) if *grant.event() == self.event => Some(grant.id().clone()),
            Clearance::Granted(grant) => {
                let granted = Box::new(grant.event().clone());
                return Err(GateError::WrongEvent { granted, made: Box::new(self.event) });
            }
        };
        let posed = |survivor: &RankedText| QuestionLine {
            text: survivor.text.clone(),
            count: self.counts.then_some(survivor.count.min(MAX_COUNT)),
        };
        let mut fit = self.texts.len();
        loop {
            match question::write(self.texts[..fit].iter().map(posed).collect()) {
                Ok(bytes) => return Ok(OutgoingPool { bytes, questions: fit as u64, grant }),
                // The message is bounded in bytes, too. This truncation also depends only on released values.
                Err(QuestionError::TooLong(_)) if fit > 0 => fit -= fit.div_ceil(8),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A finished pool: everything that an exchange stores, charges and sends, in this order.
///
/// Only [`Survivors`] with a permission can make one. A plain text is not a pool:
///
/// ```compile_fail,E0451
/// use undertone_worker_queries::gate::OutgoingPool;
/// let bare = OutgoingPool { bytes: Vec::new(), questions: 0, grant: None };
/// ```
#[derive(Debug)]
#[must_use = "it was made to be sent"]
pub struct OutgoingPool {
    bytes: Vec<u8>,
    questions: u64,
    grant: Option<GrantId>,
}

impl OutgoingPool {
    /// Returns the message to send, in the form that [`undertone_proto::question::read`] reads.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of questions.
    pub const fn questions(&self) -> u64 {
        self.questions
    }

    /// Returns the grant that the pool was made under; `None` for public data.
    pub const fn grant(&self) -> Option<&GrantId> {
        self.grant.as_ref()
    }

    /// Returns the message.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
