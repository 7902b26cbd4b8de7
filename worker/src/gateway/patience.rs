//! Retries: exponential backoff with jitter, until a call succeeds, fails permanently, or is cancelled. A server's
//! requested pause is respected, up to the longest pause: a lease lasts a minute without renewal.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use undertone_api::problem::Code;

use super::GatewayError;
use crate::site::clock;

/// The first pause.
const FIRST: Duration = Duration::from_millis(200);
/// The longest pause.
pub(crate) const LONGEST: Duration = Duration::from_secs(30);
/// The number of the server's internal faults in one call before the fault counts as final.
pub(crate) const FAULTS: u32 = 12;

/// The pauses between attempts. Each doubles, up to 30 seconds, and is cut by up to half at random, so that the workers
/// of one failed server do not all return at once.
#[derive(Debug)]
pub struct Patience {
    next: Duration,
    longest: Duration,
    faults: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self { next: FIRST, longest: LONGEST, faults: 0 }
    }
}

impl Patience {
    /// Returns the next pause.
    pub fn pause(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.longest);
        // Without randomness the pause is whole; correctness does not depend on it.
        let random = clock::entropy::<4>().map_or(0.0, |bytes| f64::from(u32::from_le_bytes(bytes)) / 4_294_967_296.0);
        whole.mul_f64(1.0 - random / 2.0)
    }

    /// Returns the pause after an error: the next one, or the server's requested one, if that is longer.
    fn pause_after(&mut self, error: &GatewayError) -> Duration {
        let asked = error.wait().unwrap_or_default().min(self.longest);
        self.pause().max(asked)
    }

    /// Repeats a call until it has a final answer, or `stop` is cancelled (`None`).
    ///
    /// # Errors
    /// The first error that another attempt cannot resolve.
    pub async fn keep_trying<T, F>(
        mut self,
        what: &str,
        stop: &CancellationToken,
        call: impl Fn() -> F,
    ) -> Option<Result<T, GatewayError>>
    where
        F: Future<Output = Result<T, GatewayError>>,
    {
        loop {
            let answer = tokio::select! {
                answer = call() => answer,
                () = stop.cancelled() => return None,
            };
            let error = match answer {
                Err(error) if error.is_transient() => error,
                settled => return Some(settled),
            };
            if error.code() == Some(Code::Internal) {
                self.faults += 1;
                if self.faults >= FAULTS {
                    return Some(Err(error));
                }
            }
            let pause = self.pause_after(&error);
            tracing::warn!(call = what, pause_ms = pause.as_millis() as u64, error = %error, "trying again");
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use tokio_util::sync::CancellationToken;
    use undertone_api::problem::{Code, Problem};

    use super::{FAULTS, Patience};
    use crate::gateway::GatewayError;

    fn quick() -> Patience {
        Patience { next: Duration::ZERO, longest: Duration::ZERO, faults: 0 }
    }

    #[test]
    fn pauses_grow_to_half_a_minute_and_no_further() {
        let mut patience = Patience::default();
        let pauses: Vec<_> = (0..20).map(|_| patience.pause()).collect();
        assert!(pauses[0] <= Duration::from_millis(200));
        assert!(pauses.iter().all(|pause| *pause <= Duration::from_secs(30)));
        assert!(pauses[19] >= Duration::from_secs(15));
    }

    #[test]
    fn a_server_that_says_when_to_come_again_is_taken_at_its_word_and_not_beyond_half_a_minute() {
        let busy = |wait: Duration| GatewayError::Later {
            problem: Box::new(Problem::new(Code::RateLimited, "more calls came than are answered")),
            wait,
        };
        let mut patience = Patience::default();
        assert_eq!(patience.pause_after(&busy(Duration::from_secs(20))), Duration::from_secs(20));
        assert_eq!(patience.pause_after(&busy(Duration::from_secs(30))), Duration::from_secs(30));
        assert_eq!(patience.pause_after(&busy(Duration::from_secs(31))), Duration::from_secs(30));
        // A shorter requested pause changes nothing: the own pauses have grown meanwhile.
        for _ in 0..10 {
            patience.pause();
        }
        assert!(patience.pause_after(&busy(Duration::from_millis(1))) >= Duration::from_secs(15));
    }

    #[tokio::test]
    async fn what_may_work_later_is_tried_until_it_does() {
        let tries = Cell::new(0);
        let answer = quick()
            .keep_trying("a call", &CancellationToken::new(), || {
                tries.set(tries.get() + 1);
                let now = tries.get();
                async move { if now < 30 { Err(GatewayError::Unreachable(String::new())) } else { Ok(now) } }
            })
            .await;
        assert!(matches!(answer, Some(Ok(30))));
    }

    #[tokio::test]
    async fn a_fault_of_the_servers_own_is_borne_eleven_times_and_is_final_at_the_twelfth() {
        for (faults, held) in [(FAULTS - 1, true), (FAULTS, false)] {
            let tries = Cell::new(0);
            let answer = quick()
                .keep_trying("a call", &CancellationToken::new(), || {
                    tries.set(tries.get() + 1);
                    let failing = tries.get() <= faults;
                    async move {
                        let fault = || GatewayError::Problem(Box::new(Problem::new(Code::Internal, "a fault")));
                        if failing { Err(fault()) } else { Ok(()) }
                    }
                })
                .await;
            assert_eq!((answer.is_some_and(|answer| answer.is_ok()), tries.get()), (held, FAULTS));
        }
    }

    #[tokio::test]
    async fn what_cannot_work_is_tried_once() {
        let tries = Cell::new(0);
        let answer = quick()
            .keep_trying("a call", &CancellationToken::new(), || {
                tries.set(tries.get() + 1);
                async { Err::<(), _>(GatewayError::Protocol(String::new())) }
            })
            .await;
        assert!(matches!(answer, Some(Err(GatewayError::Protocol(_)))) && tries.get() == 1);
    }

    #[tokio::test]
    async fn nobody_waits_for_what_is_not_wanted_any_more() {
        let stop = CancellationToken::new();
        let tries = Cell::new(0);
        let answer = quick()
            .keep_trying("a call", &stop, || {
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
