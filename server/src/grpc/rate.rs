//! Limits the rate of calls before they are read. A signed-in worker has its own bucket, from any address; all other
//! callers are limited as at REST, by their session or key and by their address. The metadata of a refusal states the
//! time to retry, in the form that gRPC's own clients understand.
//!
//! A stream is one call: the amount of its data has separate limits.

use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::Either;
use http::{Request, Response, header};
use tonic::Status;
use tower::{Layer, Service};
use undertone_api::problem::{Code, Problem};
use undertone_proto::to_retry_status;

use super::{auth, messages};
use crate::rate::RateLimits;
use undertone_server_core::ctx::Ctx;

/// Health checks, which programs call often and which cost nothing.
const HEALTH: &str = "/grpc.health.v1.Health/";

/// Checks the buckets before each call.
#[derive(Clone)]
pub(super) struct RateLayer {
    ctx: Ctx,
    rates: RateLimits,
}

impl RateLayer {
    /// Makes the layer with full buckets.
    pub(super) fn new(ctx: &Ctx) -> Self {
        Self { ctx: ctx.clone(), rates: RateLimits::new(ctx.config.rates) }
    }

    /// Returns the time that the caller must wait, if any. A recognized worker is stored in the request for later
    /// layers.
    fn wait<B>(&self, request: &mut Request<B>) -> Option<Duration> {
        if request.uri().path().starts_with(HEALTH) {
            return None;
        }
        let authorization = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if let Some(recognized) = authorization.and_then(|text| auth::recognize(&self.ctx, text)) {
            let worker = recognized.worker;
            request.extensions_mut().insert(recognized);
            return self.rates.wait_of_worker(worker);
        }
        let address = messages::address_of(&self.ctx, request.headers(), request.extensions());
        self.rates.wait(address, request.headers())
    }
}

impl<S> Layer<S> for RateLayer {
    type Service = RateLimitedService<S>;

    fn layer(&self, inner: S) -> RateLimitedService<S> {
        RateLimitedService { inner, layer: self.clone() }
    }
}

/// A service with a rate limit.
#[derive(Clone)]
pub(super) struct RateLimitedService<S> {
    inner: S,
    layer: RateLayer,
}

impl<S, B, R> Service<Request<B>> for RateLimitedService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Default,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<R>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        match self.layer.wait(&mut request) {
            None => Either::Left(self.inner.call(request)),
            Some(wait) => {
                self.layer.ctx.metrics.turned_away();
                Either::Right(ready(Ok(turned_away(wait).into_http())))
            }
        }
    }
}

fn turned_away(wait: Duration) -> Status {
    let detail = format!("too many calls: try again in {} s", wait.as_secs() + 1);
    to_retry_status(&Problem::new(Code::RateLimited, detail), wait)
}
