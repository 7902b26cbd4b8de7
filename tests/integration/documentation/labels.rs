//! Labels of the dashboard: emphasized words of tutorials and guides stand in its sources.

use std::fs;

use support::workspace;

use super::pages::{load_all, remove_code};

/// The documents whose emphasized words are labels.
const GUIDES: [&str; 3] = ["README.md", "docs/src/how-to/", "docs/src/tutorials/"];

/// Returns the emphasized words of a text, strong emphasis apart.
fn extract_emphasis(text: &str) -> Vec<String> {
    let text = remove_code(text).replace("**", "");
    let mut labels = Vec::new();
    let mut rest = text.as_str();
    while let Some((_, after)) = rest.split_once('*') {
        rest = after;
        // A blank follows the mark of a list item.
        if !after.starts_with(char::is_whitespace)
            && let Some((label, remaining)) = after.split_once('*')
        {
            labels.push(label.split_whitespace().collect::<Vec<_>>().join(" "));
            rest = remaining;
        }
    }
    labels
}

#[test]
fn labels_stand_in_the_dashboard() {
    let root = workspace::root();
    let files = workspace::files("app/src", "rs");
    let sources: String = files.iter().map(|file| fs::read_to_string(root.join(file)).expect("a text file")).collect();
    let (mut checked, mut missing) = (0, Vec::new());
    for page in load_all().into_iter().filter(|page| GUIDES.iter().any(|guide| page.path.starts_with(guide))) {
        for label in extract_emphasis(&page.text) {
            checked += 1;
            if !sources.contains(&label) {
                missing.push(format!("{}: {label}", page.path));
            }
        }
    }
    assert!(checked > 60, "only {checked} labels: the test is blind");
    assert_eq!(missing, [""; 0]);
}

#[test]
fn list_marks_and_strong_words_are_no_labels() {
    assert_eq!(extract_emphasis("* one *Two three*,\n* **four** *Five\nsix* `*7*`"), ["Two three", "Five six"]);
}
