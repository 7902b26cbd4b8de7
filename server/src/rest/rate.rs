//! How many requests are answered: a bucket for each caller and one for each address, which hold a minute's worth and fill evenly.
//! Who finds theirs empty is turned away before anything is read, and told when to come again. Each replica counts for itself.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use governor::clock::{Clock as _, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use sha2::{Digest as _, Sha256};
use undertone_api::problem::Code;

use super::extract;
use super::problem::Rejection;
use crate::config::RateConfig;
use crate::ctx::Ctx;

/// Buckets that are kept before the full ones are forgotten.
const MANY: usize = 50_000;
/// What is asked often, by programs, and costs nothing to answer.
const HEALTH: &str = "/health/";

/// The buckets.
#[derive(Clone)]
pub(super) struct Rates {
    ctx: Ctx,
    callers: Option<Arc<Buckets<[u8; 32]>>>,
    addresses: Option<Arc<Buckets<IpAddr>>>,
}

impl Rates {
    /// Full buckets.
    pub(super) fn new(ctx: &Ctx) -> Self {
        let RateConfig { by_caller, by_address } = ctx.config.rates;
        Self { ctx: ctx.clone(), callers: Buckets::of(by_caller), addresses: Buckets::of(by_address) }
    }

    /// How long a caller has to wait, if they have to.
    fn wait(&self, address: IpAddr, headers: &HeaderMap) -> Option<Duration> {
        let address = network(address);
        let by_address = self.addresses.as_ref().and_then(|buckets| buckets.wait(&address));
        by_address.or_else(|| self.callers.as_ref()?.wait(&caller(address, headers)))
    }
}

/// One bucket for each key.
struct Buckets<K: Hash + Eq + Clone>(
    RateLimiter<K, HashMapStateStore<K>, MonotonicClock, NoOpMiddleware<std::time::Instant>>,
);

impl<K: Hash + Eq + Clone> Buckets<K> {
    fn of(per_minute: u32) -> Option<Arc<Self>> {
        let quota = Quota::per_minute(NonZeroU32::new(per_minute)?);
        Some(Arc::new(Self(RateLimiter::hashmap_with_clock(quota, MonotonicClock))))
    }

    fn wait(&self, key: &K) -> Option<Duration> {
        if self.0.len() > MANY {
            self.0.retain_recent();
        }
        self.0.check_key(key).err().map(|until| until.wait_time_from(MonotonicClock.now()))
    }
}

/// Turns away who sends too many.
pub(super) async fn limit(State(rates): State<Rates>, request: Request, next: Next) -> Response {
    if request.uri().path().starts_with(HEALTH) {
        return next.run(request).await;
    }
    let address = extract::address(&rates.ctx, request.headers(), request.extensions());
    let Some(wait) = rates.wait(address, request.headers()) else { return next.run(request).await };
    rates.ctx.metrics.turned_away();
    let seconds = wait.as_secs() + 1;
    let detail = format!("more requests came than are answered: come again in {seconds} s");
    let mut response = Rejection::new(Code::RateLimited, detail).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// Who sends: the session or key that is named, whether it holds or not, or else the address. Who invents a new one for each request
/// still has but one address.
fn caller(address: IpAddr, headers: &HeaderMap) -> [u8; 32] {
    let named = headers.get(header::AUTHORIZATION).or_else(|| headers.get(header::COOKIE));
    match named {
        Some(value) => Sha256::digest(value.as_bytes()).into(),
        None => Sha256::digest(address.to_string()).into(),
    }
}

/// An address, or the 64 bits of one that are given to a customer as a whole.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, StatusCode, header};
    use axum_test::TestServer;

    use crate::config::{Config, RateConfig};
    use crate::testing::TestApp;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_sends_too_many_is_told_when_to_come_again_and_others_are_answered() {
        let app = TestApp::sqlite().await;
        let config = Config { rates: RateConfig { by_caller: 60, by_address: 240 }, ..app.ctx.config.clone() };
        let dir = tempfile::tempdir().expect("a temporary folder");
        let config = Config { data_dir: dir.path().to_owned(), ..config };
        let limited = crate::build(config, app.clock.clock(), crate::ctx::Random::seeded(3)).await.expect("it starts");
        let server = TestServer::new(limited.router);
        let ask = async |key: &str| {
            let bearer = HeaderValue::from_str(&format!("Bearer {key}")).expect("a header");
            server.get("/api/v1/me").add_header(header::AUTHORIZATION, bearer).await
        };
        // The bucket fills while it is emptied: one request a second.
        let (begun, mut answered) = (std::time::Instant::now(), 0);
        let turned_away = loop {
            let answer = ask("one").await;
            if answer.status_code() != StatusCode::UNAUTHORIZED {
                break answer;
            }
            answered += 1;
        };
        assert!((60..=61 + begun.elapsed().as_secs()).contains(&answered), "{answered}");
        turned_away.assert_status(StatusCode::TOO_MANY_REQUESTS);
        let seconds: u64 = turned_away.header(header::RETRY_AFTER).to_str().expect("text").parse().expect("seconds");
        assert!((1..=2).contains(&seconds), "{seconds}");
        ask("two").await.assert_status(StatusCode::UNAUTHORIZED);
        let mut names = 0;
        while ask(&format!("another {names}")).await.status_code() == StatusCode::UNAUTHORIZED {
            names += 1;
            assert!(names < 1000, "an address has more than its share by inventing callers");
        }
        server.get("/health/live").await.assert_status(StatusCode::NO_CONTENT);
        app.close().await;
    }
}
