//! Rate limits of requests and calls: a bucket for each worker, each caller and each address, which holds the requests
//! of one minute and fills evenly. The module is independent of interfaces: REST and gRPC have separate buckets, check
//! them before they read a request, refuse callers with empty buckets, and state the time to retry. Each replica counts
//! for itself. To count by something else: a map of buckets here.

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use governor::clock::{Clock as _, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use http::{HeaderMap, header};
use sha2::{Digest as _, Sha256};
use undertone_api::id::{OrganizationId, WorkerId};

use undertone_server_core::config::RateConfig;
use undertone_server_core::network::network_of;

/// The number of buckets at which full ones are removed; later, twice the number that was in use at the last removal.
const MANY: usize = 50_000;

/// The buckets of one interface.
#[derive(Clone)]
pub(crate) struct RateLimits {
    callers: Option<Arc<TokenBuckets<[u8; 32]>>>,
    addresses: Option<Arc<TokenBuckets<IpAddr>>>,
    workers: Option<Arc<TokenBuckets<WorkerId>>>,
}

impl RateLimits {
    /// Makes full buckets.
    pub(crate) fn new(rates: RateConfig) -> Self {
        let RateConfig { by_caller, by_address, by_worker, .. } = rates;
        Self {
            callers: TokenBuckets::with_rate(by_caller),
            addresses: TokenBuckets::with_rate(by_address),
            workers: TokenBuckets::with_rate(by_worker),
        }
    }

    /// Returns the time that an unauthenticated caller must wait, if any.
    pub(crate) fn wait(&self, address: IpAddr, headers: &HeaderMap) -> Option<Duration> {
        let address = network_of(address);
        let by_address = self.addresses.as_ref().and_then(|buckets| buckets.wait(&address));
        by_address.or_else(|| self.callers.as_ref()?.wait(&caller(address, headers)))
    }

    /// Returns the time that a signed-in worker must wait, if any. Many workers may share one address, so addresses are
    /// not counted.
    pub(crate) fn wait_of_worker(&self, worker: WorkerId) -> Option<Duration> {
        self.workers.as_ref()?.wait(&worker)
    }
}

/// The buckets of the writes by organizations' workers.
#[derive(Clone)]
pub(crate) struct OrganizationRates(Option<Arc<TokenBuckets<OrganizationId>>>);

impl OrganizationRates {
    /// Makes full buckets.
    pub(crate) fn new(rates: RateConfig) -> Self {
        Self(TokenBuckets::with_rate(rates.by_organization))
    }

    /// Counts one write. Returns the time that its organization must wait, if any.
    pub(crate) fn wait(&self, organization: OrganizationId) -> Option<Duration> {
        self.0.as_ref()?.wait(&organization)
    }
}

/// One bucket for each key.
struct TokenBuckets<K: Hash + Eq + Clone> {
    all: RateLimiter<K, HashMapStateStore<K>, MonotonicClock, NoOpMiddleware<std::time::Instant>>,
    /// The number at which full buckets are removed. A removal at each request, with all buckets in use, would be
    /// expensive.
    sweep_size: AtomicUsize,
}

impl<K: Hash + Eq + Clone> TokenBuckets<K> {
    fn with_rate(per_minute: u32) -> Option<Arc<Self>> {
        let quota = Quota::per_minute(NonZeroU32::new(per_minute)?);
        Some(Arc::new(Self {
            all: RateLimiter::hashmap_with_clock(quota, MonotonicClock),
            sweep_size: AtomicUsize::new(MANY),
        }))
    }

    fn wait(&self, key: &K) -> Option<Duration> {
        if self.all.len() > self.sweep_size.load(Ordering::Relaxed) {
            self.all.retain_recent();
            self.sweep_size.store(MANY.max(2 * self.all.len()), Ordering::Relaxed);
        }
        self.all.check_key(key).err().map(|until| until.wait_time_from(MonotonicClock.now()))
    }
}

/// Returns the key of the caller: the named session or key, valid or not, or else the address. A caller that invents a
/// new one for each request is still limited by its address.
fn caller(address: IpAddr, headers: &HeaderMap) -> [u8; 32] {
    let credential = headers.get(header::AUTHORIZATION).or_else(|| headers.get(header::COOKIE));
    match credential {
        Some(value) => Sha256::digest(value.as_bytes()).into(),
        None => Sha256::digest(address.to_string()).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::{Duration, Instant};

    use http::{HeaderMap, HeaderValue, header};
    use undertone_api::id::{OrganizationId, WorkerId};
    use uuid::Uuid;

    use super::{MANY, OrganizationRates, RateLimits, TokenBuckets};
    use undertone_server_core::config::RateConfig;
    use undertone_server_core::network::network_of;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn limits(by_caller: u32, by_address: u32, by_worker: u32) -> RateConfig {
        RateConfig { by_caller, by_address, by_worker, ..RateConfig::default() }
    }

    fn credential_header(key: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(key).expect("visible characters"));
        headers
    }

    /// Calls `ask` until it is refused; returns bounds on the number of accepted calls, and the stated wait.
    fn emptied(most: u32, ask: impl Fn() -> Option<Duration>) -> (u32, u32, Duration) {
        let start = Instant::now();
        for answered in 0..=2 * most {
            if let Some(wait) = ask() {
                // The bucket refills evenly during the test.
                let filled = (start.elapsed().as_secs_f64() * f64::from(most) / 60.0).ceil() as u32;
                return (answered.saturating_sub(filled + 1), answered, wait);
            }
        }
        panic!("twice a minute's worth was answered at once");
    }

    #[test]
    fn calls_beyond_the_rate_wait_for_the_stated_time() {
        let rates = RateLimits::new(limits(60, 240, 120));
        let (least, most, wait) = emptied(60, || rates.wait(HERE, &credential_header("one")));
        assert!(least <= 60 && most >= 60, "{least} to {most}");
        assert!(!wait.is_zero() && wait <= Duration::from_secs(1), "one a second: {wait:?}");
        assert_eq!(rates.wait(HERE, &credential_header("two")), None, "another caller has a bucket of their own");
        let worker = WorkerId(Uuid::from_u128(1));
        let (least, most, wait) = emptied(120, || rates.wait_of_worker(worker));
        assert!(least <= 120 && most >= 120, "{least} to {most}");
        assert!(!wait.is_zero() && wait <= Duration::from_millis(500), "two a second: {wait:?}");
    }

    #[test]
    fn organization_beyond_its_writes_waits_and_others_do_not() {
        let rates = OrganizationRates::new(RateConfig { by_organization: 60, ..RateConfig::default() });
        let organization = |number| OrganizationId(Uuid::from_u128(number));
        let (least, most, wait) = emptied(60, || rates.wait(organization(1)));
        assert!(least <= 60 && most >= 60, "{least} to {most}");
        assert!(!wait.is_zero() && wait <= Duration::from_secs(1), "one a second: {wait:?}");
        assert_eq!(rates.wait(organization(2)), None);
        let rates = OrganizationRates::new(RateConfig { by_organization: 0, ..RateConfig::default() });
        assert!((0..10_000).all(|_| rates.wait(organization(1)).is_none()), "zero is no limit");
    }

    #[test]
    fn invented_credentials_share_the_bucket_of_their_network() {
        let rates = RateLimits::new(limits(60, 60, 60));
        let address = |last: u128| IpAddr::from(std::net::Ipv6Addr::from_bits((0x2001_0db8 << 96) + last));
        let count = std::cell::Cell::new(0_u128);
        let (_, most, _) = emptied(60, || {
            count.set(count.get() + 1);
            rates.wait(address(count.get()), &credential_header(&format!("invented {}", count.get())))
        });
        assert!(most >= 60);
        assert_eq!(rates.wait(address(1 << 64), &credential_header("elsewhere")), None, "another network");
    }

    #[test]
    fn ipv4_addresses_on_an_ipv6_socket_have_separate_buckets() {
        let plain = |last| std::net::Ipv4Addr::new(192, 0, 2, last);
        let mapped = |last| IpAddr::from(plain(last).to_ipv6_mapped());
        assert_eq!(network_of(mapped(1)), IpAddr::from(plain(1)));
        let rates = RateLimits::new(limits(60, 60, 60));
        let (_, most, _) = emptied(60, || rates.wait(mapped(1), &credential_header("one")));
        assert!(most >= 60);
        assert_eq!(rates.wait(mapped(2), &credential_header("two")), None, "another address has a bucket of its own");
    }

    #[test]
    fn workers_behind_one_address_have_separate_buckets() {
        let rates = RateLimits::new(limits(60, 60, 60));
        for number in 0..200 {
            for _ in 0..60 {
                assert_eq!(rates.wait_of_worker(WorkerId(Uuid::from_u128(number))), None, "worker {number}");
            }
        }
        assert_eq!(rates.wait(HERE, &HeaderMap::new()), None);
    }

    /// A participant makes its calls in sequence. With rounds at intervals of 10 ms, each with the vector, its result,
    /// the mean, a figure, the log and its proofs, besides the renewal of its lease, it makes about 600 calls a second.
    #[test]
    fn default_rates_exceed_the_calls_of_a_worker() {
        let RateConfig { by_caller, by_address, by_worker, .. } = RateConfig::default();
        let calls_a_round = 6;
        let rounds_a_second = 100;
        assert!(by_worker / 60 > calls_a_round * rounds_a_second);
        assert!(by_worker > by_address && by_address > by_caller);
        // After a restart of the server, all workers behind one address request a challenge, answer it and request the
        // certificates.
        assert!(
            200 * 3 < by_address && 200 * 3 < by_caller,
            "they have no session yet: they share the address's bucket"
        );
    }

    #[test]
    fn full_buckets_are_not_swept_at_each_request() {
        let buckets = TokenBuckets::with_rate(1).expect("there is a limit");
        for key in 0..=MANY + 1 {
            assert_eq!(buckets.wait(&key), None);
        }
        assert_eq!(buckets.sweep_size.load(std::sync::atomic::Ordering::Relaxed), 2 * (MANY + 1));
    }

    #[test]
    fn zero_is_no_limit() {
        let rates = RateLimits::new(limits(0, 0, 0));
        assert!((0..10_000).all(|_| rates.wait(HERE, &HeaderMap::new()).is_none()));
        assert!((0..10_000).all(|_| rates.wait_of_worker(WorkerId(Uuid::from_u128(1))).is_none()));
    }
}
