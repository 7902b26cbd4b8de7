//! Synthetic query logs for scenarios; texts that must never leave a site are marked so that they can be searched for.

use std::fmt::Write as _;

/// Rows of each frequent text: with a rate of 1/4, it passes a threshold of 20 except with probability 10⁻¹².
const OFTEN: u32 = 320;
/// Most rows of a rare text: fewer than a threshold of 20.
const RARELY: u32 = 19;

/// The labels of every scenario.
pub const LABELS: [&str; 3] = ["appointment", "billing", "prescription"];

/// A private query log, as CSV with the columns `query` and `patient`.
#[derive(Debug, Clone)]
pub struct QueryLog {
    /// The file's content.
    pub csv: String,
    /// Texts that pass a gate of rate 1/4 and threshold 20.
    pub often: Vec<String>,
    /// Strings that must not occur outside: texts below the threshold, users, invalid rows.
    pub secret: Vec<String>,
}

/// Returns the correct label of a text.
pub fn truth(text: &str) -> &'static str {
    let of = |words: [&str; 3]| words.iter().any(|word| text.contains(word));
    if of(["invoice", "payment", "insurance"]) {
        LABELS[1]
    } else if of(["refill", "dose", "tablet"]) {
        LABELS[2]
    } else {
        LABELS[0]
    }
}

/// Returns so many distinct texts about every label, from an author called `whose`.
fn texts(whose: &str, count: usize) -> Vec<String> {
    const WORDS: [&str; 9] =
        ["visit", "doctor", "calendar", "invoice", "payment", "insurance", "refill", "dose", "tablet"];
    let text = |number: usize| format!("{whose} asks {number} about {} please", WORDS[number % WORDS.len()]);
    (0..count).map(text).collect()
}

impl QueryLog {
    /// Returns the log of the site called `whose`: 36 frequent texts, 40 rare ones, named users, and invalid rows.
    pub fn generate(whose: &str) -> Self {
        let user = |number: u32| format!("patient-{whose}-{number:05}");
        let (mut csv, mut secret) = ("query,patient\n".to_owned(), Vec::new());
        let often = texts(whose, 36);
        let mut row = 0;
        let mut ask = |csv: &mut String, text: &str, rows: u32| {
            for _ in 0..rows {
                row += 1;
                // Writing to a string cannot fail.
                let _ = writeln!(csv, "{text},{}", user(row % 3000));
            }
        };
        for text in &often {
            ask(&mut csv, text, OFTEN);
        }
        for number in 0..40_u32 {
            let text = format!("rare-{whose}-{number:03} tell nobody");
            ask(&mut csv, &text, 1 + number % RARELY);
            secret.push(text);
        }
        for number in 0..10 {
            let broken = format!("broken-{whose}-{number}");
            let _ = writeln!(csv, "{broken},{},one column too many", user(number));
            secret.push(broken);
        }
        // The common beginning of every user's name.
        secret.push(format!("patient-{whose}-"));
        Self { csv, often, secret }
    }

    /// Returns a labelled log of `count` texts of an author called `whose`, as CSV with the columns `query` and `label`.
    pub fn labelled(whose: &str, count: usize) -> String {
        let row = |text: String| format!("{text},{}\n", truth(&text));
        std::iter::once("query,label\n".to_owned()).chain(texts(whose, count).into_iter().map(row)).collect()
    }

    /// Returns a public, labelled log with a held-out part, as CSV with the columns `query`, `label` and `subset`.
    pub fn public() -> String {
        let mut csv = "query,label,subset\n".to_owned();
        for (whose, subset, count) in [("anybody", "train", 90), ("somebody", "test", 90)] {
            for text in texts(whose, count) {
                let _ = writeln!(csv, "{text},{},{subset}", truth(&text));
            }
        }
        csv
    }
}
