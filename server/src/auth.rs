//! Who is calling, and may they? Passwords, tokens, throttling, and the one policy table. Nothing here touches a table.

mod actor;
pub mod factor;
mod origin;
mod password;
pub mod policy;
pub mod provider;
mod throttle;
mod token;

pub use actor::{Actor, Means};
pub use origin::Origin;
#[cfg(test)]
pub(crate) use password::{AT_A_TIME, MEMORY_KIB};
pub use password::{Passwords, guessed_early};
pub use policy::{Operation, Place};
pub use provider::Provider;
pub use throttle::{Door, WINDOW};
pub use token::{Access, AccessError};
