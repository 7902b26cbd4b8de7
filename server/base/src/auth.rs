//! Authentication and authorization: passwords, tokens, throttling, and the single policy table. This module accesses
//! no database table.

mod actor;
pub mod cookie;
mod device;
pub mod factor;
mod origin;
pub mod page_seal;
pub mod passkey;
mod password;
pub mod policy;
pub mod provider;
mod throttle;
mod token;

pub use actor::{Actor, Means, Memberships};
pub use device::KNOWN;
pub use origin::Origin;
pub use password::{AT_A_TIME, MEMORY_KIB, MOST_OF_NETWORK, MOST_WAITING};
pub use password::{NetworkPlace, PasswordCaller, Passwords, is_easily_guessed};
pub use policy::{Operation, Place};
pub use provider::Provider;
pub use throttle::WINDOW;
pub use throttle::{DAY, Door};
pub use token::{Access, AccessError};

/// The time for which a proof of identity (password, second factor, or a new sign-in) is valid for operations that
/// create credentials or revoke access.
pub const FRESH: time::Duration = time::Duration::minutes(10);
