//! The trace of a schedule, a line for each step; its digest shows whether two runs of one seed were the same.

use std::fmt::Write as _;

/// The number of lines kept for the report of a failure.
const KEPT: usize = 400;

/// The trace so far.
#[derive(Debug, Default)]
pub(super) struct StepTrace {
    lines: Vec<String>,
    digest: u64,
    /// Whether lines are printed immediately.
    aloud: bool,
}

impl StepTrace {
    pub(super) const fn new(aloud: bool) -> Self {
        // FNV-1a's offset basis.
        Self { lines: Vec::new(), digest: 0xcbf2_9ce4_8422_2325, aloud }
    }

    /// Adds a line. It must not contain anything that differs between two runs of a seed: no path, no key, no noise.
    pub(super) fn note(&mut self, line: String) {
        for byte in line.bytes().chain([b'\n']) {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.aloud {
            eprintln!("  {line}");
        }
        if self.lines.len() == KEPT {
            self.lines.remove(0);
        }
        self.lines.push(line);
    }

    /// Appends to the last line.
    pub(super) fn more(&mut self, text: &str) {
        for byte in text.bytes() {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.aloud {
            eprintln!("      {text}");
        }
        if let Some(last) = self.lines.last_mut() {
            let _ = write!(last, " | {text}");
        }
    }

    /// Prints text that may differ between runs, such as an error message; it is not part of the trace.
    pub(super) fn aside(&self, text: &str) {
        if self.aloud {
            eprintln!("      ({text})");
        }
    }

    pub(super) const fn digest(&self) -> u64 {
        self.digest
    }

    pub(super) fn tail(&self) -> &[String] {
        &self.lines
    }
}
