//! Time and randomness of the machine. Apart from the noise of releases, no other module of this crate asks the system
//! for either.

use std::sync::Arc;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A clock, passed to all code that needs the time.
pub type Clock = Arc<dyn Fn() -> OffsetDateTime + Send + Sync>;

/// Returns the system's clock.
pub fn system() -> Clock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the worker reads the system's clock")]
    Arc::new(OffsetDateTime::now_utc)
}

/// Formats a time for the database and for documents (RFC 3339).
pub(crate) fn format_time(at: OffsetDateTime) -> String {
    // Formatting a time of this era never fails.
    at.format(&Rfc3339).unwrap_or_default()
}

/// Returns random bytes from the operating system, for keys, ids and jitter.
///
/// # Errors
/// The error of the operating system. Operations that need random bytes cannot continue without them.
pub fn entropy<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    #[expect(clippy::disallowed_methods, reason = "the one place where the worker draws keys and ids")]
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}
