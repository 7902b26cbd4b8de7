//! Kaldi's text archives of class numbers: `id class class ...`, one number per frame, as `ali-to-pdf ... ark,t:`
//! writes them.
//!
//! Models with frame subsampling (`chain`) have one number for three feature frames; `step` is that number of frames.

use super::alignment::{Alignment, MOST_FRAMES};

/// Reads a line of an archive; every number represents `step` frames, 1 to 8.
///
/// # Errors
/// The problem of the line, as text.
pub(super) fn one(line: &[u8], step: u32) -> Result<(String, Alignment), String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8: write the archive as text (ark,t)".to_owned())?;
    let mut fields = text.split_ascii_whitespace();
    let id = fields.next().ok_or("no utterance id")?;
    let mut runs: Vec<(u16, u32)> = Vec::new();
    let mut frames: u64 = 0;
    for field in fields {
        let class: u16 =
            field.parse().map_err(|_| format!("{field:?} is not a class number from 0 to {}", u16::MAX))?;
        frames += u64::from(step);
        match runs.last_mut() {
            Some((last, length)) if *last == class => *length += step,
            _ => runs.push((class, step)),
        }
    }
    if frames == 0 || frames > MOST_FRAMES {
        return Err(format!("{frames} frames: between 1 and {MOST_FRAMES}"));
    }
    Ok((id.to_owned(), Alignment { runs, frames: frames as usize }))
}

/// Returns true if the line is a line of such an archive.
pub(super) fn is_one(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace().skip(1).peekable();
    fields.peek().is_some() && fields.all(|field| field.bytes().all(|byte| byte.is_ascii_digit()))
}
