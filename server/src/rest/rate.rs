//! Refuses requests above the rate limit before they are read.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use undertone_api::problem::Code;

use super::extract;
use super::problem::Rejection;
use crate::rate::RateLimits;
use undertone_server_core::ctx::Ctx;

/// Health checks, which programs request often and which are cheap: the parts are checked at most once a second.
const HEALTH: &str = "/health/";

/// Refuses a caller with too many requests.
pub(super) async fn limit(State((ctx, rates)): State<(Ctx, RateLimits)>, request: Request, next: Next) -> Response {
    if request.uri().path().starts_with(HEALTH) {
        return next.run(request).await;
    }
    let address = extract::address(&ctx, request.headers(), request.extensions());
    let Some(wait) = rates.wait(address, request.headers()) else { return next.run(request).await };
    ctx.metrics.turned_away();
    let seconds = wait.as_secs() + 1;
    let detail = format!("too many requests: try again in {seconds} s");
    let mut response = Rejection::new(Code::RateLimited, detail).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, StatusCode, header};
    use axum_test::TestServer;

    use crate::testing::TestApp;
    use undertone_server_core::config::{Config, RateConfig};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn requests_beyond_the_rate_are_refused_with_a_retry_time() {
        let app = TestApp::sqlite().await;
        let config = Config {
            rates: RateConfig { by_caller: 60, by_address: 240, by_worker: 60, ..RateConfig::default() },
            ..app.ctx.config.clone()
        };
        let dir = tempfile::tempdir().expect("a temporary folder");
        let config = Config { data_dir: dir.path().to_owned(), ..config };
        let limited = crate::build(config, app.clock.clock(), undertone_server_core::ctx::Random::seeded(3))
            .await
            .expect("it starts");
        let server = TestServer::new(limited.router);
        let ask = async |key: &str| {
            let bearer = HeaderValue::from_str(&format!("Bearer {key}")).expect("a header");
            server.get("/api/v1/me").add_header(header::AUTHORIZATION, bearer).await
        };
        // The bucket refills during the test: one request a second.
        let start = std::time::Instant::now();
        let mut answers = 0;
        let turned_away = loop {
            let answer = ask("one").await;
            if answer.status_code() != StatusCode::UNAUTHORIZED {
                break answer;
            }
            answers += 1;
        };
        assert!((60..=61 + start.elapsed().as_secs()).contains(&answers), "{answers}");
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
