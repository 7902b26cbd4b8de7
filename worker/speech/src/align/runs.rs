//! Run-length JSON Lines: `{"u": id, "frames": N, "runs": [[class, frames], ...]}`, where the runs add up to N.

use std::io::BufRead;

use serde::Deserialize;

use super::alignment::{Alignment, AlignmentSet, MOST_FRAMES};
use super::lines;

/// Reads alignments line by line. Blank lines are ignored; the first of two lines for one utterance is kept.
///
/// # Errors
/// The reader's errors; an invalid line is not an error.
pub fn parse(reader: impl BufRead) -> std::io::Result<AlignmentSet> {
    let mut alignments = AlignmentSet::default();
    alignments.bad_lines = lines::each(reader, |line| {
        let (id, alignment) = one(line)?;
        alignments.insert(id, alignment)
    })?;
    Ok(alignments)
}

/// Reads one line.
///
/// # Errors
/// The problem of the line, as text.
pub(super) fn one(line: &[u8]) -> Result<(String, Alignment), String> {
    #[derive(Deserialize)]
    struct RunsLine {
        u: String,
        frames: u64,
        runs: Vec<(u64, u64)>,
    }
    let RunsLine { u, frames, runs } = serde_json::from_slice(line).map_err(|error| error.to_string())?;
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

/// Validates runs of (class, frames).
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
