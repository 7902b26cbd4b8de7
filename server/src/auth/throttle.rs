//! Guessing is slow: what is counted, against whom, and how often it may be wrong. A door that was tried too often stays
//! closed, whatever is brought to it, until its window of 15 minutes is over. An attempt counts when it begins, so
//! guessing in parallel gains nothing; a right one takes itself back. The counts stand in the database
//! (`service::attempt`), so that replicas share them and a restart forgives nothing.

use std::net::IpAddr;

use time::Duration;
use undertone_api::id::MemberId;

use crate::ctx::fingerprint;

/// Length of a window.
pub const WINDOW: Duration = Duration::minutes(15);

/// What is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door {
    /// An account's password, by its e-mail (lower case), whether there is such an account or not.
    Email(String),
    /// Anything from an address.
    Address(IpAddr),
    /// A member's second factor.
    Code(MemberId),
}

impl Door {
    /// Attempts in a window: 10 passwords for an e-mail, 5 codes of a member, 50 of anything from an address.
    pub const fn most(&self) -> i32 {
        match self {
            Self::Email(_) => 10,
            Self::Address(_) => 50,
            Self::Code(_) => 5,
        }
    }

    /// Under which the attempts are counted: no e-mail and no address is stored.
    pub fn key(&self) -> String {
        fingerprint(&match self {
            Self::Email(email) => format!("email {email}"),
            Self::Address(address) => format!("address {}", prefix(*address)),
            Self::Code(member) => format!("code {member}"),
        })
    }
}

/// One household has many IPv6 addresses: its /64 counts as one.
fn prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::Door;

    #[test]
    fn a_household_is_one_address_and_its_neighbour_another() {
        let key = |text: &str| Door::Address(text.parse::<IpAddr>().expect("an address")).key();
        assert_eq!(key("2001:db8:1:2::3"), key("2001:db8:1:2:ffff::"));
        assert_ne!(key("2001:db8:1:2::3"), key("2001:db8:1:3::3"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.2"), key("192.0.2.1"));
    }
}
