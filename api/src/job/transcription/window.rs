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
//! **Longer spans.** The same proof holds for spans of at most L seconds: their zone has Z = L + 2R + 2r seconds and at most
//! ⌈Z/R⌉ rests, so at most ⌈Z/R⌉ + 1 windows of each recording change, and 2⌈Z/R⌉ + 4 counts. [`hidden_span`] is the
//! greatest L for a distance. Words that are further apart than a zone change [`ONE_WORD`] counts each.
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

/// Words of speech in a minute, for guidance: the pace of read speech.
pub const WORDS_PER_MINUTE: f64 = 150.0;

/// Returns the longest span, in seconds, whose replacement by a span of at most the same length a distance of `distance`
/// counts hides; 0 if it hides none.
pub fn hidden_span(distance: u32) -> f64 {
    // ⌈(L + 2R + 2r)/R⌉ ≤ d/2 − 2, for whole numbers of rests. The subtracted microsecond is more than any rounding.
    let rests = f64::from(distance / 2) - 2.0;
    ((rests - 2.0) * REST - 2.0 * CONTEXT - 1e-6).max(0.0)
}

/// Returns the most words anywhere in the recordings that a distance hides, each of up to [`SPAN`] seconds.
pub const fn hidden_words(distance: u32) -> u32 {
    distance / ONE_WORD
}

/// Returns the most windows of `recordings` that last `seconds` in all.
pub fn most_windows(recordings: u64, seconds: u64) -> u64 {
    ((seconds as f64 / REST).floor() as u64).saturating_add(recordings)
}

// The zone of a span has at most three rests.
const _: () = assert!(SPAN + 2.0 * REST + 2.0 * CONTEXT < 3.0 * REST && REACH <= CONTEXT);

#[cfg(test)]
mod tests {
    use super::{CONTEXT, ONE_WORD, REST, SPAN, hidden_span, hidden_words};

    #[test]
    fn distance_of_one_word_hides_its_span() {
        assert!(hidden_span(ONE_WORD) >= SPAN && hidden_span(ONE_WORD) < SPAN + 0.1);
        assert_eq!((hidden_span(9), hidden_span(0), hidden_words(9), hidden_words(29)), (0.0, 0.0, 0, 2));
        for distance in [10, 11, 102, 1_000, 10_000] {
            let span = hidden_span(distance);
            let counts = |span: f64| 2.0 * ((span + 2.0 * (REST + CONTEXT)) / REST).ceil() + 4.0;
            assert!(
                counts(span) <= f64::from(distance) && counts(span + 0.01) + 2.0 > f64::from(distance),
                "{distance}"
            );
        }
        // A minute, as the guidance says.
        assert!(hidden_span(102) >= 60.0 && hidden_span(100) < 60.0);
    }
}
