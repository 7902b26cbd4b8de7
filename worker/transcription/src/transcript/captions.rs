//! A transcript as captions: SubRip and WebVTT. At most two lines of 42 characters and 6 seconds, a new one after a pause.

use std::fmt::Write as _;

use super::{OfflineReason, TranscriptWord, WordSource, join_bracketed};

/// Largest number of characters of a line, unless one word has more.
const LINE: usize = 42;
/// Largest number of lines of a caption.
const LINES: usize = 2;
/// Longest caption, in seconds.
const LONGEST: f64 = 6.0;
/// Pause after which another caption begins, in seconds.
const PAUSE: f64 = 1.0;

/// One caption.
struct CaptionBlock<'a> {
    /// Milliseconds; `end` is after `start`, and `start` is not before the end of the previous caption.
    start: u64,
    end: u64,
    lines: Vec<&'a [TranscriptWord]>,
}

/// Writes SubRip: numbered from 1, words of the site's own recognizer in square brackets.
pub(super) fn srt(words: &[TranscriptWord]) -> String {
    let mut file = String::new();
    for (number, caption) in captions(words).iter().enumerate() {
        let start = time(caption.start, ',');
        let end = time(caption.end, ',');
        let lines: Vec<String> = caption.lines.iter().map(|line| join_bracketed(line).replace("-->", "->")).collect();
        // Writing to a string cannot fail.
        let _ = write!(file, "{}\n{start} --> {end}\n{}\n\n", number + 1, lines.join("\n"));
    }
    file
}

/// Writes WebVTT: words of the site's own recognizer in spans of a class.
pub(super) fn vtt(words: &[TranscriptWord]) -> String {
    let mut file = "WEBVTT\n\n".to_owned();
    for caption in captions(words) {
        let start = time(caption.start, '.');
        let end = time(caption.end, '.');
        let lines: Vec<String> = caption.lines.iter().map(|line| spans(line)).collect();
        let _ = write!(file, "{start} --> {end}\n{}\n\n", lines.join("\n"));
    }
    file
}

/// Returns the words of a line, escaped, each run of one class in a span.
fn spans(words: &[TranscriptWord]) -> String {
    let runs = words.chunk_by(|one, next| class(one) == class(next));
    let runs: Vec<String> = runs
        .map(|run| {
            let text = run.iter().map(|word| escaped(&word.text)).collect::<Vec<_>>().join(" ");
            class(&run[0]).map_or_else(|| text.clone(), |class| format!("<c.{class}>{text}</c>"))
        })
        .collect();
    runs.join(" ")
}

const fn class(word: &TranscriptWord) -> Option<&'static str> {
    match word.source {
        WordSource::Provider(_) => None,
        WordSource::Offline(OfflineReason::Sensitive) => Some("sensitive"),
        WordSource::Offline(_) => Some("offline"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn time(milliseconds: u64, point: char) -> String {
    let seconds = milliseconds / 1_000;
    let rest = milliseconds % 1_000;
    format!("{:02}:{:02}:{:02}{point}{rest:03}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

fn captions(words: &[TranscriptWord]) -> Vec<CaptionBlock<'_>> {
    let mut captions = Vec::new();
    let mut over = 0;
    let mut rest = words;
    while let Some(first) = rest.first() {
        let lines = lines(rest);
        let length = lines.iter().map(|line| line.len()).sum();
        let (these, others) = rest.split_at(length);
        let last = these.iter().fold(first.end, |last, word| last.max(word.end));
        let start = milliseconds(first.start).max(over);
        let end = milliseconds(last).max(start + 1);
        captions.push(CaptionBlock { start, end, lines });
        (rest, over) = (others, end);
    }
    captions
}

/// Returns the lines of the next caption; at least one word.
fn lines(words: &[TranscriptWord]) -> Vec<&[TranscriptWord]> {
    let begin = words.first().map_or(0.0, |word| word.start);
    let together =
        words.windows(2).take_while(|two| two[1].start - two[0].end < PAUSE && two[1].end - begin <= LONGEST);
    let mut words = &words[..words.len().min(together.count() + 1)];
    let mut lines = Vec::new();
    while lines.len() < LINES && !words.is_empty() {
        let mut width = 0;
        let fits = words.iter().take_while(|word| {
            width += word.text.chars().count() + 1;
            width <= LINE + 1
        });
        let (line, others) = words.split_at(fits.count().max(1));
        lines.push(line);
        words = others;
    }
    lines
}

fn milliseconds(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1_000.0).round() as u64
}
