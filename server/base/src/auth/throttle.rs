//! Limits guessing: the counters of attempts, and the highest number of wrong ones. After too many attempts, every
//! further attempt is refused until the window ends, even a correct one: 15 minutes, and a day for all codes of a
//! member. An attempt counts when it begins, so parallel guesses gain nothing; a correct attempt is subtracted again.
//! The counts are in the database (`service::attempt`), so that replicas share them and a restart does not reset them.

use std::net::IpAddr;

use time::Duration;
use undertone_api::id::MemberId;

use crate::ctx::fingerprint;
use crate::network::network_of;

/// Length of a window.
pub const WINDOW: Duration = Duration::minutes(15);
/// Length of the window of [`Door::DailyCodes`].
pub const DAY: Duration = Duration::days(1);

/// A counter of attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Door {
    /// An account's password, by its e-mail (lower case), including e-mails without an account.
    Email(String),
    /// Any attempt from an address.
    Address(IpAddr),
    /// Any attempt from the /48 of an IPv6 address, which a provider assigns to one site: 65,536 addresses as they are
    /// counted here.
    Prefix(IpAddr),
    /// An account's password, from a known device of its member: guesses from elsewhere do not count here.
    Device(MemberId),
    /// The password of a signed-in member.
    Own(MemberId),
    /// A member's second factor.
    Code(MemberId),
    /// The same within a day. With 3 valid codes at any time, 20 guesses find one of a million with a probability of 6
    /// in 100,000.
    DailyCodes(MemberId),
    /// Failures of a member, or of accounts that do not exist: counted for the audit log, never refused.
    Failures(Option<MemberId>),
}

impl Door {
    /// Returns the counters of an address, the most specific first.
    pub fn of_address(address: IpAddr) -> Vec<Self> {
        let mut doors = vec![Self::Address(address)];
        if matches!(address.to_canonical(), IpAddr::V6(_)) {
            doors.push(Self::Prefix(address));
        }
        doors
    }

    /// Returns the counters of a member's second factor.
    pub const fn of_codes(member: MemberId) -> [Self; 2] {
        [Self::Code(member), Self::DailyCodes(member)]
    }

    /// Returns the length of the window in which attempts are counted.
    pub const fn window(&self) -> Duration {
        match self {
            Self::DailyCodes(_) => DAY,
            _ => WINDOW,
        }
    }

    /// Returns whether a correct attempt subtracts only itself, because others may have made the earlier attempts.
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Address(_) | Self::Prefix(_) | Self::DailyCodes(_))
    }

    /// Returns the highest number of attempts in a window: 10 passwords for an e-mail, for a known device or by a
    /// signed-in member, 5 codes of a member and 20 in a day, 50 of any kind from an address, 500 from a /48.
    pub const fn most(&self) -> i32 {
        match self {
            Self::Email(_) | Self::Device(_) | Self::Own(_) => 10,
            Self::Address(_) => 50,
            Self::Prefix(_) => 500,
            Self::Code(_) => 5,
            Self::DailyCodes(_) => 20,
            Self::Failures(_) => i32::MAX,
        }
    }

    /// Returns the key under which attempts are counted: a hash, so that no e-mail and no address is stored.
    pub fn key(&self) -> String {
        fingerprint(&match self {
            Self::Email(email) => format!("email {email}"),
            Self::Address(address) => format!("address {}", network_of(*address)),
            Self::Prefix(address) => format!("prefix {}", prefix(*address)),
            Self::Device(member) => format!("device {member}"),
            Self::Own(member) => format!("own {member}"),
            Self::Code(member) => format!("code {member}"),
            Self::DailyCodes(member) => format!("daily codes {member}"),
            Self::Failures(Some(member)) => format!("failures {member}"),
            Self::Failures(None) => "failures".to_owned(),
        })
    }
}

/// Returns the /48 of an IPv6 address.
fn prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, ..] = address.segments();
            IpAddr::from([a, b, c, 0, 0, 0, 0, 0])
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
