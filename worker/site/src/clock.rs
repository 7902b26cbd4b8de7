//! The time and the randomness of the machine: the only place of this crate that asks the system for either, apart from
//! the noise of releases.

use std::sync::Arc;

use time::OffsetDateTime;

/// A clock, handed to whatever needs the time.
pub type Clock = Arc<dyn Fn() -> OffsetDateTime + Send + Sync>;

/// The system's clock.
pub fn system() -> Clock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the worker reads the system's clock")]
    Arc::new(OffsetDateTime::now_utc)
}

/// Random bytes from the operating system, for keys, ids and jitter.
///
/// # Errors
/// When the operating system has none to give; nothing that needs them can go on then.
pub fn entropy<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    #[expect(clippy::disallowed_methods, reason = "the one place where the worker draws keys and ids")]
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes)
}
