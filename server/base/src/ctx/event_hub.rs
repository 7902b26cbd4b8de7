//! The subjects of the event streams in this process, and the number of streams: each subject is queried once for all
//! its streams.
//!
//! This module has no rules: `service::event` decides about access, and runs the queries. Each replica counts its own
//! streams.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use undertone_api::id::{ConsortiumId, JobId, MemberId, OrganizationId};
use undertone_api::problem::{Code, Problem};

use super::checked_callers::CheckedCallers;
use crate::fairness::{FairQueue, QueueLimits, QueueTimings};
use crate::network::network_of;

/// The highest number of streams of one member at a replica: tabs, machines and programs together.
pub const MOST_STREAMS: u32 = 16;
/// The highest number of streams of the members of one organization.
pub const MOST_STREAMS_OF_ORGANIZATION: u32 = 1024;
/// The highest number of streams from one address, which many members may share.
pub const MOST_STREAMS_OF_ADDRESS: u32 = 512;
/// The highest number of streams at a replica.
pub const MOST_STREAMS_IN_ALL: u32 = 4096;
/// Seconds after which a refused caller may retry.
const LATER: u32 = 10;
/// The number of subjects that are queried concurrently.
pub const LOOKS_AT_A_TIME: usize = 4;
/// The queue of queries; there are no more subjects than streams.
const LOOKS: QueueLimits = QueueLimits {
    name: "looks",
    turns: "watched jobs and consortia",
    at_a_time: LOOKS_AT_A_TIME,
    waiting: MOST_STREAMS_IN_ALL as usize,
    waiting_of_owner: MOST_STREAMS_IN_ALL as usize,
    patience: Duration::from_mins(1),
};

/// The subject of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamSubject {
    /// A job.
    Job(JobId),
    /// A consortium, with its jobs, budgets and questions.
    Consortium(ConsortiumId),
}

/// The state of a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectState {
    /// A version that differs whenever the state differs.
    pub version: String,
    /// The state as JSON.
    pub json: String,
}

/// Receives the newest state of a subject; `None` before the first query.
pub type UpdateReceiver = watch::Receiver<Option<Arc<SubjectState>>>;
/// Sends the newest state of a subject.
pub type UpdateSender = watch::Sender<Option<Arc<SubjectState>>>;

/// The subjects of the event streams in this process.
#[derive(Debug)]
pub struct EventHub {
    subjects: Mutex<HashMap<StreamSubject, UpdateSender>>,
    streams: Mutex<OpenStreams>,
    callers: CheckedCallers,
    looks: FairQueue,
}

/// The caller that opens a stream.
#[derive(Debug, Clone, Copy)]
pub struct StreamCaller {
    /// The member.
    pub member: MemberId,
    /// The member's organization, if any.
    pub organization: Option<OrganizationId>,
    /// The caller's address.
    pub address: IpAddr,
}

impl EventHub {
    /// Makes an empty registry.
    pub fn new(timings: QueueTimings) -> Self {
        Self {
            subjects: Mutex::default(),
            streams: Mutex::default(),
            callers: CheckedCallers::default(),
            looks: FairQueue::new(LOOKS, timings),
        }
    }

    /// Returns the last checks of the streams' callers.
    pub const fn callers(&self) -> &CheckedCallers {
        &self.callers
    }

    /// Returns the queue of queries.
    pub const fn looks(&self) -> &FairQueue {
        &self.looks
    }

    /// Subscribes to a subject. The first subscriber also gets the sender and must query for all.
    pub fn join(&self, subject: StreamSubject) -> (UpdateReceiver, Option<UpdateSender>) {
        let mut subjects = lock(&self.subjects);
        if let Some(sender) = subjects.get(&subject) {
            return (sender.subscribe(), None);
        }
        let (sender, updates) = watch::channel(None);
        subjects.insert(subject, sender.clone());
        (updates, Some(sender))
    }

    /// Removes a subject without subscribers, whose querying task stops. Returns whether it was removed.
    pub fn remove_unused(&self, subject: StreamSubject) -> bool {
        let mut subjects = lock(&self.subjects);
        let is_unused = subjects.get(&subject).is_none_or(|sender| sender.receiver_count() == 0);
        if is_unused {
            subjects.remove(&subject);
        }
        is_unused
    }

    /// Counts a stream of a member until the permit is dropped.
    ///
    /// # Errors
    /// [`StreamRefusal`] names the exceeded limit.
    pub fn acquire(self: &Arc<Self>, caller: StreamCaller) -> Result<StreamPermit, StreamRefusal> {
        let StreamCaller { member, organization, address } = caller;
        let network = network_of(address);
        let mut streams = lock(&self.streams);
        let of_member = streams.by_member.get(&member).copied().unwrap_or_default();
        let of_network = streams.by_network.get(&network).copied().unwrap_or_default();
        if of_member >= MOST_STREAMS {
            return Err(StreamRefusal::Member);
        }
        let of_organization = organization.and_then(|id| streams.by_organization.get(&id).copied()).unwrap_or_default();
        if of_organization >= MOST_STREAMS_OF_ORGANIZATION {
            return Err(StreamRefusal::Organization);
        }
        if of_network >= MOST_STREAMS_OF_ADDRESS {
            return Err(StreamRefusal::Address);
        }
        if streams.total >= MOST_STREAMS_IN_ALL {
            return Err(StreamRefusal::Total);
        }
        streams.total += 1;
        streams.by_member.insert(member, of_member + 1);
        streams.by_network.insert(network, of_network + 1);
        if let Some(id) = organization {
            streams.by_organization.insert(id, of_organization + 1);
        }
        drop(streams);
        Ok(StreamPermit { hub: Arc::clone(self), member, organization, network })
    }
}

/// The open streams.
#[derive(Debug, Default)]
struct OpenStreams {
    total: u32,
    by_member: HashMap<MemberId, u32>,
    by_organization: HashMap<OrganizationId, u32>,
    by_network: HashMap<IpAddr, u32>,
}

/// The exceeded limit of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamRefusal {
    /// [`MOST_STREAMS`].
    Member,
    /// [`MOST_STREAMS_OF_ORGANIZATION`].
    Organization,
    /// [`MOST_STREAMS_OF_ADDRESS`].
    Address,
    /// [`MOST_STREAMS_IN_ALL`].
    Total,
}

impl From<StreamRefusal> for Problem {
    fn from(refusal: StreamRefusal) -> Self {
        let (code, detail) = match refusal {
            StreamRefusal::Member => (
                Code::RateLimited,
                format!("a member has at most {MOST_STREAMS} streams at once: close some pages, and try again"),
            ),
            StreamRefusal::Organization => (
                Code::RateLimited,
                format!(
                    "an organization has at most {MOST_STREAMS_OF_ORGANIZATION} streams at once: close some pages, and try \
                     again"
                ),
            ),
            StreamRefusal::Address => (
                Code::RateLimited,
                format!("an address has at most {MOST_STREAMS_OF_ADDRESS} streams at once: close some, and try again"),
            ),
            StreamRefusal::Total => {
                (Code::Unavailable, format!("the server has {MOST_STREAMS_IN_ALL} streams open: try again later"))
            }
        };
        Self::new(code, detail).with_retry_after(LATER)
    }
}

/// The permit of a counted stream.
#[derive(Debug)]
pub struct StreamPermit {
    hub: Arc<EventHub>,
    member: MemberId,
    organization: Option<OrganizationId>,
    network: IpAddr,
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut streams = lock(&self.hub.streams);
        streams.total -= 1;
        release(&mut streams.by_member, &self.member);
        release(&mut streams.by_network, &self.network);
        if let Some(id) = &self.organization {
            release(&mut streams.by_organization, id);
        }
    }
}

fn release<K: Hash + Eq>(counts: &mut HashMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;

    use undertone_api::id::{JobId, MemberId, OrganizationId};
    use undertone_api::problem::{Code, Problem};
    use uuid::Uuid;

    use super::{
        EventHub, MOST_STREAMS, MOST_STREAMS_IN_ALL, MOST_STREAMS_OF_ADDRESS, MOST_STREAMS_OF_ORGANIZATION,
        StreamCaller, StreamRefusal, StreamSubject, lock,
    };
    use crate::fairness::QueueTimings;

    #[test]
    fn subject_has_one_querying_task_until_the_last_stream_ends() {
        let hub = hub();
        let subject = StreamSubject::Job(JobId(Uuid::nil()));
        let (first, sender) = hub.join(subject);
        let (second, none) = hub.join(subject);
        assert!(sender.is_some() && none.is_none());
        drop(first);
        assert!(!hub.remove_unused(subject));
        drop(second);
        assert!(hub.remove_unused(subject));
        assert!(hub.join(subject).1.is_some(), "the next one looks again");
    }

    fn member(number: u32) -> MemberId {
        MemberId(Uuid::from_u128(number.into()))
    }

    fn hub() -> EventHub {
        EventHub::new(QueueTimings::default())
    }

    /// Returns a member without an organization.
    fn caller(number: u32, last: u32) -> StreamCaller {
        StreamCaller { member: member(number), organization: None, address: address(last) }
    }

    fn address(last: u32) -> IpAddr {
        IpAddr::from(Ipv4Addr::from_bits((10 << 24) + last))
    }

    #[test]
    fn member_beyond_its_streams_is_refused() {
        let hub = Arc::new(hub());
        let acquire = |number| hub.acquire(caller(1, number));
        let mut streams: Vec<_> = (0..MOST_STREAMS).map(|number| acquire(number).expect("there is room")).collect();
        assert_eq!(acquire(99).expect_err("one more"), StreamRefusal::Member);
        assert!(hub.acquire(caller(2, 1)).is_ok());
        streams.pop();
        assert!(acquire(99).is_ok());
    }

    #[test]
    fn organization_beyond_its_streams_is_refused() {
        let hub = Arc::new(hub());
        let caller_of = |organization: u128, number| StreamCaller {
            organization: Some(OrganizationId(Uuid::from_u128(organization))),
            ..caller(number, number)
        };
        let mut streams: Vec<_> = (0..MOST_STREAMS_OF_ORGANIZATION)
            .map(|number| hub.acquire(caller_of(1, number)).expect("there is room"))
            .collect();
        let refusal = hub.acquire(caller_of(1, 9999)).expect_err("one more");
        assert_eq!(refusal, StreamRefusal::Organization);
        assert_eq!(Problem::from(refusal).code, Code::RateLimited);
        assert!(hub.acquire(caller_of(2, 9999)).is_ok());
        streams.pop();
        assert!(hub.acquire(caller_of(1, 9999)).is_ok());
        streams.clear();
        assert!(lock(&hub.streams).by_organization.is_empty(), "the counts are removed");
    }

    #[test]
    fn address_beyond_its_streams_is_refused() {
        let hub = Arc::new(hub());
        let mut streams: Vec<_> =
            (0..MOST_STREAMS_OF_ADDRESS).map(|number| hub.acquire(caller(number, 1)).expect("there is room")).collect();
        assert_eq!(hub.acquire(caller(9999, 1)).expect_err("one more"), StreamRefusal::Address);
        assert!(hub.acquire(caller(9999, 2)).is_ok());
        streams.clear();
        assert!(hub.acquire(caller(9999, 1)).is_ok());
        assert!(lock(&hub.streams).by_network.is_empty(), "the counts are removed");
    }

    #[test]
    fn replica_beyond_its_streams_is_refused() {
        let hub = Arc::new(hub());
        let _seats: Vec<_> = (0..MOST_STREAMS_IN_ALL)
            .map(|number| hub.acquire(caller(number, number)).expect("there is room"))
            .collect();
        let refusal = hub.acquire(caller(9999, 9999)).expect_err("one more");
        assert_eq!(refusal, StreamRefusal::Total);
        let problem = Problem::from(refusal);
        assert_eq!((problem.code, problem.retry_after), (Code::Unavailable, Some(10)));
    }
}
