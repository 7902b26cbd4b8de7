//! Run-length JSON Lines: `{"u": id, "frames": N, "runs": [[class, frames], ...]}`, the runs adding up to N.

use std::io::BufRead;

use serde::Deserialize;

use super::{Alignment, Alignments, MOST_FRAMES, lines};

/// Reads alignments line by line. Blank lines are nothing; of two lines for one utterance the first holds.
///
/// # Errors
/// Only what the reader itself says; a bad line is no error.
pub fn parse(reader: impl BufRead) -> std::io::Result<Alignments> {
    let mut alignments = Alignments::default();
    alignments.bad_lines = lines::each(reader, |line| {
        let (id, alignment) = one(line)?;
        alignments.insert(id, alignment)
    })?;
    Ok(alignments)
}

/// Reads one line.
///
/// # Errors
/// In words, what does not hold.
pub(super) fn one(line: &[u8]) -> Result<(String, Alignment), String> {
    #[derive(Deserialize)]
    struct Line {
        u: String,
        frames: u64,
        runs: Vec<(u64, u64)>,
    }
    let Line { u, frames, runs } = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if u.is_empty() {
        return Err("the utterance id is empty".to_owned());
    }
    if frames == 0 || frames > MOST_FRAMES {
        return Err(format!("{frames} frames: between 1 and {MOST_FRAMES}"));
    }
    let alignment = checked(runs)?;
    if alignment.frames as u64 != frames {
        return Err(format!("the runs add up to {} frames, not to {frames}", alignment.frames));
    }
    Ok((u, alignment))
}

/// Runs of (class, frames) that hold.
pub(super) fn checked(runs: Vec<(u64, u64)>) -> Result<Alignment, String> {
    let run = |(class, frames): (u64, u64)| match (u16::try_from(class), u32::try_from(frames)) {
        (Err(_), _) => Err(format!("class {class}: at most {}", u16::MAX)),
        (_, Err(_) | Ok(0)) => Err(format!("a run of {frames} frames")),
        (Ok(class), Ok(frames)) => Ok((class, frames)),
    };
    let runs = runs.into_iter().map(run).collect::<Result<Vec<_>, _>>()?;
    let sum: u64 = runs.iter().map(|(_, frames)| u64::from(*frames)).sum();
    if sum == 0 || sum > MOST_FRAMES {
        return Err(format!("{sum} frames: between 1 and {MOST_FRAMES}"));
    }
    Ok(Alignment { runs, frames: sum as usize })
}
