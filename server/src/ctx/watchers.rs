//! What is being watched in this process, and by how many: each subject is looked at once, however many pages show it.
//!
//! It holds no rules: `service::event` decides who may watch what, and looks. A replica counts its own streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use undertone_api::id::{ConsortiumId, JobId, MemberId};

/// Most streams that one member has open at a replica: tabs, machines and programs together.
pub const MOST_STREAMS: u32 = 16;

/// What can be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A job.
    Job(JobId),
    /// A consortium, with its jobs, budgets and questions.
    Consortium(ConsortiumId),
}

/// How a subject stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Another one whenever anything of it is another.
    pub version: String,
    /// The state as JSON.
    pub json: String,
}

/// Where the newest state of a subject comes in; nothing before the first look.
pub type News = watch::Receiver<Option<Arc<Seen>>>;
/// Where who looks puts it.
pub type Desk = watch::Sender<Option<Arc<Seen>>>;

/// What is being watched in this process.
#[derive(Debug, Default)]
pub struct Watchers {
    subjects: Mutex<HashMap<Subject, Desk>>,
    seats: Mutex<HashMap<MemberId, u32>>,
}

impl Watchers {
    /// Joins those who watch a subject; whoever is first also gets the desk, and looks for all.
    pub fn join(&self, subject: Subject) -> (News, Option<Desk>) {
        let mut subjects = lock(&self.subjects);
        if let Some(desk) = subjects.get(&subject) {
            return (desk.subscribe(), None);
        }
        let (desk, news) = watch::channel(None);
        subjects.insert(subject, desk.clone());
        (news, Some(desk))
    }

    /// Whether nobody watches a subject any more; then it is forgotten, and who looked for it stops.
    pub fn is_left(&self, subject: Subject) -> bool {
        let mut subjects = lock(&self.subjects);
        let left = subjects.get(&subject).is_none_or(|desk| desk.receiver_count() == 0);
        if left {
            subjects.remove(&subject);
        }
        left
    }

    /// A stream of a member's, counted until it is dropped; `None` when they have as many as they may.
    pub fn sit(self: &Arc<Self>, member: MemberId) -> Option<Seat> {
        let mut seats = lock(&self.seats);
        let taken = seats.entry(member).or_default();
        if *taken >= MOST_STREAMS {
            return None;
        }
        *taken += 1;
        drop(seats);
        Some(Seat { watchers: Arc::clone(self), member })
    }
}

/// A stream that is counted.
#[derive(Debug)]
pub struct Seat {
    watchers: Arc<Watchers>,
    member: MemberId,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = lock(&self.watchers.seats);
        if let Some(taken) = seats.get_mut(&self.member) {
            *taken -= 1;
            if *taken == 0 {
                seats.remove(&self.member);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use undertone_api::id::{JobId, MemberId};
    use uuid::Uuid;

    use super::{MOST_STREAMS, Subject, Watchers};

    #[test]
    fn a_subject_is_looked_at_by_one_for_all_until_nobody_watches() {
        let (watchers, subject) = (Watchers::default(), Subject::Job(JobId(Uuid::nil())));
        let (first, desk) = watchers.join(subject);
        let (second, none) = watchers.join(subject);
        assert!(desk.is_some() && none.is_none());
        drop(first);
        assert!(!watchers.is_left(subject));
        drop(second);
        assert!(watchers.is_left(subject));
        assert!(watchers.join(subject).1.is_some(), "the next one looks again");
    }

    #[test]
    fn a_member_has_so_many_streams_and_one_that_ends_makes_room() {
        let watchers = Arc::new(Watchers::default());
        let (one, other) = (MemberId(Uuid::from_u128(1)), MemberId(Uuid::from_u128(2)));
        let mut seats: Vec<_> = (0..MOST_STREAMS).map(|_| watchers.sit(one).expect("there is room")).collect();
        assert!(watchers.sit(one).is_none());
        assert!(watchers.sit(other).is_some());
        seats.pop();
        assert!(watchers.sit(one).is_some());
    }
}
