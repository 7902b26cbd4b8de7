//! The texts: phrases of common English words, drawn at random, without personal content.

use rand::RngExt;
use rand_chacha::ChaCha20Rng;

/// Digits, commands, colours and spelling words. Every engine and context reads each word the same way.
pub(super) const WORDS: [&str; 72] = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "yes", "no", "go", "stop", "start",
    "open", "help", "left", "right", "up", "down", "next", "back", "repeat", "cancel", "enter", "erase", "call",
    "play", "pause", "save", "send", "turn", "on", "off", "louder", "quiet", "red", "green", "blue", "yellow", "white",
    "black", "orange", "purple", "alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india",
    "kilo", "lima", "mike", "november", "oscar", "papa", "romeo", "sierra", "tango", "uniform", "victor", "whiskey",
    "zulu", "north", "south", "measure", "thing", "boy",
];

/// Returns a phrase of three to six words.
pub(super) fn phrase(rng: &mut ChaCha20Rng) -> String {
    let words = rng.random_range(3..=6);
    let word = |_| WORDS[rng.random_range(0..WORDS.len())];
    (0..words).map(word).collect::<Vec<_>>().join(" ")
}
