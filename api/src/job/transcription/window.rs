//! The rests at which recordings are cut, and the resulting bound for one spoken word.
//!
//! A recording is cut at its rests. A rest is a point that is the quietest within [`REST`] seconds on either side, by the
//! sound [`REACH`] seconds before and after each point. A hash of [`CONTEXT`] seconds before and after decides among
//! equally loud points. The part between two cuts is a window. A window yields at most
//! one piece, and a piece counts once: for its word of the vocabulary, or for none. A piece longer than [`SOUND`] stays
//! at the site and counts for nothing.
//!
//! **Theorem.** Let two recordings be equal, except that a span of at most [`SPAN`] seconds of one is replaced in the
//! other by a span of at most [`SPAN`] seconds. Either span may be empty: so a word is inserted, removed or exchanged.
//! Then the counts of their released pieces, by word of the vocabulary and for none, differ by at most [`ONE_WORD`] in
//! all, added and removed together.
//!
//! *Proof.* R = [`REST`], r = [`CONTEXT`]. Whether a point is a rest is computed from the samples within R + r of it alone. So a
//! point that is further than R + r from the span is a rest in both recordings or in neither. The points nearer to the
//! span form a zone of at most [`SPAN`] + 2R + 2r < 3R seconds. Two rests are more than R apart, so the zone has at
//! most three rests. A window with both ends before the zone, or both behind it, has equal samples in both recordings,
//! and so the same piece, words and count. Every other window ends or begins in the zone, or contains it: at most four
//! windows in each recording, consecutive, 8 counts. Whether another piece stays at the site because of something
//! sensitive is computed from its own words and those of the piece before it and of the piece after it. The changed
//! windows are consecutive, so at most one piece on either side is adjacent to them: 2 counts. ∎
//!
//! The theorem requires a recognizer whose answer for each piece is independent of all other pieces, and recordings at
//! 16 kHz: it does not cover how other rates are converted to it.

/// R: the time on either side of a cut within which no point is quieter, seconds.
pub const REST: f64 = 1.3;
/// The time on either side of a point that determines its loudness, seconds.
pub const REACH: f64 = 0.03;
/// r: the time on either side of a point that decides among equally loud points, seconds.
pub const CONTEXT: f64 = 0.045;
/// The longest span whose replacement a distance of [`ONE_WORD`] hides, seconds. The longest of 7,000 aligned words of
/// read and spelled speech lasts 1.35 s, and all others at most 1.06 s.
pub const SPAN: f64 = 1.2;
/// The most counts that replacing a span of [`SPAN`] seconds changes, added and removed together.
pub const ONE_WORD: u32 = 10;
/// The length of every sound that leaves, true piece or dummy, seconds. A longer piece stays at the site.
pub const SOUND: f64 = 4.5;
/// The mean length of windows of read speech, seconds: for expected figures.
pub const WINDOW: f64 = 2.5;

/// Returns the most windows of `recordings` that last `seconds` in all.
pub fn most_windows(recordings: u64, seconds: u64) -> u64 {
    ((seconds as f64 / REST).floor() as u64).saturating_add(recordings)
}

// The zone of a span has at most three rests.
const _: () = assert!(SPAN + 2.0 * REST + 2.0 * CONTEXT < 3.0 * REST && REACH <= CONTEXT);
