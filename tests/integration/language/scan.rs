//! Finds names, comments and docs in the text of a Rust source, without a parser: strings are read as code.

/// Returns the text of a line's comment, if the line holds nothing else.
pub(super) fn comment_text(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text))
}

/// Returns the words of a text: letters, digits and underscores.
pub(super) fn identifiers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !is_word(character)).filter(|word| !word.is_empty())
}

/// Returns the names that follow a keyword in a line.
pub(super) fn names_after<'a>(line: &'a str, keyword: &str) -> Vec<&'a str> {
    let keyword = format!("{keyword} ");
    let positions = line.match_indices(&*keyword).filter(|(start, _)| !line[..*start].ends_with(is_word));
    let names = positions.map(|(start, _)| &line[start + keyword.len()..]);
    names.map(|rest| leading_word(rest.strip_prefix("mut ").unwrap_or(rest))).filter(|name| !name.is_empty()).collect()
}

/// Returns the first word of each doc comment of a function, with the index of its line.
pub(super) fn doc_openings<'a>(lines: &[&'a str]) -> Vec<(usize, &'a str)> {
    let is_doc = |line: &str| line.trim_start().starts_with("///");
    let is_modifier = |word: &str| word.starts_with("pub") || ["const", "async", "unsafe"].contains(&word);
    let is_function = |line: &str| line.split_whitespace().find(|word| !is_modifier(word)) == Some("fn");
    let mut openings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let is_first = index == 0 || !is_doc(lines[index - 1]);
        let item = lines[index..].iter().find(|line| !is_doc(line) && !line.trim_start().starts_with("#["));
        if is_doc(line) && is_first && item.is_some_and(|item| is_function(item)) {
            let text = line.trim_start().trim_start_matches('/').trim_start();
            let end = text.find(|character: char| !character.is_ascii_alphabetic()).unwrap_or(text.len());
            openings.extend((end > 0).then(|| (index, &text[..end])));
        }
    }
    openings
}

/// Returns the names of the test functions of a source.
pub(super) fn test_names(text: &str) -> Vec<&str> {
    let attributes = text.match_indices("#[").filter_map(|(start, _)| {
        let inner = &text[start + 2..];
        inner.strip_prefix("tokio::").unwrap_or(inner).strip_prefix("test")
    });
    let names = attributes.filter_map(|inner| {
        let mut rest = inner.split_once(']')?.1.trim_start();
        while let Some(attribute) = rest.strip_prefix("#[") {
            rest = attribute.split_once(']')?.1.trim_start();
        }
        Some(leading_word(rest.strip_prefix("async ").unwrap_or(rest).strip_prefix("fn ")?))
    });
    names.collect()
}

fn leading_word(text: &str) -> &str {
    &text[..text.find(|character: char| !is_word(character)).unwrap_or(text.len())]
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[test]
fn scan_reads_comments_names_and_tests() {
    assert_eq!(comment_text("    //! Reads. "), Some(" Reads. "));
    assert_eq!(comment_text("let x = 1; // one"), None);
    assert_eq!(identifiers("a_b, c!").collect::<Vec<_>>(), ["a_b", "c"]);
    assert_eq!(names_after("let mut total = outlet 1; let (a, b) = pair;", "let"), ["total"]);
    let source = "/// Reads it.\n/// At once.\n#[must_use]\npub(super) const fn read() {}\n/// A name.\nx: u8,";
    assert_eq!(doc_openings(&source.lines().collect::<Vec<_>>()), [(0, "Reads")]);
    let tests = ["#[", "tokio::test(flavor = \"x\")]\n#[ignore]\nasync fn reads() {}\n#[", "test]\nfn writes() {}"];
    assert_eq!(test_names(&tests.concat()), ["reads", "writes"]);
}
