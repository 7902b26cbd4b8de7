//! Who is calling, and may they? Passwords, tokens, throttling, and the one policy table. Nothing here touches a table.

mod actor;
mod password;
pub mod policy;
mod throttle;
mod token;

pub use actor::Actor;
pub use password::Passwords;
pub use policy::{Operation, Place};
pub use throttle::Throttle;
pub use token::{Access, AccessError};
