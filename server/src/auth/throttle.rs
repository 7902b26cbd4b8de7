//! Guessing passwords is slow: 10 wrong sign-ins for an e-mail, or 50 from an address, within 15 minutes close the door
//! to it until the 15 minutes are over. An attempt counts when it begins, so guessing in parallel gains nothing; a right
//! password takes its attempt back. Kept in memory: a restart forgives.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use time::{Duration, OffsetDateTime};

/// Wrong attempts for one e-mail in a window.
pub(super) const BY_EMAIL: u32 = 10;
/// Wrong attempts from one address in a window.
pub(super) const BY_ADDRESS: u32 = 50;
/// Length of a window.
pub(super) const WINDOW: Duration = Duration::minutes(15);
/// Windows remembered at most; the oldest are forgotten first.
const REMEMBERED: usize = 20_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Email(String),
    Address(IpAddr),
}

#[derive(Debug, Clone, Copy)]
struct Window {
    began: OffsetDateTime,
    attempts: u32,
}

/// Counts attempts.
#[derive(Debug, Clone, Default)]
pub struct Throttle(Arc<Mutex<HashMap<Key, Window>>>);

impl Throttle {
    /// Counts an attempt for `email` from `address`; `false` when one of them has had too many.
    pub fn admits(&self, email: &str, address: IpAddr, now: OffsetDateTime) -> bool {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if windows.len() >= REMEMBERED {
            forget(&mut windows, now);
        }
        let keys = [(Key::Address(prefix(address)), BY_ADDRESS), (Key::Email(email.to_owned()), BY_EMAIL)];
        let mut admitted = true;
        for (key, most) in keys {
            let window = windows.entry(key).or_insert(Window { began: now, attempts: 0 });
            if now - window.began >= WINDOW {
                *window = Window { began: now, attempts: 0 };
            }
            admitted &= window.attempts < most;
            window.attempts = window.attempts.saturating_add(1);
        }
        admitted
    }

    /// Takes an attempt back: the password was right. The e-mail starts anew, the address is forgiven this one.
    pub fn forgive(&self, email: &str, address: IpAddr) {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        windows.remove(&Key::Email(email.to_owned()));
        if let Some(window) = windows.get_mut(&Key::Address(prefix(address))) {
            window.attempts = window.attempts.saturating_sub(1);
        }
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

fn forget(windows: &mut HashMap<Key, Window>, now: OffsetDateTime) {
    windows.retain(|_, window| now - window.began < WINDOW);
    if windows.len() >= REMEMBERED {
        let mut ages: Vec<OffsetDateTime> = windows.values().map(|window| window.began).collect();
        ages.sort_unstable();
        let middle = ages[ages.len() / 2];
        windows.retain(|_, window| window.began > middle);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use time::{Duration, OffsetDateTime};

    use super::{BY_ADDRESS, BY_EMAIL, Throttle, WINDOW};

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn an_email_is_closed_after_ten_wrong_attempts_and_opens_again() {
        let throttle = Throttle::default();
        for attempt in 0..BY_EMAIL {
            assert!(throttle.admits("a@example.org", address(attempt as u8), NOW));
        }
        assert!(!throttle.admits("a@example.org", address(200), NOW), "from wherever it comes");
        assert!(throttle.admits("b@example.org", address(200), NOW), "others are not touched");
        assert!(!throttle.admits("a@example.org", address(201), NOW + WINDOW - Duration::SECOND));
        assert!(throttle.admits("a@example.org", address(201), NOW + WINDOW));
    }

    #[test]
    fn an_address_is_closed_after_fifty_whatever_the_email() {
        let throttle = Throttle::default();
        for attempt in 0..BY_ADDRESS {
            assert!(throttle.admits(&format!("{attempt}@example.org"), address(1), NOW));
        }
        assert!(!throttle.admits("last@example.org", address(1), NOW));
    }

    #[test]
    fn a_right_password_takes_its_attempt_back() {
        let throttle = Throttle::default();
        for _ in 0..10 * BY_ADDRESS {
            assert!(throttle.admits("a@example.org", address(1), NOW));
            throttle.forgive("a@example.org", address(1));
        }
    }
}
