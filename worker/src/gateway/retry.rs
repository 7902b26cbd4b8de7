//! Retries: exponential backoff with jitter, until a call succeeds, fails permanently, or is cancelled. A server's
//! requested pause is respected, up to the longest pause: a lease lasts a minute without renewal.

use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder, Retryable as _};
use tokio_util::sync::CancellationToken;
use undertone_api::problem::Code;

use super::GatewayError;

/// The longest pause.
pub(crate) const LONGEST: Duration = Duration::from_secs(30);
/// The number of the server's internal faults in one call before the fault counts as final.
pub(crate) const FAULTS: u32 = 12;

/// The pauses between attempts: at first 100 to 200 ms, then doubled, up to 15 to 30 s. The jitter adds up to the whole
/// delay, so that the workers of one failed server do not all return at once.
const BACKOFF: ExponentialBuilder = ExponentialBuilder::new()
    .with_jitter()
    .with_min_delay(Duration::from_millis(100))
    .with_max_delay(Duration::from_secs(LONGEST.as_secs() / 2))
    .without_max_times();

/// Returns the pauses between attempts, without end.
pub(crate) fn pauses() -> impl Iterator<Item = Duration> + Send {
    BACKOFF.build().chain(std::iter::repeat(LONGEST))
}

/// Returns the pause after an error: the given one, or the server's requested one, if that is longer.
fn extend_pause(pause: Duration, error: &GatewayError) -> Duration {
    pause.max(error.wait().unwrap_or_default().min(LONGEST))
}

/// Repeats a call until it has a final answer, or `stop` is cancelled (`None`).
///
/// # Errors
/// The first error that another attempt cannot resolve.
pub(crate) async fn retry_call<T, F>(
    label: &str,
    stop: &CancellationToken,
    call: impl FnMut() -> F,
) -> Option<Result<T, GatewayError>>
where
    F: Future<Output = Result<T, GatewayError>>,
{
    retry_with(BACKOFF, label, stop, call).await
}

async fn retry_with<T, F>(
    backoff: ExponentialBuilder,
    label: &str,
    stop: &CancellationToken,
    call: impl FnMut() -> F,
) -> Option<Result<T, GatewayError>>
where
    F: Future<Output = Result<T, GatewayError>>,
{
    let mut faults = 0;
    let attempts = call
        .retry(backoff)
        .when(move |error: &GatewayError| {
            faults += u32::from(error.code() == Some(Code::Internal));
            error.is_transient() && faults < FAULTS
        })
        .adjust(|error: &GatewayError, pause: Option<Duration>| pause.map(|pause| extend_pause(pause, error)))
        .notify(|error: &GatewayError, pause: Duration| {
            tracing::warn!(call = label, pause_ms = pause.as_millis() as u64, error = %error, "a call failed; the worker repeats it");
        });
    tokio::select! {
        answer = attempts => Some(answer),
        () = stop.cancelled() => None,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use backon::ExponentialBuilder;
    use tokio_util::sync::CancellationToken;
    use undertone_api::problem::{Code, Problem};

    use super::{FAULTS, LONGEST, extend_pause, pauses, retry_with};
    use crate::gateway::GatewayError;

    /// No pauses.
    const QUICK: ExponentialBuilder =
        ExponentialBuilder::new().with_min_delay(Duration::ZERO).with_max_delay(Duration::ZERO).without_max_times();

    #[test]
    fn pauses_grow_to_half_a_minute() {
        let pauses: Vec<_> = pauses().take(20).collect();
        assert!((Duration::from_millis(100)..=Duration::from_millis(200)).contains(&pauses[0]), "{:?}", pauses[0]);
        assert!(pauses.iter().all(|pause| *pause <= Duration::from_secs(30)));
        assert!(pauses[19] >= Duration::from_secs(15));
    }

    #[test]
    fn requested_pause_is_respected_up_to_the_longest() {
        let busy = |wait: Duration| GatewayError::Later {
            problem: Box::new(Problem::new(Code::RateLimited, "the server is overloaded")),
            wait,
        };
        let short = Duration::from_millis(200);
        assert_eq!(extend_pause(short, &busy(Duration::from_secs(20))), Duration::from_secs(20));
        assert_eq!(extend_pause(short, &busy(LONGEST)), LONGEST);
        assert_eq!(extend_pause(short, &busy(LONGEST + Duration::from_secs(1))), LONGEST);
        // A shorter requested pause changes nothing.
        assert_eq!(extend_pause(short, &busy(Duration::from_millis(1))), short);
    }

    #[tokio::test]
    async fn transient_failures_are_repeated() {
        let tries = Cell::new(0);
        let answer = retry_with(QUICK, "a call", &CancellationToken::new(), || {
            tries.set(tries.get() + 1);
            let now = tries.get();
            async move { if now < 30 { Err(GatewayError::Unreachable(String::new())) } else { Ok(now) } }
        })
        .await;
        assert!(matches!(answer, Some(Ok(30))));
    }

    #[tokio::test]
    async fn twelfth_internal_fault_is_final() {
        for (faults, succeeds) in [(FAULTS - 1, true), (FAULTS, false)] {
            let tries = Cell::new(0);
            let answer = retry_with(QUICK, "a call", &CancellationToken::new(), || {
                tries.set(tries.get() + 1);
                let fails = tries.get() <= faults;
                async move {
                    let fault = || GatewayError::Problem(Box::new(Problem::new(Code::Internal, "a fault")));
                    if fails { Err(fault()) } else { Ok(()) }
                }
            })
            .await;
            assert_eq!((answer.is_some_and(|answer| answer.is_ok()), tries.get()), (succeeds, FAULTS));
        }
    }

    #[tokio::test]
    async fn permanent_failure_is_not_repeated() {
        let tries = Cell::new(0);
        let answer = retry_with(QUICK, "a call", &CancellationToken::new(), || {
            tries.set(tries.get() + 1);
            async { Err::<(), _>(GatewayError::Protocol(String::new())) }
        })
        .await;
        assert!(matches!(answer, Some(Err(GatewayError::Protocol(_)))) && tries.get() == 1);
    }

    #[tokio::test]
    async fn cancelled_call_is_not_repeated() {
        let stop = CancellationToken::new();
        let tries = Cell::new(0);
        let answer = retry_with(QUICK, "a call", &stop, || {
            tries.set(tries.get() + 1);
            if tries.get() == 3 {
                stop.cancel();
            }
            async { Err::<(), _>(GatewayError::Unreachable(String::new())) }
        })
        .await;
        assert!(answer.is_none());
    }
}
