//! The pages as text: includes expanded, code separated from prose.

use std::{
    fs,
    path::{Component, Path},
};

use support::workspace;

/// The folder of the book's pages.
pub(super) const BOOK: &str = "docs/src";

/// The beginning of an include. MdBook replaces the line by the file.
const INCLUDE: &str = "{{#include ";

/// A document of the repository.
#[derive(Debug)]
pub(super) struct DocumentPage {
    /// Its path from the root of the checkout.
    pub(super) path: String,
    /// Its text, with includes expanded.
    pub(super) text: String,
    /// The paths of the included files.
    pub(super) included: Vec<String>,
}

impl DocumentPage {
    /// Reads a document.
    pub(super) fn load(path: &str) -> Self {
        let mut included = Vec::new();
        let mut text = String::new();
        for line in read(path).lines() {
            if let Some(target) = line.trim().strip_prefix(INCLUDE).and_then(|rest| rest.strip_suffix("}}")) {
                let target = resolve_target(path, target);
                text.push_str(&read(&target));
                included.push(target);
            } else {
                text.push_str(line);
            }
            text.push('\n');
        }
        Self { path: path.to_owned(), text, included }
    }

    /// Returns the anchors of the headings, as mdBook and code forges make them.
    pub(super) fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for line in remove_fenced_code(&self.text).lines() {
            let heading = line.trim_start_matches('#');
            if heading.len() < line.len() && heading.starts_with(' ') {
                let slug = make_anchor(heading);
                let copies = (1..).map(|number| format!("{slug}-{number}"));
                let free = std::iter::once(slug.clone()).chain(copies).find(|anchor| !anchors.contains(anchor));
                anchors.extend(free);
            }
        }
        anchors
    }
}

/// Returns every document at the root of the checkout and every page of the book.
pub(super) fn load_all() -> Vec<DocumentPage> {
    let root = workspace::root();
    let entries = fs::read_dir(&root).expect("the root of the checkout");
    let names = entries.filter_map(|entry| entry.expect("a readable folder").file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.rsplit('.').next() == Some("md")).collect();
    names.extend(workspace::files(BOOK, "md"));
    names.sort();
    assert!(names.len() > 45, "only {} documents: the tests are blind", names.len());
    names.iter().map(|name| DocumentPage::load(name)).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(workspace::root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the path from the root of the checkout of a target that stands in the document `from`.
pub(super) fn resolve_target(from: &str, target: &str) -> String {
    let mut path = Path::new(from).parent().map(Path::to_owned).unwrap_or_default();
    for component in Path::new(target).components() {
        match component {
            Component::ParentDir => assert!(path.pop(), "{from}: {target} leaves the repository"),
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path.to_string_lossy().into_owned()
}

/// Returns the anchor of a heading.
fn make_anchor(heading: &str) -> String {
    let lower = heading.trim().to_lowercase();
    lower
        .chars()
        .filter_map(|c| match c {
            c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
            c if c.is_whitespace() => Some('-'),
            _ => None,
        })
        .collect()
}

/// Returns a document without its fenced code.
pub(super) fn remove_fenced_code(text: &str) -> String {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            lines.push("");
        } else {
            lines.push(if is_code { "" } else { line });
        }
    }
    lines.join("\n")
}

/// Returns the fenced blocks of a language.
pub(crate) fn extract_fenced(text: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| !line.trim_start().starts_with("```")).collect();
            if info.trim() == language {
                blocks.push(block.join("\n"));
            }
        }
    }
    blocks
}

/// Returns the inline code of a document, white space joined. A paragraph with an odd number of backticks fails.
pub(super) fn extract_inline_code(page: &DocumentPage) -> Vec<String> {
    let mut spans = Vec::new();
    for paragraph in split_paragraphs(&page.text) {
        let parts: Vec<&str> = paragraph.split('`').collect();
        assert!(parts.len() % 2 == 1, "{}: a backtick is open: {paragraph}", page.path);
        let code = parts.iter().skip(1).step_by(2);
        spans.extend(code.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    spans
}

/// Returns the text of a document with its code blanked, so that links remain.
pub(super) fn remove_code(text: &str) -> String {
    let outside = |paragraph: &String| paragraph.split('`').step_by(2).collect::<String>();
    split_paragraphs(text).iter().map(outside).collect::<Vec<_>>().join("\n\n")
}

/// Returns paragraphs and rows of tables, fenced code apart.
fn split_paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in remove_fenced_code(text).lines() {
        if line.trim().is_empty() || line.starts_with('|') {
            paragraphs.push(String::new());
        }
        let paragraph = paragraphs.last_mut().expect("a paragraph");
        paragraph.push_str(line);
        paragraph.push('\n');
    }
    paragraphs
}

#[test]
fn code_and_prose_are_distinguished() {
    let text = "# The site's `key`\n\nRun `a\nb`.\n\n```sh\n`odd\n```\n\n| `c` | d |\n# The site's key\n";
    let page = DocumentPage { path: "x.md".to_owned(), text: text.to_owned(), included: Vec::new() };
    assert_eq!(extract_inline_code(&page), ["key", "a b", "c"]);
    assert_eq!(extract_fenced(text, "sh"), ["`odd"]);
    assert_eq!(page.anchors(), ["the-sites-key", "the-sites-key-1"]);
    assert!(!remove_code(text).contains("odd"));
}

#[test]
fn targets_are_resolved_from_their_document() {
    assert_eq!(resolve_target("docs/src/how-to/tune.md", "../reference/a.md"), "docs/src/reference/a.md");
    assert_eq!(resolve_target("README.md", "docs/src/a.md"), "docs/src/a.md");
}
