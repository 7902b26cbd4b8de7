//! Links: the summary names every page, relative links and anchors resolve_target, and the book's links stay in the book.

use std::collections::BTreeSet;

use support::workspace;

use super::pages::{BOOK, DocumentPage, load_all, remove_code, resolve_target};

/// The table of contents.
const SUMMARY: &str = "docs/src/SUMMARY.md";

/// Returns the targets of the links and images of a text.
fn extract_targets(text: &str) -> Vec<String> {
    let text = remove_code(text);
    let rests = text.split("](").skip(1);
    rests.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.trim().to_owned()).collect()
}

/// Returns whether a target is an address of another machine.
fn is_external(target: &str) -> bool {
    ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
}

#[test]
fn summary_names_each_page_once() {
    let mut entries = BTreeSet::new();
    for target in extract_targets(&DocumentPage::load(SUMMARY).text) {
        let path = resolve_target(SUMMARY, &target);
        assert!(entries.insert(path.clone()), "{SUMMARY} names {path} twice");
    }
    let pages: BTreeSet<String> = workspace::files(BOOK, "md").into_iter().filter(|path| path != SUMMARY).collect();
    assert_eq!(entries, pages);
}

#[test]
fn relative_links_and_anchors_resolve() {
    let (mut checked, mut broken) = (0, Vec::new());
    for page in load_all() {
        for target in extract_targets(&page.text).into_iter().filter(|target| !is_external(target)) {
            checked += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = if file.is_empty() { page.path.clone() } else { resolve_target(&page.path, file) };
            let exists = workspace::root().join(&path).exists();
            if !exists
                || (!anchor.is_empty() && !DocumentPage::load(&path).anchors().iter().any(|known| known == anchor))
            {
                broken.push(format!("{}: {target}", page.path));
            }
        }
    }
    assert!(checked > 150, "only {checked} links: the test is blind");
    assert_eq!(broken, [""; 0]);
}

/// A link that leaves the folder of the book is dead in the built book.
#[test]
fn links_of_the_book_stay_in_the_book() {
    let mut outside = Vec::new();
    for page in load_all().into_iter().filter(|page| page.path.starts_with(BOOK)) {
        let relative =
            extract_targets(&page.text).into_iter().filter(|target| !is_external(target) && !target.starts_with('#'));
        outside.extend(
            relative
                .filter(|target| !resolve_target(&page.path, target).starts_with(BOOK))
                .map(|target| format!("{}: {target}", page.path)),
        );
        // A relative link in an included file means one thing in its own folder and another thing in the book.
        for file in &page.included {
            let relative =
                extract_targets(&DocumentPage::load(file).text).into_iter().filter(|target| !is_external(target));
            outside
                .extend(relative.filter(|target| !target.starts_with('#')).map(|target| format!("{file}: {target}")));
        }
    }
    assert_eq!(outside, [""; 0]);
}

#[test]
fn links_are_read_outside_code() {
    let text = "[a](b.md#c) and `[d](e.md)`\n\n```\n[f](g.md)\n```\n![h](i.png)";
    assert_eq!(extract_targets(text), ["b.md#c", "i.png"]);
}
