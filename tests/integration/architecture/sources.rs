//! The Rust files of the workspace, as text.

use std::{fs, path::Path};

/// The folders of the workspace's crates. `tests/integration` is left out: these tests name libraries in texts.
pub(in super::super) const FOLDERS: [&str; 15] = [
    "privacy",
    "secure-aggregation",
    "api",
    "proto",
    "failpoints",
    "configuration",
    "migrations",
    "onnx",
    "certificate",
    "app",
    "worker",
    "server",
    "tests/support",
    "benches",
    "tools",
];

/// A source file.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// Its path from the root of the checkout.
    pub(super) path: String,
    content: String,
}

impl SourceFile {
    pub(super) fn lines(&self) -> usize {
        self.content.lines().count()
    }

    /// Returns whether it contains `code`.
    pub(super) fn holds(&self, code: &str) -> bool {
        self.content.contains(code)
    }

    /// Returns the number of the first line that uses the library `name` in a path or as a macro or derive, without
    /// comments.
    pub(super) fn names(&self, name: &str) -> Option<usize> {
        let code = |line: &str| !line.trim_start().starts_with("//");
        self.content.lines().position(|line| code(line) && uses(line, name)).map(|at| at + 1)
    }
}

/// Returns whether `line` contains `name::`, or imports `name`, as a word of its own.
fn uses(line: &str, name: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '"';
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + name.len()..]);
        let whole = !before.ends_with(part_of_word) && !after.starts_with(part_of_word);
        // `crate::leptos::x` and `self.burn` are the workspace's own.
        let ours = before.ends_with('.') || before.strip_suffix("::").is_some_and(|path| path.ends_with(part_of_word));
        let imported = before.trim_start().ends_with("use ") || before.ends_with("extern crate ");
        whole && !ours && (after.starts_with("::") || imported)
    })
}

/// Returns every Rust file of the workspace, in order of path.
pub(super) fn all() -> Vec<SourceFile> {
    let root = support::workspace::root();
    let mut sources = Vec::new();
    for folder in FOLDERS {
        collect(&root, &root.join(folder), &mut sources);
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(sources.len() > FOLDERS.len(), "only {} files found: the tests on them are blind", sources.len());
    sources
}

fn collect(root: &Path, folder: &Path, sources: &mut Vec<SourceFile>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            collect(root, &path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).expect("a file below the root").to_string_lossy().into_owned();
            sources.push(SourceFile { path: name, content: fs::read_to_string(&path).expect("a text file") });
        }
    }
}

#[test]
fn a_use_is_told_from_a_mention() {
    assert!(uses("use burn::tensor::Tensor;", "burn"));
    assert!(uses("    let x: Result<(), ::sea_orm::DbErr> = y;", "sea_orm"));
    assert!(uses("use tonic;", "tonic"));
    assert!(!uses("let burn = 3;", "burn"));
    assert!(!uses("use burn_flex::Flex;", "burn"));
    assert!(!uses("crate::tonic::status()", "tonic"));
    assert!(!uses("\"leptos::x\"", "leptos"));
}
