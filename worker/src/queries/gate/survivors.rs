//! What came through the gate, before and after it is made a pool.

use std::collections::BinaryHeap;

use undertone_api::job::active_learning::Gate as Settings;
use undertone_api::question::MOST_QUESTIONS;
use undertone_privacy::{Event, SamplingRate};
use undertone_proto::question::{self, MAX_COUNT, Posed, QuestionError};
use xxhash_rust::xxh3::xxh3_64;

use super::GateError;
use crate::queries::count::CountError;
use crate::site::clearance::{Clearance, GrantId, Published};

/// The texts with at least k kept rows, with their exact counts. As private as the log.
///
/// One grant makes one pool, and one sample makes one pool:
///
/// ```compile_fail,E0382
/// use undertone_worker::{queries::gate::Survivors, site::clearance::Clearance};
/// fn twice(survivors: Survivors, one: Clearance, two: Clearance) {
///     let _ = survivors.release(one);
///     let _ = survivors.release(two);
/// }
/// ```
///
/// ```compile_fail,E0382
/// use undertone_worker::{queries::gate::Survivors, site::clearance::Clearance};
/// fn with_one_grant(first: Survivors, second: Survivors, granted: Clearance) {
///     let _ = first.release(granted);
///     let _ = second.release(granted);
/// }
/// ```
///
/// They cannot be looked at:
///
/// ```compile_fail,E0277
/// use undertone_worker::queries::gate::Survivors;
/// fn shown(survivors: &Survivors) -> String {
///     format!("{survivors:?}")
/// }
/// ```
#[must_use = "a sample was drawn for them"]
pub struct Survivors {
    /// The best rank first.
    texts: Vec<Ranked>,
    event: Event,
    rate: SamplingRate,
    counts: bool,
}

/// A survivor and its place among those that fit into a pool; less is better. Where counts are paid for, the most frequent come
/// first. Where only the set is, the place follows from the text alone, so that it tells nothing of the counts.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    rank: u64,
    text: String,
    count: u64,
}

impl Survivors {
    /// Takes the exact counts; at most as many as a pool may hold are kept. That follows from what is released, so it is free.
    pub(super) fn of(
        counts: impl Iterator<Item = Result<(String, u64), CountError>>,
        settings: &Settings,
    ) -> Result<Self, GateError> {
        let mut best = BinaryHeap::new();
        for survivor in counts {
            let (text, count) = survivor?;
            let rank = if settings.shows_counts() { u64::MAX - count } else { xxh3_64(text.as_bytes()) };
            best.push(Ranked { rank, text, count });
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

    /// The texts and their counts, for comparison.
    #[cfg(test)]
    pub(super) fn exact(&self) -> std::collections::BTreeMap<String, u64> {
        self.texts.iter().map(|survivor| (survivor.text.clone(), survivor.count)).collect()
    }

    /// What is to be paid for them.
    pub const fn event(&self) -> &Event {
        &self.event
    }

    /// What would be released, with counts: for rehearsals on data that the site's policy marks as public, which send nothing. The
    /// permission is looked at, not used up; there is none for private data.
    pub(in crate::queries) fn rehearsed(self, _published: &Published) -> Vec<(String, u64)> {
        self.texts.into_iter().map(|survivor| (survivor.text, survivor.count)).collect()
    }

    /// The texts and their counts, for the room of measurements, which gives away numbers only.
    pub(in crate::queries) fn measured(&self) -> impl Iterator<Item = (&str, u64)> {
        self.texts.iter().map(|survivor| (survivor.text.as_str(), survivor.count))
    }

    /// Makes a pool of them, which the site stores and pays for before it leaves. The permission is used up: a grant for exactly this
    /// release, or the site's word that the data are public. Counts go with the texts only where showing them is what is charged.
    ///
    /// # Errors
    /// [`GateError`] when the grant is for another release, or for one without sampling. Nothing was charged.
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
        let posed = |survivor: &Ranked| Posed {
            text: survivor.text.clone(),
            count: self.counts.then_some(survivor.count.min(MAX_COUNT)),
        };
        let mut fit = self.texts.len();
        loop {
            match question::write(self.texts[..fit].iter().map(posed).collect()) {
                Ok(bytes) => return Ok(OutgoingPool { bytes, questions: fit as u64, grant }),
                // What travels has a bound in bytes, too. Again a function of what is released.
                Err(QuestionError::TooLong(_)) if fit > 0 => fit -= fit.div_ceil(8),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A finished pool: all that an exchange can store, pay for and ask with, in this order.
///
/// There is one way to make one, from [`Survivors`] with a permission. Texts are none:
///
/// ```compile_fail,E0451
/// use undertone_worker::queries::gate::OutgoingPool;
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
    /// What is to be sent, as [`undertone_proto::question::read`] reads it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many questions it has.
    pub const fn questions(&self) -> u64 {
        self.questions
    }

    /// The grant that it was made under; none for public data.
    pub const fn grant(&self) -> Option<&GrantId> {
        self.grant.as_ref()
    }

    /// Its bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
