//! A cache of pending offers for all workers: two hundred workers that wake at the same time share one database query.
//! It may contain too much, because each reader verifies an offer with its own query. It must never contain too little.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

/// The newest query's result, and the time at which the query began.
#[derive(Default)]
pub struct OfferCache(Mutex<Option<(Instant, Arc<CachedOffers>)>>);

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CachedOffers {
    /// The public key of each worker that is not retired.
    pub keys: HashMap<Uuid, String>,
    /// Possible offers, by worker.
    pub due: HashMap<Uuid, Vec<CachedOffer>>,
}

/// A possible offer to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CachedOffer {
    /// A decision about the job whose manifest has this digest.
    Proposal(String),
    /// Work, with the token of its current lease, if any.
    Work(Option<String>),
}

impl OfferCache {
    /// Returns the result of a query that began at `since` or later; runs `query` if there is none.
    ///
    /// # Errors
    /// Those of `query`.
    pub async fn load_since<E>(
        &self,
        since: Instant,
        query: impl Future<Output = Result<CachedOffers, E>>,
    ) -> Result<Arc<CachedOffers>, E> {
        let mut newest = self.0.lock().await;
        if let Some((at, offers)) = &*newest
            && *at >= since
        {
            return Ok(Arc::clone(offers));
        }
        let at = Instant::now();
        let offers = Arc::new(query.await?);
        *newest = Some((at, Arc::clone(&offers)));
        Ok(offers)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use tokio::time::Instant;

    use super::{CachedOffers, OfferCache};

    #[tokio::test]
    async fn concurrent_loads_share_a_query_and_a_later_one_repeats_it() {
        let cache = OfferCache::default();
        let queries = AtomicU32::new(0);
        let query = async || {
            queries.fetch_add(1, Ordering::Relaxed);
            // The other callers arrive meanwhile.
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(CachedOffers::default())
        };
        let start = Instant::now();
        let (one, two, three) = tokio::join!(
            cache.load_since(start, query()),
            cache.load_since(start, query()),
            cache.load_since(start, query())
        );
        assert!(one.is_ok() && two.is_ok() && three.is_ok());
        assert_eq!(queries.load(Ordering::Relaxed), 1);
        let later = Instant::now() + Duration::from_nanos(1);
        assert!(cache.load_since(later, query()).await.is_ok());
        assert_eq!(queries.load(Ordering::Relaxed), 2);
    }
}
