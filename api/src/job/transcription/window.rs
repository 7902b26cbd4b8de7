//! The public grid on which recordings are cut, and the resulting bound for one spoken word.
//!
//! A recording is cut once in each zone: [`ZONE`] seconds around every multiple of [`WINDOW`] seconds. The part between
//! two cuts is a window. A window yields at most one piece, and a piece counts once: for its word of the vocabulary, or
//! for none.
//!
//! **Theorem.** Let two recordings have the same length and differ only within one span of [`SPAN`] seconds. Then the
//! counts of their released pieces, by word of the vocabulary and for none, differ by at most [`ONE_WORD`] in all,
//! added and removed together.
//!
//! *Proof.* N = [`WINDOW`], Z = [`ZONE`]. The cut i is computed from the zone \[iN − Z/2, iN + Z/2) alone. So the piece
//! of window i, its recognized words, and the word for which it counts are computed from W(i) = \[iN − Z/2, (i+1)N +
//! Z/2) alone. W(i) and W(i+2) are N − Z = [`SPAN`] apart, so a span that is no longer meets W(i) for at most two i,
//! and these are consecutive. Their pieces are at most two before and at most two after: 4 counts. Whether another
//! piece stays at the site because of something sensitive is computed from its own words and those of the piece before
//! it and of the piece after it. The two windows are consecutive, so they are adjacent to at most one piece on either
//! side: 2 counts. ∎
//!
//! The theorem requires a recognizer whose answer for each piece is independent of all other pieces. It does not
//! compare recordings of different lengths: an additional word delays the rest, and so moves every later window.

/// N: the distance of two zones, seconds.
pub const WINDOW: f64 = 3.0;
/// Z: the length of a zone, in which the quietest place is the cut, seconds.
pub const ZONE: f64 = 1.5;
/// The longest span whose content a distance of [`ONE_WORD`] hides, seconds: N − Z.
pub const SPAN: f64 = WINDOW - ZONE;
/// The most counts that speech of [`SPAN`] seconds changes, added and removed together.
pub const ONE_WORD: u32 = 6;
/// The length of every sound that leaves, true piece or dummy, seconds: the longest window.
pub const SOUND: f64 = WINDOW + ZONE;

/// Returns the most windows of `recordings` that last `seconds` in all.
pub fn most_windows(recordings: u64, seconds: u64) -> u64 {
    ((seconds as f64 / WINDOW).floor() as u64).saturating_add(recordings)
}
