//! Model definitions of PocketSphinx (`mdef`, binary format 1): which senones the states of each phone are tied to.
//!
//! The header describes the rest in words: counts, names of base phones, the tree of triphones (not needed), one entry
//! for each phone in its context, and the senones of each sequence of states. A context-dependent entry has its base
//! phone in the second byte of its attributes.

use std::path::Path;

use super::labels::{MOST_STATES, PhoneState};
use crate::align::phones::plain_phone;

/// The first bytes of such a file, little-endian.
pub(super) const MAGIC: &[u8] = b"BMDF";
/// Maximum size of a file.
const MOST_BYTES: u64 = 256 << 20;
/// Size of an entry of a phone.
const ENTRY: usize = 12;
/// Size of a node of the tree of triphones.
const TREE_NODE: usize = 8;
const DAMAGED: &str = "it is damaged: take the `mdef` of the model again";

/// Returns the phone and state of each senone.
///
/// # Errors
/// The problem as text.
pub(super) fn read(path: &Path) -> Result<Vec<Option<PhoneState>>, String> {
    let size = path.metadata().map_err(|error| error.to_string())?.len();
    if size > MOST_BYTES {
        return Err(format!("it has {size} bytes, at most {MOST_BYTES} are read"));
    }
    parse(&std::fs::read(path).map_err(|error| error.to_string())?)
}

fn parse(content: &[u8]) -> Result<Vec<Option<PhoneState>>, String> {
    let mut rest = content.strip_prefix(MAGIC).ok_or(DAMAGED)?;
    let version = take_count(&mut rest)?;
    if version != 1 {
        return Err(format!("it has version {version} of the format, and 1 is read"));
    }
    let description = take_count(&mut rest)?;
    take(&mut rest, description)?;
    let mut header = [0; 10];
    for count in &mut header {
        *count = take_count(&mut rest)?;
    }
    let [base, phones, states, _, senones, _, sequences, _, tree, _] = header;
    if !(1..=MOST_STATES).contains(&states) {
        return Err(format!("its phones have {states} states, and 1 to {MOST_STATES} are read"));
    }
    if base == 0 || base > phones || senones > 65_536 {
        return Err(DAMAGED.to_owned());
    }
    let mut names = Vec::new();
    let before = rest.len();
    for _ in 0..base {
        let end = rest.iter().position(|byte| *byte == 0).ok_or(DAMAGED)?;
        names.push(std::str::from_utf8(take(&mut rest, end)?).map_err(|_| DAMAGED)?);
        take(&mut rest, 1)?;
    }
    let length = before - rest.len();
    take(&mut rest, length.next_multiple_of(4) - length)?;
    take(&mut rest, tree.checked_mul(TREE_NODE).ok_or(DAMAGED)?)?;
    let entries = take(&mut rest, phones.checked_mul(ENTRY).ok_or(DAMAGED)?)?;
    if take_count(&mut rest)? != sequences.checked_mul(states).ok_or(DAMAGED)? {
        return Err(DAMAGED.to_owned());
    }
    let tied = take(&mut rest, sequences.checked_mul(2 * states).ok_or(DAMAGED)?)?;
    let mut by_senone: Vec<Option<PhoneState>> = vec![None; senones];
    for (number, entry) in entries.chunks_exact(ENTRY).enumerate() {
        let base_phone = if number < base { number } else { usize::from(entry[9]) };
        let name = names.get(base_phone).ok_or(DAMAGED)?;
        let mut first = entry;
        let sequence = take_count(&mut first)?;
        let own = tied.chunks_exact(2 * states).nth(sequence).ok_or(DAMAGED)?;
        for (state, senone) in own.chunks_exact(2).enumerate() {
            let senone = usize::from(u16::from_le_bytes([senone[0], senone[1]]));
            let place = by_senone.get_mut(senone).ok_or(DAMAGED)?;
            // Senones shared by several phones keep the first.
            place.get_or_insert_with(|| PhoneState { phone: plain_phone(name), state });
        }
    }
    Ok(by_senone)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (own, after) = rest.split_at_checked(count).ok_or(DAMAGED)?;
    *rest = after;
    Ok(own)
}

fn take_count(rest: &mut &[u8]) -> Result<usize, String> {
    let bytes = take(rest, 4)?.try_into().map_err(|_| DAMAGED)?;
    usize::try_from(i32::from_le_bytes(bytes)).map_err(|_| DAMAGED.to_owned())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::{PhoneState, parse};

    /// Returns a definition of the base phones SIL and AA, and of AA in one context, of two states each.
    fn definition() -> Vec<u8> {
        let counts = |values: &[i32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let mut file = b"BMDF".to_vec();
        file.extend(counts(&[1, 8]));
        file.extend(b"in words");
        file.extend(counts(&[2, 3, 2, 4, 6, 2, 3, 3, 1, 0]));
        file.extend(b"SIL\0AA\0\0");
        file.extend([0; 8]);
        for (sequence, attributes) in [(0, [1, 0, 0, 0]), (1, [0; 4]), (2, [0, 1, 0, 0])] {
            file.extend(counts(&[sequence, 0]));
            file.extend(attributes);
        }
        file.extend(counts(&[6]));
        file.extend([0_u16, 1, 2, 3, 5, 3].iter().flat_map(|senone| senone.to_le_bytes()));
        file
    }

    #[test]
    fn senones_have_their_phones_and_states() {
        let state = |phone: &str, state| Some(PhoneState { phone: phone.to_owned(), state });
        let expected = [state("SIL", 0), state("SIL", 1), state("AA", 0), state("AA", 1), None, state("AA", 0)];
        assert_eq!(parse(&definition()).unwrap(), expected);
    }

    #[test]
    fn damaged_definition_is_refused() {
        let file = definition();
        for length in 0..file.len() {
            assert!(parse(&file[..length]).is_err(), "the first {length} bytes");
        }
        for place in 0..file.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut other = file.clone();
                other[place] = byte;
                // Any result, but no panic and no allocation beyond the file.
                drop(parse(&other));
            }
        }
        let mut newer = file;
        newer[4] = 2;
        assert!(parse(&newer).unwrap_err().contains("version 2"));
    }
}
