//! The last checks of the callers of event streams: all streams of a session or a key share one check of its caller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;
use undertone_api::id::{ApiKeyId, SessionId};

use super::ChangeNotifier;
use crate::auth::{Actor, Means};

/// The longest time for which a check holds.
pub const CHECK_AGE: Duration = Duration::from_secs(5);

/// The callers with open streams.
#[derive(Debug, Default)]
pub struct CheckedCallers(Mutex<HashMap<CallerKey, Weak<CheckedCaller>>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum CallerKey {
    Session(SessionId),
    Key(ApiKeyId),
}

/// The last check of a session or a key.
#[derive(Debug, Default)]
pub struct CheckedCaller(tokio::sync::Mutex<Option<CallerCheck>>);

/// A successful check of a caller.
#[derive(Debug, Clone)]
pub struct CallerCheck {
    /// The caller with its grants.
    pub actor: Arc<Actor>,
    /// When the check began.
    pub at: Instant,
    /// The changes of standings before it.
    standings: u64,
}

impl CheckedCallers {
    /// Returns the check that the streams of this session or key share. It is forgotten with the last of them.
    pub fn join(&self, means: &Means) -> Arc<CheckedCaller> {
        let key = match means {
            Means::Session(id) | Means::Confined(id) => CallerKey::Session(*id),
            Means::Key(id, _) => CallerKey::Key(*id),
        };
        let mut callers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(caller) = callers.get(&key).and_then(Weak::upgrade) {
            return caller;
        }
        callers.retain(|_, caller| caller.strong_count() > 0);
        let caller = Arc::new(CheckedCaller::default());
        callers.insert(key, Arc::downgrade(&caller));
        caller
    }
}

impl CheckedCaller {
    /// Returns the last check; runs `check` when that is older than [`CHECK_AGE`], or when a session, a key or a role
    /// has ended since.
    ///
    /// # Errors
    /// Those of `check`. The next call checks again.
    pub async fn get<E>(
        &self,
        changes: &ChangeNotifier,
        check: impl AsyncFnOnce() -> Result<Actor, E>,
    ) -> Result<CallerCheck, E> {
        let mut last = self.0.lock().await;
        // Before the check, so that no change is missed in between.
        let (at, standings) = (Instant::now(), changes.standing_changes());
        if let Some(found) = &*last
            && found.standings == standings
            && at < found.at + CHECK_AGE
        {
            return Ok(found.clone());
        }
        *last = None;
        let found = CallerCheck { actor: Arc::new(check().await?), at, standings };
        *last = Some(found.clone());
        drop(last);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use time::OffsetDateTime;
    use undertone_api::id::{MemberId, SessionId};
    use undertone_api::member::Member;
    use uuid::Uuid;

    use super::{CHECK_AGE, CheckedCallers};
    use crate::auth::{Actor, Means, Memberships};
    use crate::ctx::ChangeNotifier;

    fn actor(session: u128) -> Actor {
        let member = Member {
            id: MemberId(Uuid::nil()),
            name: "Ada".to_owned(),
            email: "ada@example.org".to_owned(),
            operator: false,
            grants: Vec::new(),
            created_at: OffsetDateTime::UNIX_EPOCH,
        };
        Actor::new(member, Means::Session(SessionId(Uuid::from_u128(session))), Memberships::default(), false)
    }

    #[tokio::test(start_paused = true)]
    async fn streams_of_a_session_share_a_check_until_it_is_old_or_a_standing_changes() {
        let (callers, changes, checks) = (CheckedCallers::default(), ChangeNotifier::new(), AtomicU32::new(0));
        let (first, second, other) =
            (callers.join(&actor(1).means), callers.join(&actor(1).means), callers.join(&actor(2).means));
        let check = async || {
            checks.fetch_add(1, Ordering::Relaxed);
            Ok::<_, ()>(actor(1))
        };
        let count = |expected| assert_eq!(checks.load(Ordering::Relaxed), expected);
        first.get(&changes, check).await.expect("checked");
        second.get(&changes, check).await.expect("shared");
        count(1);
        other.get(&changes, check).await.expect("another session");
        count(2);
        tokio::time::advance(CHECK_AGE.mul_f64(0.99)).await;
        second.get(&changes, check).await.expect("shared");
        count(2);
        changes.notify_standings();
        second.get(&changes, check).await.expect("checked again");
        first.get(&changes, check).await.expect("shared");
        count(3);
        tokio::time::advance(CHECK_AGE).await;
        first.get(&changes, async || Err(())).await.expect_err("the session is over");
        second.get(&changes, check).await.expect("a failed check is not kept");
        count(4);
        drop((first, second));
        callers.join(&actor(1).means).get(&changes, check).await.expect("forgotten with its streams");
        count(5);
    }
}
