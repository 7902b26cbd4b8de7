//! The names of configuration keys, for the server and the worker.
//!
//! [`KnownKeys`] refuses a name that is no key, in a file or in the environment, and suggests the nearest key: a misspelt limit
//! without an effect is worse than a program that does not start. [`ConfigText`] finds the line of a key. The programs own
//! their keys, values and ranges; this crate reads no file and no environment.

mod keys;
mod text;

pub use keys::{KnownKeys, UnknownKey, variable_name};
pub use text::ConfigText;
