//! A cache of pending offers for all workers: two hundred workers that wake at the same time share one database query.
//! It may contain too much, because each reader verifies an offer with its own query. It must never contain too little.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

/// The newest query's result, and the time at which the query began.
#[derive(Default)]
pub struct Board(Mutex<Option<(Instant, Arc<Posted>)>>);

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Posted {
    /// The public key of each worker that is not retired.
    pub keys: HashMap<Uuid, String>,
    /// Possible offers, by worker.
    pub due: HashMap<Uuid, Vec<Due>>,
}

/// A possible offer to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// A decision about the job whose manifest has this digest.
    Proposal(String),
    /// Work, with the token of its current lease, if any.
    Work(Option<String>),
}

impl Board {
    /// Returns the result of a query that began at `since` or later; runs `look` if there is none.
    ///
    /// # Errors
    /// Those of `look`.
    pub async fn since<E>(
        &self,
        since: Instant,
        look: impl Future<Output = Result<Posted, E>>,
    ) -> Result<Arc<Posted>, E> {
        let mut newest = self.0.lock().await;
        if let Some((at, posted)) = &*newest
            && *at >= since
        {
            return Ok(Arc::clone(posted));
        }
        let at = Instant::now();
        let posted = Arc::new(look.await?);
        *newest = Some((at, Arc::clone(&posted)));
        Ok(posted)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{Board, Posted};

    #[tokio::test]
    async fn all_who_ask_at_one_moment_share_a_look_and_who_asks_later_gets_a_new_one() {
        let (board, looks) = (Board::default(), AtomicU32::new(0));
        let look = async || {
            looks.fetch_add(1, Ordering::Relaxed);
            // The other callers arrive meanwhile.
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(Posted::default())
        };
        let asked = Instant::now();
        let (one, two, three) =
            tokio::join!(board.since(asked, look()), board.since(asked, look()), board.since(asked, look()));
        assert!(one.is_ok() && two.is_ok() && three.is_ok());
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        let later = Instant::now() + Duration::from_nanos(1);
        assert!(board.since(later, look()).await.is_ok());
        assert_eq!(looks.load(Ordering::Relaxed), 2);
    }
}
