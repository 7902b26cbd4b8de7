//! Phones with times as NIST CTM: `id channel start duration phone [confidence]`, times in seconds, as Kaldi's
//! `ali-to-phones --ctm-output` and many other aligners write. The lines of an utterance may be anywhere in the file.

use std::collections::BTreeMap;
use std::io::BufRead;

use super::kaldi;
use super::lines::{self, BadLine};
use super::phones::{PhoneSegment, PhoneTable};

/// The reason to skip a line of class numbers where phones are expected.
pub(super) const NUMBERS: &str = "class numbers, where phones are expected";

/// Reads a file of phones.
///
/// # Errors
/// The reader's errors; an invalid line is not an error.
pub(super) fn parse(reader: impl BufRead) -> std::io::Result<(PhoneTable, Vec<BadLine>)> {
    let mut segments: BTreeMap<String, (String, Vec<PhoneSegment>)> = BTreeMap::new();
    let mut bad_lines = lines::each(reader, |line| {
        if line.starts_with(b";;") {
            return Ok(());
        }
        if line.starts_with(b"{") || std::str::from_utf8(line).is_ok_and(kaldi::is_one) {
            return Err(NUMBERS.to_owned());
        }
        let (id, channel, segment) = one(line)?;
        let (first, of_id) = segments.entry(id).or_insert_with(|| (channel.clone(), Vec::new()));
        if *first != channel {
            return Err(format!("channel {channel} beside {first}: one channel an utterance"));
        }
        of_id.push(segment);
        Ok(())
    })?;
    let mut phones = PhoneTable::default();
    for (id, (_, of_id)) in segments {
        if let Err(reason) = phones.insert(id.clone(), of_id) {
            // The line number is unknown at this point; the utterance is known.
            bad_lines.push(BadLine::new(0, format!("{reason}, of {id}")));
        }
    }
    Ok((phones, bad_lines))
}

fn one(line: &[u8]) -> Result<(String, String, PhoneSegment), String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let [id, channel, start, duration, phone] = fields
        .get(..5)
        .and_then(|five| five.try_into().ok())
        .ok_or_else(|| format!("{} fields: a line is `id channel start duration phone [confidence]`", fields.len()))?;
    let seconds = |text: &str| -> Result<f64, String> {
        text.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(|| format!("{text:?} is not seconds"))
    };
    let start = seconds(start)?;
    let segment = PhoneSegment { start, end: start + seconds(duration)?, phone: phone.to_owned() };
    Ok((id.to_owned(), channel.to_owned(), segment))
}

/// Returns true if the line is a line of such a file.
pub(super) fn is_one(line: &str) -> bool {
    line.starts_with(";;") || one(line.as_bytes()).is_ok()
}
