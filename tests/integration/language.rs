//! Measures the language of the workspace's Rust sources: the words of comments, the beginnings of function docs, and the
//! names of functions, locals, types and tests.
//!
//! The limits enclose the figures of comparable Rust projects. No counted word is wrong in itself: read the listed places,
//! and write them as `docs/src/development/style.md` states. To add a figure: count it in `figures`, and give it a limit.

mod figures;
mod scan;

/// The folders with Rust sources, separated by blanks.
const FOLDERS: &str = "api app benches certificate cli configuration failpoints migrations onnx privacy proto secure-aggregation server tests tools worker";

#[test]
fn language_of_the_sources_is_within_its_limits() {
    let mut figures = figures::SourceFigures::default();
    for folder in FOLDERS.split(' ') {
        for path in support::workspace::files(folder, "rs") {
            let text = std::fs::read_to_string(support::workspace::root().join(&path)).expect("a text file");
            figures.add_source(&path, &text);
        }
    }
    assert!(figures.comment_words > 50_000, "{} words of comments: the test is blind", figures.comment_words);
    let excesses = figures.list().into_iter().filter(|figure| figure.value > figure.limit);
    let excesses: Vec<String> = excesses.map(|figure| figure.describe()).collect();
    assert!(excesses.is_empty(), "see `docs/src/development/style.md`, Names and Prose:\n{}", excesses.join("\n"));
}
