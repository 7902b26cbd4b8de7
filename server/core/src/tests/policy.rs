//! The policy of `auth::policy` against the operations: each row is used, and each operation of a member asks.

mod coverage;
mod stale;

use crate::auth::Operation;

/// The folders of the operations and of what they call.
const LAYERS: [&str; 3] = ["rule", "service", "view"];

/// Returns the text of every file of these layers, except their tests.
fn service() -> Vec<(String, String)> {
    fn read(folder: &std::path::Path, sources: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).expect("the sources are there") {
            let path = entry.expect("an entry").path();
            let name = path.display().to_string();
            if path.is_dir() {
                read(&path, sources);
            } else if !name.ends_with("tests.rs") {
                sources.push((name, std::fs::read_to_string(&path).expect("text")));
            }
        }
    }
    let mut sources = Vec::new();
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for layer in LAYERS {
        read(&source.join(layer), &mut sources);
    }
    sources
}

#[test]
fn every_row_of_the_table_is_asked_by_some_operation() {
    let sources = service();
    for operation in Operation::ALL {
        let reference = format!("Operation::{operation:?}");
        let boundary = |text: &str| {
            text.match_indices(&reference)
                .any(|(at, _)| !text[at + reference.len()..].starts_with(|next: char| next.is_alphanumeric()))
        };
        assert!(sources.iter().any(|(_, text)| boundary(text)), "{reference} is asked nowhere");
    }
}
