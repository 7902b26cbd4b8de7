//! Questions that sites release: the storage and the content of their pools. A pool is stored as its site sent it,
//! until its job ends. Only the chosen texts of a pool are ever written elsewhere.
//!
//! Pools are in memory packed, `READ_AT_A_TIME` of all jobs together, and are read line by line. Turns at reading go to the
//! organization that had least of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use object_store::ObjectStoreExt as _;
use object_store::path::Path;
use undertone_api::id::{DatasetId, JobId, QuestionId};
use undertone_proto::question::{self, QuestionError};
use uuid::Uuid;

use super::object::{ObjectError, Store};
use crate::fairness::{FairQueue, QueueLimits, WorkOwner};

/// Pools that are read at a time; so many times [`question::MAX_SIZE`] bytes of them are in memory at most.
pub const READ_AT_A_TIME: usize = 4;
/// Reads of pools that wait; of one organization.
pub const READING_WAITS: (usize, usize) = (512, 64);
/// Turns at reading a pool. Whoever waits for several pools waits for each: no turn is longer than one pool takes.
pub const READING: QueueLimits = QueueLimits {
    name: "questions",
    turns: "reads of pools of questions",
    at_a_time: READ_AT_A_TIME,
    waiting: READING_WAITS.0,
    waiting_of_owner: READING_WAITS.1,
    patience: std::time::Duration::from_secs(20),
};

/// A pool and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPool {
    /// The dataset of the pool.
    pub dataset: DatasetId,
    /// The path of the object.
    pub object: Path,
}

/// A question of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolQuestion {
    /// The id of the question.
    pub id: QuestionId,
    /// The dataset of the pool.
    pub dataset: DatasetId,
    /// The text of the question.
    pub text: String,
    /// The count, if it is shown.
    pub count: Option<u64>,
}

/// Returns the path of an attempt to send a pool. Every attempt has its own path, so that a refused one does not affect
/// an accepted one.
pub fn path(job: JobId, dataset: DatasetId, attempt: Uuid) -> Path {
    Path::from(format!("pools/{job}/{dataset}-{attempt}"))
}

/// Returns the number of questions of a pool. It reads every line, so a counted pool is completely valid.
///
/// # Errors
/// [`ObjectError::Questions`] when it is no pool, [`ObjectError::Store`]; [`ObjectError::Turn`] when none of `turns` comes.
pub async fn count(store: &Store, turns: &FairQueue, job: JobId, pool: &StoredPool) -> Result<u64, ObjectError> {
    read(store, turns, job, pool, |questions| {
        let mut count = 0;
        for question in questions {
            question?;
            count += 1;
        }
        Ok(count)
    })
    .await
}

/// Returns the questions with these ids in the pools of a job. An id without a result is in no pool.
///
/// # Errors
/// [`ObjectError::Store`]; [`ObjectError::Questions`] when what is stored is damaged; [`ObjectError::Turn`] when none of `turns`
/// comes.
pub async fn find(
    store: &Store,
    turns: &FairQueue,
    job: JobId,
    pools: &[StoredPool],
    ids: &[QuestionId],
) -> Result<HashMap<QuestionId, PoolQuestion>, ObjectError> {
    let mut matches = HashMap::with_capacity(ids.len());
    let mut open_ids: HashSet<QuestionId> = ids.iter().copied().collect();
    for pool in pools {
        if open_ids.is_empty() {
            break;
        }
        let searched = open_ids.clone();
        let own = read(store, turns, job, pool, move |questions| {
            questions
                .filter(|question| question.as_ref().map_or(true, |question| searched.contains(&question.id)))
                .collect::<Result<Vec<_>, _>>()
        });
        for question in own.await? {
            open_ids.remove(&question.id);
            matches.insert(question.id, question);
        }
    }
    Ok(matches)
}

/// Returns the next questions of the pools that are not in `excluded`, at most `limit`, after the question `after`.
///
/// # Errors
/// As [`find`].
pub async fn rest(
    store: &Store,
    turns: &FairQueue,
    job: JobId,
    pools: &[StoredPool],
    excluded: &[QuestionId],
    after: Option<QuestionId>,
    limit: usize,
) -> Result<Vec<PoolQuestion>, ObjectError> {
    let mut rest = Vec::new();
    let mut has_begun = after.is_none();
    let excluded: Arc<HashSet<QuestionId>> = Arc::new(excluded.iter().copied().collect());
    for pool in pools {
        let remaining = limit - rest.len();
        let own = Arc::clone(&excluded);
        if remaining == 0 {
            break;
        }
        let some = read(store, turns, job, pool, move |questions| {
            let mut some = Vec::new();
            for question in questions {
                let question = question?;
                if !has_begun {
                    has_begun = Some(question.id) == after;
                } else if !own.contains(&question.id) {
                    some.push(question);
                    if some.len() == remaining {
                        break;
                    }
                }
            }
            Ok((has_begun, some))
        });
        let (begins, some) = some.await?;
        has_begun = begins;
        rest.extend(some);
    }
    Ok(rest)
}

/// Reads a pool in the caller's turn, where it is allowed to take its time.
async fn read<T: Send + 'static>(
    store: &Store,
    turns: &FairQueue,
    job: JobId,
    pool: &StoredPool,
    read: impl FnOnce(&mut dyn Iterator<Item = Result<PoolQuestion, QuestionError>>) -> Result<T, QuestionError>
    + Send
    + 'static,
) -> Result<T, ObjectError> {
    let turn = turns.acquire(WorkOwner::current()).await.map_err(|error| ObjectError::Turn(Box::new(error)))?;
    let object = store.get(&pool.object).await?;
    let bytes = object.bytes().await?;
    let dataset = pool.dataset;
    let task = tokio::task::spawn_blocking(move || {
        let mut questions = question::read(&bytes)?.map(|question| {
            let question::QuestionLine { text, count } = question?;
            Ok(PoolQuestion { id: question::id(job, dataset, &text), dataset, text, count })
        });
        let result = read(&mut questions);
        // The bytes count until here, even after the caller was cancelled.
        drop(turn);
        result
    });
    let result = task.await.map_err(|error| object_store::Error::JoinError { source: error })?;
    Ok(result?)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use std::sync::Arc;

    use object_store::ObjectStoreExt as _;
    use object_store::memory::InMemory;
    use undertone_api::id::{DatasetId, JobId, OrganizationId};
    use undertone_api::problem::Code;
    use undertone_proto::question::{QuestionLine, id, write};
    use uuid::Uuid;

    use super::{ObjectError, READING, Store, StoredPool, count, find, path, rest};
    use crate::fairness::{FairQueue, QueueLimits, QueueTimings, WorkOwner};

    const JOB: JobId = JobId(Uuid::from_u128(1));

    fn turns(limits: QueueLimits) -> FairQueue {
        FairQueue::new(limits, QueueTimings::default())
    }

    const fn organization(number: u128) -> WorkOwner {
        WorkOwner::Organization(OrganizationId(Uuid::from_u128(number)))
    }

    async fn store_pools() -> (Store, Vec<StoredPool>) {
        let store: Store = Arc::new(InMemory::new());
        let mut pools = Vec::new();
        for (number, texts) in [(2, ["a", "b", "c"]), (3, ["b", "c", "d"])] {
            let dataset = DatasetId(Uuid::from_u128(number));
            let object = path(JOB, dataset, Uuid::from_u128(9));
            let questions = texts.map(|text| QuestionLine { text: text.to_owned(), count: None });
            store.put(&object, write(questions.to_vec()).unwrap().into()).await.unwrap();
            pools.push(StoredPool { dataset, object });
        }
        (store, pools)
    }

    #[tokio::test]
    async fn a_question_is_found_in_its_own_pool_and_in_no_other() {
        let (store, pools) = store_pools().await;
        let (second, strange) = (id(JOB, pools[1].dataset, "b"), id(JOB, pools[0].dataset, "d"));
        let questions = find(&store, &turns(READING), JOB, &pools, &[second, strange]).await.unwrap();
        assert_eq!(questions.len(), 1);
        assert_eq!((questions[&second].dataset, &*questions[&second].text), (pools[1].dataset, "b"));
        assert_eq!(count(&store, &turns(READING), JOB, &pools[0]).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn the_pages_of_what_is_not_chosen_are_all_of_it_once() {
        let (store, pools) = store_pools().await;
        let excluded = [id(JOB, pools[0].dataset, "b")];
        let (mut texts, mut after) = (Vec::new(), None);
        loop {
            let page = rest(&store, &turns(READING), JOB, &pools, &excluded, after, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            texts.extend(page.into_iter().map(|question| question.text));
        }
        assert_eq!(texts, ["a", "c", "b", "c", "d"]);
    }

    #[tokio::test]
    async fn what_is_no_pool_is_not_counted() {
        let (store, pools) = store_pools().await;
        store.put(&pools[0].object, b"a log".to_vec().into()).await.unwrap();
        assert!(matches!(count(&store, &turns(READING), JOB, &pools[0]).await, Err(ObjectError::Questions(_))));
    }

    #[tokio::test]
    async fn pool_is_read_in_the_turn_of_its_reader() {
        let turns = turns(QueueLimits { at_a_time: 2, ..READING });
        let (store, pools) = store_pools().await;
        let read = || count(&store, &turns, JOB, &pools[0]);
        let other = turns.acquire(organization(1)).await.unwrap();
        assert_eq!(read().await.unwrap(), 3, "a turn is left");
        let last = turns.acquire(organization(1)).await.unwrap();
        let waiting = read();
        tokio::pin!(waiting);
        assert!(futures::poll!(&mut waiting).is_pending());
        drop((other, last));
        assert_eq!(waiting.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn organization_with_many_reads_is_refused_beyond_its_share() {
        let turns = turns(QueueLimits { at_a_time: 1, waiting_of_owner: 2, ..READING });
        let (store, pools) = store_pools().await;
        let read = |owner: WorkOwner| Box::pin(owner.scope(count(&store, &turns, JOB, &pools[0])));
        let turn = turns.acquire(organization(1)).await.unwrap();
        let (mut first, mut second) = (read(organization(1)), read(organization(1)));
        assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
        let ObjectError::Turn(refused) = read(organization(1)).await.unwrap_err() else { panic!("another error") };
        let refused = refused.into_problem();
        assert_eq!((refused.code, refused.retry_after), (Code::RateLimited, Some(1)));
        let mut other = read(organization(2));
        assert!(futures::poll!(&mut other).is_pending(), "another organization has its own share");
        drop(turn);
        let (first, second, other) = tokio::join!(first, second, other);
        assert_eq!((first.unwrap(), second.unwrap(), other.unwrap()), (3, 3, 3));
    }
}
