//! Retry times: an overloaded server returns one in the metadata, in the form that gRPC's own clients understand (gRFC
//! A6, "pushback").

use std::time::Duration;

use tonic::Status;
use tonic::metadata::MetadataValue;
use undertone_api::problem::Problem;

use crate::to_status;

/// Metadata key of the number of milliseconds until the next attempt.
pub const RETRY_METADATA: &str = "grpc-retry-pushback-ms";

/// Returns the gRPC status of a problem that ends after `wait`, rounded up to a whole millisecond.
pub fn to_retry_status(problem: &Problem, wait: Duration) -> Status {
    let mut status = to_status(problem);
    let whole = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
    status.metadata_mut().insert(RETRY_METADATA, MetadataValue::from(whole));
    status
}

/// Returns the time after which the server permits a retry; `None` if it is missing or not a number of milliseconds.
pub fn retry_delay(status: &Status) -> Option<Duration> {
    let text = status.metadata().get(RETRY_METADATA)?.to_str().ok()?;
    text.parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::Status;
    use undertone_api::problem::{Code, Problem};

    use super::{RETRY_METADATA, retry_delay, to_retry_status};
    use crate::{to_problem, to_status};

    #[test]
    fn retry_delay_survives_the_wire_rounded_up() {
        let problem = Problem::new(Code::RateLimited, "more calls came than are answered");
        for (wait, expected) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2), (1_500_000_000, 1500)] {
            let status = to_retry_status(&problem, Duration::from_nanos(wait));
            let read = Status::from_header_map(status.into_http::<()>().headers()).expect("it is a status");
            assert_eq!(read.code(), tonic::Code::ResourceExhausted);
            assert_eq!(retry_delay(&read), Some(Duration::from_millis(expected)), "{wait} ns");
            assert_eq!(to_problem(&read), problem);
        }
    }

    #[test]
    fn malformed_retry_delay_is_ignored() {
        let mut status = to_status(&Problem::new(Code::RateLimited, "why"));
        assert_eq!(retry_delay(&status), None);
        // A negative number means in gRPC: do not retry. A worker then retries by its own backoff.
        for odd in ["-1", "soon", "99999999999999999999999"] {
            status.metadata_mut().insert(RETRY_METADATA, odd.parse().expect("visible characters"));
            assert_eq!(retry_delay(&status), None, "{odd}");
        }
    }
}
