//! Changes to a document: to its bytes, and to its values where it is JSON. A few numbers determine a change, so that
//! proptest can draw them again, and shrink them.

mod json;

/// The longest input, bytes.
const LONGEST: usize = 1 << 20;
/// Bytes with a meaning in most formats, or at the ends of a range.
const BYTES: &[u8] = b"\0\x01\x7f\x80\xff\"'{}[],:;-+.09 \t\r\n\\<>/=e";
/// Edge cases for counts, times and probabilities.
const NUMBERS: [&str; 24] = [
    "0",
    "-0",
    "1",
    "-1",
    "0.5",
    "1e308",
    "-1e308",
    "1e999",
    "-1e999",
    "5e-324",
    "1e-300",
    "NaN",
    "inf",
    "-inf",
    "255",
    "256",
    "65535",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999999999",
];
/// The same edge cases in the form of binary headers.
const WORDS: [u64; 10] =
    [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff];
/// Strings that any parser may receive.
const COMMON: [&str; 12] =
    ["\u{feff}", "\0", "\u{202e}", "\u{1f600}", "\\u0000", "\\ud800", "../../x", "null", "true", "{}", "[]", "\r\n"];

/// The documents to change, and the words of their format.
#[derive(Debug, Default)]
pub struct Mutation {
    /// Valid documents.
    pub seeds: Vec<Vec<u8>>,
    /// Words to insert.
    pub words: Vec<Vec<u8>>,
}

/// One change: its kind, position, amount and value. Every number is reduced modulo its range, so all numbers are
/// valid.
#[derive(Debug, Clone, Copy)]
pub struct Edit {
    /// The kind.
    pub kind: u8,
    /// The position.
    pub at: u32,
    /// The amount.
    pub amount: u32,
    /// The value.
    pub value: u64,
}

impl Mutation {
    /// Returns the input for a document's number and some changes, of at most 1 MiB; the changes start from nothing
    /// where there is no document.
    pub fn input(&self, of: u32, edits: &[Edit]) -> Vec<u8> {
        let seed = pick(&self.seeds, u64::from(of));
        edits.iter().fold(seed.cloned().unwrap_or_default(), |input, edit| {
            let mut changed = self.changed(input, *edit);
            changed.truncate(LONGEST);
            changed
        })
    }

    fn changed(&self, mut input: Vec<u8>, edit: Edit) -> Vec<u8> {
        let at = place(edit.at, input.len() + 1);
        // Mostly few bytes; one time in eight any number of them.
        let most = if edit.value % 8 == 7 { input.len() } else { 32 };
        let end = (at + 1 + place(edit.amount, most.max(1))).min(input.len());
        match edit.kind % 16 {
            0 | 1 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << (edit.value % 8);
                }
            }
            2 => {
                if let (Some(byte), Some(with)) = (input.get_mut(at), pick(BYTES, edit.value)) {
                    *byte = *with;
                }
            }
            3 => {
                input.drain(at.min(end)..end);
            }
            4 => input.truncate(at),
            5 => {
                let part = input[at.min(end)..end].to_vec();
                let times = if edit.value % 16 == 15 { 20_000 } else { 1 + (edit.value % 4) as usize };
                put(&mut input, at, &repeated(&part, times));
            }
            6 => put(&mut input, at, &edit.value.to_le_bytes()[..=((edit.amount % 8) as usize)]),
            7 => {
                let width = [1, 2, 4, 8][(edit.amount % 4) as usize];
                let number = pick(&WORDS, edit.value).copied().unwrap_or_default();
                let bytes = if edit.amount & 8 == 0 {
                    number.to_le_bytes()[..width].to_vec()
                } else {
                    number.to_be_bytes()[8 - width..].to_vec()
                };
                for (to, from) in input.iter_mut().skip(at).zip(bytes) {
                    *to = from;
                }
            }
            8 => input = with_number(input, at, edit.value),
            9 => {
                let word = match pick(&self.words, edit.value) {
                    Some(word) if !edit.amount.is_multiple_of(4) => word.clone(),
                    _ => pick(&COMMON, edit.value).map(|word| word.as_bytes().to_vec()).unwrap_or_default(),
                };
                let times = if edit.amount % 32 == 31 { 20_000 } else { 1 };
                put(&mut input, at, &repeated(&word, times));
            }
            10 => {
                // The beginning of this document, the end of another.
                let other = pick(&self.seeds, edit.value).cloned().unwrap_or_default();
                input.truncate(at);
                input.extend_from_slice(&other[place(edit.amount, other.len() + 1)..]);
            }
            _ => {
                if let Some(changed) = json::changed(&input, edit) {
                    input = changed;
                } else if let Some(byte) = input.get_mut(at) {
                    *byte = edit.value as u8;
                }
            }
        }
        input
    }
}

/// Returns a position below `len`, which is at least 1.
fn place(at: u32, len: usize) -> usize {
    at as usize % len.max(1)
}

fn pick<T>(list: &[T], value: u64) -> Option<&T> {
    list.get((value / 16) as usize % list.len().max(1))
}

fn put(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

/// Repeats a part, up to the longest input.
fn repeated(part: &[u8], times: usize) -> Vec<u8> {
    part.repeat(times.min(LONGEST / part.len().max(1)))
}

/// Replaces the first number after a position by another one.
fn with_number(input: Vec<u8>, at: usize, value: u64) -> Vec<u8> {
    let Some(start) = input[at..].iter().position(u8::is_ascii_digit).map(|found| at + found) else { return input };
    let digits = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = pick(&NUMBERS, value).copied().unwrap_or_default();
    [&input[..start], number.as_bytes(), &input[start + digits..]].concat()
}
