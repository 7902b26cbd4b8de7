//! Passwords: Argon2id with 19 MiB, 2 passes, 1 lane (the first choice of OWASP's password storage cheat sheet, 2024).
//! Few hashes run at a time, on blocking threads and in turns that alternate between networks. So a flood of sign-ins occupies at most
//! half of the processors (the only one, if there is one) and a bounded amount of memory, and a sign-in from another network waits for few hashes of the flood.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;
use undertone_api::problem::{Code, Problem};

use crate::error::Error;
use crate::fairness::{FairPermit, FairQueue, QueueLimits, QueueOwner, QueueTimings, WorkOwner};
use crate::network::network_of;

/// Memory of one hash, KiB.
pub const MEMORY_KIB: u32 = 19 * 1024;
/// Passes over the memory.
const PASSES: u32 = 2;
/// The number of concurrent hashes on eight or more processors. Otherwise it is half the number of processors, at least one.
pub const AT_A_TIME: usize = 4;
/// The highest number of hashes that wait; further ones are refused.
pub const MOST_WAITING: usize = 128;
/// The highest number of one network's passwords that run or wait; further ones are refused.
pub const MOST_OF_NETWORK: usize = 12;
/// Seconds after which a refused caller may retry.
const LATER: u32 = 5;
/// The longest wait for a turn.
const PATIENCE: Duration = Duration::from_secs(20);

/// The caller for whom a password is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PasswordCaller {
    /// Somebody in this network who signs in.
    Network(IpAddr),
    /// The owner of another request.
    Owner(WorkOwner),
}

impl PasswordCaller {
    /// Returns the caller of the current request.
    pub fn current() -> Self {
        Self::Owner(WorkOwner::current())
    }
}

impl QueueOwner for PasswordCaller {
    const NAME: &'static str = "your address";

    fn weight(self) -> u32 {
        1
    }

    fn class(self) -> &'static str {
        match self {
            Self::Network(_) => "network",
            Self::Owner(owner) => owner.class(),
        }
    }

    fn is_limited(self) -> bool {
        false
    }
}

/// Hashes and checks passwords.
#[derive(Clone)]
pub struct Passwords {
    turns: FairQueue<PasswordCaller>,
    /// The number of concurrent hashes.
    #[cfg(any(test, feature = "testing"))]
    at_a_time: usize,
    /// One permit for each running or waiting hash.
    places: Arc<Semaphore>,
    /// The running and waiting checks of each network that has any.
    of_networks: Arc<Mutex<HashMap<IpAddr, usize>>>,
    /// A hash to compare the password of an unknown e-mail with, so that it takes as long as for a known one.
    decoy: Arc<OnceLock<String>>,
}

impl Passwords {
    /// Makes an idle queue.
    pub fn new(timings: QueueTimings) -> Self {
        Self::with_processors(timings, std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn with_processors(timings: QueueTimings, processors: usize) -> Self {
        let at_a_time = (processors / 2).clamp(1, AT_A_TIME);
        // The places bound the number that waits.
        let limits = QueueLimits {
            name: "passwords",
            turns: "passwords",
            at_a_time,
            waiting: at_a_time + MOST_WAITING,
            waiting_of_owner: at_a_time + MOST_WAITING,
            patience: PATIENCE,
        };
        Self {
            turns: FairQueue::new(limits, timings),
            #[cfg(any(test, feature = "testing"))]
            at_a_time,
            places: Arc::new(Semaphore::new(at_a_time + MOST_WAITING)),
            of_networks: Arc::default(),
            decoy: Arc::default(),
        }
    }

    /// Returns the hash of a password with the given salt, in PHC form.
    ///
    /// # Errors
    /// [`Error::Internal`] if the hash cannot be computed.
    pub async fn hash(&self, password: &str, salt: [u8; 16]) -> Result<String, Error> {
        let password = password.to_owned();
        self.run(PasswordCaller::current(), move || hash(&password, salt)).await?
    }

    /// Returns whether the password matches the hash. Without a hash (an unknown e-mail) it returns false, after the
    /// same work.
    ///
    /// # Errors
    /// [`Error::Internal`] if the stored hash is malformed.
    pub async fn verify(&self, caller: PasswordCaller, password: &str, stored: Option<&str>) -> Result<bool, Error> {
        let password = password.to_owned();
        let stored = stored.map(str::to_owned);
        let decoy = Arc::clone(&self.decoy);
        self.run(caller, move || {
            let has_hash = stored.is_some();
            let phc = match stored {
                Some(phc) => phc,
                None => decoy_hash(&decoy)?,
            };
            let parsed = PasswordHash::new(&phc)
                .map_err(|error| Error::internal("reading a password's hash", error.to_string()))?;
            Ok(argon2()?.verify_password(password.as_bytes(), &parsed).is_ok() && has_hash)
        })
        .await?
    }

    /// Blocks all hashing until the returned turns are dropped.
    ///
    /// # Panics
    /// When a turn is refused.
    #[cfg(any(test, feature = "testing"))]
    pub async fn busy(&self) -> Vec<FairPermit<PasswordCaller>> {
        let mut turns = Vec::new();
        for _ in 0..self.at_a_time {
            turns.push(self.turns.acquire(PasswordCaller::current()).await.expect("a turn"));
        }
        turns
    }

    /// Refuses a caller whose password would have to wait too long.
    ///
    /// # Errors
    /// `unavailable`, with the seconds after which the caller may retry.
    pub fn expect_room(&self) -> Result<(), Error> {
        if self.places.available_permits() == 0 { Err(crowded()) } else { Ok(()) }
    }

    /// Returns one of the places that the network of `address` has, so that one network does not fill the queue.
    ///
    /// # Errors
    /// `unavailable`, with the seconds after which the caller may retry, when `MOST_OF_NETWORK` are taken.
    pub fn enter(&self, address: IpAddr) -> Result<NetworkPlace, Error> {
        let network = network_of(address);
        let mut counts = self.of_networks.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(network).or_default();
        if *count >= MOST_OF_NETWORK {
            return Err(crowded());
        }
        *count += 1;
        Ok(NetworkPlace { network, counts: Arc::clone(&self.of_networks) })
    }

    async fn run<T: Send + 'static>(
        &self,
        caller: PasswordCaller,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| crowded())?;
        let turn = self.turns.acquire(caller).await.map_err(|_| crowded())?;
        // The turn lasts until the hash is computed, even after its caller was cancelled.
        tokio::task::spawn_blocking(move || {
            let _turn: (FairPermit<PasswordCaller>, _) = (turn, place);
            work()
        })
        .await
        .map_err(|error| Error::internal("hashing a password", error))
    }
}

/// A place of a network among the passwords that are checked; it is free again when dropped.
#[derive(Debug)]
pub struct NetworkPlace {
    network: IpAddr,
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl NetworkPlace {
    /// Returns the caller of this place.
    pub const fn caller(&self) -> PasswordCaller {
        PasswordCaller::Network(self.network)
    }
}

impl Drop for NetworkPlace {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.network);
            }
        }
    }
}

/// Returns whether a password is easily guessed: common passwords, words, dates, neighbouring keys, or terms known
/// about its owner. Fewer than 10^8 guesses (zxcvbn's score below 3) are too few even with a slow hash.
pub fn is_easily_guessed(password: &str, known: &[&str]) -> bool {
    zxcvbn::zxcvbn(password, known).score() < zxcvbn::Score::Three
}

fn crowded() -> Error {
    let detail = format!("more people sign in than passwords can be checked: try again in {LATER} s");
    Problem::new(Code::Unavailable, detail).with_retry_after(LATER).into()
}

fn argon2() -> Result<Argon2<'static>, Error> {
    let params = Params::new(MEMORY_KIB, PASSES, 1, None)
        .map_err(|error| Error::internal("setting Argon2's parameters", error.to_string()))?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn hash(password: &str, salt: [u8; 16]) -> Result<String, Error> {
    let hash: PasswordHash = argon2()?
        .hash_password_with_salt(password.as_bytes(), &salt)
        .map_err(|error| Error::internal("hashing a password", error.to_string()))?;
    Ok(hash.to_string())
}

fn decoy_hash(cell: &OnceLock<String>) -> Result<String, Error> {
    if let Some(hash) = cell.get() {
        return Ok(hash.clone());
    }
    let decoy = hash("nobody has this password", [0; 16])?;
    Ok(cell.get_or_init(|| decoy).clone())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, mpsc};

    use undertone_api::problem::Code;

    use super::{AT_A_TIME, LATER, MOST_OF_NETWORK, MOST_WAITING, PasswordCaller, Passwords, is_easily_guessed};
    use crate::fairness::QueueTimings;

    fn idle() -> Passwords {
        Passwords::with_processors(QueueTimings::default(), 2 * AT_A_TIME)
    }

    #[test]
    fn hashes_occupy_half_of_the_processors_at_most() {
        let at_a_time = |processors| Passwords::with_processors(QueueTimings::default(), processors).at_a_time;
        assert_eq!([1, 2, 4, 64].map(at_a_time), [1, 1, 2, AT_A_TIME]);
    }

    /// Each task reports its start and then waits for permission to continue.
    #[tokio::test]
    async fn four_are_hashed_at_a_time_and_a_fifth_waits() {
        let passwords = idle();
        let (begin, mut starts) = tokio::sync::mpsc::unbounded_channel();
        let (go_on, let_go) = mpsc::channel::<()>();
        let let_go = Arc::new(Mutex::new(let_go));
        let work = |number: usize| {
            let (passwords, begin, let_go) = (passwords.clone(), begin.clone(), Arc::clone(&let_go));
            tokio::spawn(async move {
                let work = move || {
                    begin.send(number).expect("the test listens");
                    let_go.lock().expect("nobody panics").recv().expect("it is let go");
                };
                passwords.run(PasswordCaller::current(), work).await.expect("done");
            })
        };
        let mut works: Vec<_> = (0..AT_A_TIME).map(&work).collect();
        for _ in 0..AT_A_TIME {
            starts.recv().await.expect("it begins");
        }
        works.push(work(AT_A_TIME));
        tokio::task::yield_now().await;
        assert!(starts.try_recv().is_err(), "the fifth waits");
        go_on.send(()).expect("one goes on");
        assert_eq!(starts.recv().await, Some(AT_A_TIME));
        for _ in 0..AT_A_TIME {
            go_on.send(()).expect("the others go on");
        }
        for work in works {
            work.await.expect("no panic");
        }
    }

    #[tokio::test]
    async fn sign_in_waits_behind_one_of_each_other_network() {
        let passwords = idle();
        let busy = passwords.busy().await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut checks = tokio::task::JoinSet::new();
        let [flood, alone] =
            ["127.0.0.2", "127.0.0.3"].map(|text| PasswordCaller::Network(text.parse().expect("text")));
        for caller in [flood, flood, flood, flood, flood, flood, flood, flood, alone] {
            let (passwords, order) = (passwords.clone(), Arc::clone(&order));
            checks.spawn(async move {
                let work = move || order.lock().expect("no panic").push(caller);
                passwords.run(caller, work).await.expect("done");
            });
            tokio::task::yield_now().await;
        }
        drop(busy);
        checks.join_all().await;
        let position = order.lock().expect("no panic").iter().position(|caller| *caller == alone);
        assert!(position.is_some_and(|position| position < 2 * AT_A_TIME - 1), "{position:?}");
    }

    #[tokio::test]
    async fn full_queue_refuses_the_next_and_says_when() {
        let passwords = idle();
        let busy = passwords.busy().await;
        let waiting: Vec<_> = (0..AT_A_TIME + MOST_WAITING)
            .map(|_| {
                let passwords = passwords.clone();
                tokio::spawn(async move { passwords.run(PasswordCaller::current(), || ()).await })
            })
            .collect();
        while passwords.places.available_permits() > 0 {
            passwords.expect_room().expect("there is room");
            tokio::task::yield_now().await;
        }
        let refused =
            passwords.run(PasswordCaller::current(), || ()).await.expect_err("no place is left").into_problem();
        assert_eq!((refused.code, refused.retry_after), (Code::Unavailable, Some(LATER)));
        assert!(passwords.expect_room().is_err());
        drop(busy);
        for one in waiting {
            one.await.expect("no panic").expect("its turn came");
        }
        passwords.expect_room().expect("there is room again");
    }

    #[test]
    fn network_beyond_its_places_is_refused_and_others_are_not() {
        let passwords = idle();
        let [address, other] = ["127.0.0.2", "127.0.0.3"].map(|text| text.parse().expect("an address"));
        let places: Vec<_> = (0..MOST_OF_NETWORK).map(|_| passwords.enter(address).expect("a place")).collect();
        let refused = passwords.enter(address).expect_err("no place is left").into_problem();
        assert_eq!((refused.code, refused.retry_after), (Code::Unavailable, Some(LATER)));
        passwords.enter(other).expect("another network has its own");
        drop(places);
        passwords.enter(address).expect("there are places again");
        assert!(passwords.of_networks.lock().expect("nobody panics").is_empty(), "no network stays listed");
    }

    #[test]
    fn easily_guessed_password_is_recognized() {
        for early in [
            "password1234",
            "passwordpassword",
            "123456789012",
            "qwertyuiopas",
            "aaaaaaaaaaaaaa",
            "1q2w3e4r5t6y",
            "iloveyou1234",
            "northernnorthern",
        ] {
            assert!(is_easily_guessed(early, &["Northern", "n@northern.example"]), "{early}");
        }
        for late in
            ["a long enough password", "another long password", "correct horse battery staple", "right horse battery"]
        {
            assert!(!is_easily_guessed(late, &["Northern", "n@northern.example"]), "{late}");
        }
    }

    #[tokio::test]
    async fn only_the_password_that_was_hashed_is_right() {
        let passwords = idle();
        let stored = passwords.hash("correct horse battery", [7; 16]).await.expect("hashed");
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(
            passwords.verify(PasswordCaller::current(), "correct horse battery", Some(&stored)).await.expect("checked")
        );
        assert!(
            !passwords
                .verify(PasswordCaller::current(), "correct horse batterz", Some(&stored))
                .await
                .expect("checked")
        );
    }

    #[tokio::test]
    async fn unknown_member_has_no_right_password() {
        let passwords = idle();
        assert!(!passwords.verify(PasswordCaller::current(), "nobody has this password", None).await.expect("checked"));
    }
}
