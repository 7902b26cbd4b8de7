//! The successive keys of one secret file. A new key is published first and used from a set time on. The previous key
//! continues to verify for the longest lifetime of a document that it may have signed.
//!
//! The file has one line per key, the oldest first: 64 hex digits, then, for each key but the first, a blank and the
//! time (RFC 3339) of its activation. A file of one line belongs to a server without any rotation.

use sha2::{Digest as _, Sha256};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

/// The highest number of keys in one file.
pub const MOST_KEYS: usize = 16;
/// Hex digits of a key id.
const ID_DIGITS: usize = 16;

/// A key, its id, and the time of its activation.
#[derive(Clone, PartialEq, Eq)]
pub struct RingKey {
    secret: [u8; 32],
    id: String,
    from: Option<OffsetDateTime>,
}

/// The keys of one file, the oldest first. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRing(Vec<RingKey>);

/// A reason why keys do not form a ring.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// A line is not a key.
    #[error("line {0} is not a key: 64 hex digits, and the time from which the key is in force unless it is the first")]
    Line(usize),
    /// The times do not increase.
    #[error(
        "the key in line {0} is in force no later than the one above it, or is the same key: each key takes the place of the one before it"
    )]
    Order(usize),
    /// There are too many keys.
    #[error("there are {0} keys, and at most {MOST_KEYS} may be kept: run `undertone-server keys prune`")]
    TooMany(usize),
}

impl std::fmt::Debug for RingKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "RingKey({})", self.id)
    }
}

impl RingKey {
    fn new(secret: [u8; 32], from: Option<OffsetDateTime>) -> Self {
        let mut id = hex::encode(Sha256::digest([b"undertone/key-id/1".as_slice(), &[0], &secret].concat()));
        id.truncate(ID_DIGITS);
        Self { secret, id, from }
    }

    /// Returns the secret.
    pub const fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// Returns the key's id, which depends on the secret alone and does not reveal it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the time of the key's activation; `None` for the first one.
    pub const fn starts_at(&self) -> Option<OffsetDateTime> {
        self.from
    }

    fn is_in_force(&self, now: OffsetDateTime) -> bool {
        self.from.is_none_or(|from| from <= now)
    }
}

impl KeyRing {
    /// Makes a ring of one current key.
    pub fn from_secret(secret: [u8; 32]) -> Self {
        Self(vec![RingKey::new(secret, None)])
    }

    /// Reads the lines of a file.
    ///
    /// # Errors
    /// [`RingError`] names the line.
    pub fn parse(text: &str) -> Result<Self, RingError> {
        let lines =
            text.trim().lines().enumerate().map(|(index, line)| read_line(line.trim(), index == 0).ok_or(index));
        let keys = lines.collect::<Result<Vec<_>, _>>().map_err(|index| RingError::Line(index + 1))?;
        if keys.is_empty() {
            return Err(RingError::Line(1));
        }
        Self::from_keys(keys)
    }

    fn from_keys(keys: Vec<RingKey>) -> Result<Self, RingError> {
        if keys.len() > MOST_KEYS {
            return Err(RingError::TooMany(keys.len()));
        }
        for (index, pair) in keys.windows(2).enumerate() {
            let is_known = keys[..=index].iter().any(|key| key.id == pair[1].id);
            if is_known || pair[0].from.is_some_and(|from| Some(from) >= pair[1].from) {
                return Err(RingError::Order(index + 2));
            }
        }
        Ok(Self(keys))
    }

    /// Returns the ring with one more key, active from a time on.
    ///
    /// # Errors
    /// [`RingError`] if the ring is full, or already has a key with a later activation.
    pub fn with_next(&self, secret: [u8; 32], from: OffsetDateTime) -> Result<Self, RingError> {
        // The file stores whole seconds.
        let from = from.replace_nanosecond(0).unwrap_or(from);
        let mut keys = self.0.clone();
        keys.push(RingKey::new(secret, Some(from)));
        Self::from_keys(keys)
    }

    /// Returns the ring without replaced keys for which `is_unused` returns true. The current key and later ones always
    /// stay.
    #[must_use]
    pub fn prune(&self, now: OffsetDateTime, is_unused: impl Fn(&RingKey, OffsetDateTime) -> bool) -> Self {
        let stays = |(index, key): &(usize, &RingKey)| match self.replaced_at(*index) {
            Some(replaced) if replaced <= now => !is_unused(key, replaced),
            _ => true,
        };
        let remaining = self.0.iter().enumerate().filter(stays).map(|(_, key)| key);
        // The first line has no time.
        let remaining =
            remaining.enumerate().map(|(index, key)| RingKey { from: key.from.filter(|_| index > 0), ..key.clone() });
        Self(remaining.collect())
    }

    /// Returns the file's text.
    pub fn to_text(&self) -> String {
        let line = |key: &RingKey| {
            let from = key.from.and_then(|from| from.format(&Rfc3339).ok());
            hex::encode(key.secret) + &from.map(|from| format!(" {from}")).unwrap_or_default()
        };
        self.0.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Returns all keys, the oldest first.
    pub fn keys(&self) -> &[RingKey] {
        &self.0
    }

    /// Returns the current key: the newest active one.
    pub fn current(&self, now: OffsetDateTime) -> &RingKey {
        self.0.iter().rfind(|key| key.is_in_force(now)).unwrap_or(&self.0[0])
    }

    /// Returns the key with this id, if it may have signed a document with lifetime `longest`. Documents without an id
    /// predate key ids, and the first key signed them.
    pub fn find(&self, id: Option<&str>, now: OffsetDateTime, longest: Duration) -> Option<&RingKey> {
        let index = id.map_or(Some(0), |id| self.0.iter().position(|key| key.id == id))?;
        self.is_usable(index, now, longest).then(|| &self.0[index])
    }

    /// Returns the keys that may have signed a document with lifetime `longest`, the newest first. They include keys
    /// that are not active yet, because the clock of another server may be ahead.
    pub fn usable(&self, now: OffsetDateTime, longest: Duration) -> impl Iterator<Item = &RingKey> {
        let keys = self.0.iter().enumerate().rev();
        keys.filter(move |(index, _)| self.is_usable(*index, now, longest)).map(|(_, key)| key)
    }

    fn is_usable(&self, index: usize, now: OffsetDateTime, longest: Duration) -> bool {
        self.replaced_at(index).is_none_or(|replaced| now < replaced + longest)
    }

    /// Returns the time at which the next key replaces this one.
    fn replaced_at(&self, index: usize) -> Option<OffsetDateTime> {
        self.0.get(index + 1).and_then(|next| next.from)
    }
}

fn read_line(line: &str, is_first: bool) -> Option<RingKey> {
    let (digits, from) = line.split_once(' ').map_or((line, None), |(digits, from)| (digits, Some(from.trim())));
    let secret = hex::decode(digits).ok()?.try_into().ok()?;
    if is_first != from.is_none() {
        return None;
    }
    let from = from.map(|from| OffsetDateTime::parse(from, &Rfc3339)).transpose().ok()?;
    Some(RingKey::new(secret, from))
}

#[cfg(test)]
mod tests {
    use time::{Duration, OffsetDateTime};

    use super::{KeyRing, MOST_KEYS, RingError};

    const NOW: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;
    const HOUR: Duration = Duration::HOUR;

    fn two() -> KeyRing {
        KeyRing::from_secret([1; 32]).with_next([2; 32], NOW + HOUR).expect("it follows")
    }

    #[test]
    fn published_key_is_used_from_its_time_on() {
        let ring = two();
        assert_eq!(ring.current(NOW).secret(), &[1; 32]);
        assert_eq!(ring.current(NOW + HOUR - Duration::SECOND).secret(), &[1; 32]);
        assert_eq!(ring.current(NOW + HOUR).secret(), &[2; 32]);
        let next = ring.keys()[1].id();
        assert!(ring.find(Some(next), NOW, HOUR).is_some(), "another server's clock may be ahead");
    }

    #[test]
    fn replaced_key_verifies_for_the_longest_document() {
        let ring = two();
        let first = ring.keys()[0].id();
        let end = NOW + HOUR + Duration::minutes(15);
        for (now, holds) in [(NOW, true), (NOW + HOUR, true), (end - Duration::SECOND, true), (end, false)] {
            assert_eq!(ring.find(Some(first), now, Duration::minutes(15)).is_some(), holds, "{now}");
            assert_eq!(ring.find(None, now, Duration::minutes(15)).is_some(), holds, "without an id, {now}");
            let usable = ring.usable(now, Duration::minutes(15)).count();
            assert_eq!(usable, if holds { 2 } else { 1 }, "{now}");
        }
        assert!(ring.find(Some("0123456789abcdef"), NOW, HOUR).is_none(), "of no key");
    }

    #[test]
    fn ring_reads_back_as_it_was_written() {
        let ring = two().with_next([3; 32], NOW + HOUR * 2 + Duration::milliseconds(7)).expect("it follows");
        assert_eq!(KeyRing::parse(&ring.to_text()), Ok(ring.clone()));
        assert_eq!(KeyRing::from_secret([1; 32]).to_text(), "01".repeat(32), "as before there were several");
        assert!(!format!("{ring:?}").contains("0101"), "no secret is printed");
    }

    #[test]
    fn ring_of_wrong_lines_is_refused_with_the_line() {
        let (one, two) = ("01".repeat(32), "02".repeat(32));
        for (text, error) in [
            (String::new(), RingError::Line(1)),
            ("not a key".to_owned(), RingError::Line(1)),
            (format!("{one} 1970-01-01T00:00:00Z"), RingError::Line(1)),
            (format!("{one}\n{two}"), RingError::Line(2)),
            (format!("{one}\n{two} soon"), RingError::Line(2)),
            (format!("{one}\n{one} 1970-01-01T00:00:00Z"), RingError::Order(2)),
            (
                format!("{one}\n{two} 1970-01-02T00:00:00Z\n{} 1970-01-01T00:00:00Z", "03".repeat(32)),
                RingError::Order(3),
            ),
        ] {
            assert_eq!(KeyRing::parse(&text), Err(error), "{text}");
        }
    }

    #[test]
    fn ring_holds_sixteen_keys_and_no_more() {
        let mut ring = KeyRing::from_secret([0; 32]);
        for number in 1..MOST_KEYS as u8 {
            ring = ring.with_next([number; 32], NOW + HOUR * i32::from(number)).expect("there is room");
        }
        let refused = ring.with_next([99; 32], NOW + Duration::days(9));
        assert_eq!(refused, Err(RingError::TooMany(MOST_KEYS + 1)));
    }

    #[test]
    fn pruning_keeps_the_key_in_force_and_those_after_it() {
        let ring = two().with_next([3; 32], NOW + HOUR * 2).expect("it follows");
        assert_eq!(ring.prune(NOW, |_, _| true), ring, "the first is in force");
        let pruned = ring.prune(NOW + HOUR, |_, _| true);
        assert_eq!(pruned.keys().len(), 2);
        assert_eq!(pruned.current(NOW + HOUR).secret(), &[2; 32]);
        assert_eq!(KeyRing::parse(&pruned.to_text()), Ok(pruned));
        assert_eq!(ring.prune(NOW + HOUR, |_, _| false), ring, "it is still needed");
    }
}
