//! A bundle as a file: written line by line with its end, and read back.

use std::io::{self, BufRead, Write};

use sha2::{Digest as _, Sha256};
use undertone_api::log::bundle::BundleLine;

use super::{Examiner, Pins, Report};

/// The longest accepted line, bytes. A manifest or receipt has a few KiB.
const LONGEST: u64 = 4 << 20;

/// Converts lines to the bytes of a bundle.
#[derive(Debug, Default)]
pub struct BundleEncoder {
    lines: u64,
    digest: Sha256,
}

impl BundleEncoder {
    /// Returns the bytes of the next line.
    ///
    /// # Errors
    /// If the line has no JSON form.
    pub fn encode_line(&mut self, line: &BundleLine) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.lines += 1;
        self.digest.update(&bytes);
        Ok(bytes)
    }

    /// Returns the bytes of the last line.
    ///
    /// # Errors
    /// If the line has no JSON form.
    pub fn encode_end(self) -> Result<Vec<u8>, serde_json::Error> {
        let Self { lines, digest } = self;
        let mut bytes = serde_json::to_vec(&BundleLine::End { lines, digest: hex::encode(digest.finalize()) })?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// Writes lines as a bundle, for callers that have all of them.
///
/// # Errors
/// If the disk fails.
pub fn write(mut to: impl Write, lines: &[BundleLine]) -> io::Result<()> {
    let mut bytes = BundleEncoder::default();
    for line in lines {
        to.write_all(&bytes.encode_line(line)?)?;
    }
    to.write_all(&bytes.encode_end()?)
}

/// Verifies a bundle.
///
/// # Errors
/// If it cannot be read; the report contains the failed checks.
pub fn examine(mut from: impl BufRead, pins: Pins) -> io::Result<Report> {
    let mut examiner = Examiner::new(pins);
    let mut before = BundleEncoder::default();
    let mut buffer = Vec::new();
    let mut ended = false;
    loop {
        buffer.clear();
        let read = io::Read::take(&mut from, LONGEST).read_until(b'\n', &mut buffer)?;
        if read == 0 {
            break;
        }
        let number = before.lines + 1;
        if ended {
            examiner.add_finding(format!("line {number}"), "it stands after the end");
            break;
        }
        let line: BundleLine = match serde_json::from_slice(&buffer) {
            Ok(line) if buffer.ends_with(b"\n") => line,
            Ok(_) => {
                examiner.add_finding(format!("line {number}"), "it has no end: the file was cut");
                break;
            }
            Err(error) => {
                examiner.add_finding(format!("line {number}"), format!("it cannot be read: {error}"));
                break;
            }
        };
        if let BundleLine::End { lines, digest } = &line {
            let now = hex::encode(before.digest.clone().finalize());
            if (*lines, digest) != (before.lines, &now) {
                examiner.add_finding(format!("line {number}"), "the lines before it are not those that were written");
            }
            ended = true;
        } else {
            before.lines += 1;
            before.digest.update(&buffer);
        }
        examiner.line(&line);
    }
    if !ended {
        examiner.add_finding("the end", "it is missing: the file was cut");
    }
    Ok(examiner.finish())
}
