//! The functions that a browser's engine calls: numbers in, numbers out, so that no glue code is needed.
#![expect(unsafe_code, reason = "a name that the engine can call is an unsafe attribute; the functions are not unsafe")]

use std::sync::{LazyLock, Mutex, PoisonError};

use crate::facts;
use crate::work::{Past, compositions, event, renyi, tight};

static WORDS: LazyLock<Vec<u64>> = LazyLock::new(|| facts().words);
static PAST: Mutex<Option<Past>> = Mutex::new(None);

// SAFETY (of every name here): each is exported by this module only, and takes and returns plain numbers.

/// Returns the number of words to compare.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn words() -> u32 {
    WORDS.len() as u32
}

/// Returns one word; 0 beyond the last.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn word(index: u32) -> u64 {
    WORDS.get(index as usize).copied().unwrap_or_default()
}

/// Returns ε of a composition from Rényi curves.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn renyi_epsilon(composition: u32) -> f64 {
    compositions().get(composition as usize).map_or(f64::NAN, |(_, runs)| renyi(&event(runs)))
}

/// Returns ε of a composition from loss distributions.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn tight_epsilon(composition: u32) -> f64 {
    compositions().get(composition as usize).map_or(f64::NAN, |(_, runs)| tight(&event(runs)))
}

/// Opens an account with a history of so many events.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn open_past(events: u32) {
    *PAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(Past::new(u64::from(events)));
}

/// Admits `jobs` more, and returns the ε spent after them.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn admit(jobs: u32) -> f64 {
    let mut past = PAST.lock().unwrap_or_else(PoisonError::into_inner);
    past.as_mut().map_or(f64::NAN, |past| {
        (0..jobs).for_each(|_| past.admit());
        past.spent()
    })
}
