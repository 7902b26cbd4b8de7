//! Claims: sentences with a word that permits no exception.

/// A sentence with one of these words is a claim. `nobody` stands for `no one`.
const WORDS: [&str; 6] = ["ever", "all", "only", "never", "no one", "nobody"];

/// The least number of words of a sentence; shorter texts of pages are labels.
const FEWEST_WORDS: usize = 5;

/// Returns whether a text of a page is long enough to be a sentence.
pub(super) fn fewest_words(sentence: &str) -> bool {
    sentence.split_whitespace().count() >= FEWEST_WORDS
}

/// Returns the claims of running text.
pub(super) fn text_claims(text: &str) -> Vec<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut sentences = Vec::new();
    let mut rest = text.as_str();
    while let Some(end) = end_of_sentence(rest) {
        sentences.push(rest[..end].trim().to_owned());
        rest = &rest[end..];
    }
    sentences.push(rest.trim().to_owned());
    sentences.retain(|sentence| is_claim(sentence));
    sentences
}

/// Returns the position after the first full stop, question or exclamation mark that is followed by a blank and a
/// character other than a lower-case letter.
fn end_of_sentence(text: &str) -> Option<usize> {
    text.match_indices(['.', '!', '?']).map(|(at, mark)| at + mark.len()).find(|end| {
        let after = &text[*end..];
        let next = after.strip_prefix(' ').and_then(|after| after.chars().next());
        next.is_some_and(|next| !next.is_lowercase())
    })
}

fn is_claim(sentence: &str) -> bool {
    let lower = sentence.to_lowercase().replace(['’', '\''], " ");
    // `plain-only` is the name of a style.
    let words: Vec<&str> = lower.split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_')).collect();
    let padded = format!(" {} ", words.join(" "));
    WORDS.iter().any(|word| padded.contains(&format!(" {word} ")))
}

/// Returns the claims of a Markdown document, without code blocks, one cell of a table or one item of a list at a time.
pub(super) fn markdown_claims(document: &str) -> Vec<String> {
    let mut claims = Vec::new();
    let (mut paragraph, mut is_code) = (String::new(), false);
    for line in document.lines().chain([""]) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        let is_table = line.starts_with('|');
        let begins = line.trim().is_empty() || line.starts_with('#') || is_table || is_item(line);
        if begins || is_code {
            claims.extend(text_claims(&std::mem::take(&mut paragraph)));
        }
        if is_code {
            continue;
        }
        if is_table {
            claims.extend(line.replace("\\|", "/").split('|').flat_map(text_claims));
        } else {
            paragraph.push_str(line);
            paragraph.push(' ');
        }
    }
    claims
}

fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.split_once(". ").is_some_and(|(number, _)| number.chars().all(|digit| digit.is_ascii_digit()));
    line.starts_with("* ") || line.starts_with("- ") || number
}

/// Returns the claims of the comments of a TOML file.
pub(super) fn comment_claims(file: &str) -> Vec<String> {
    let comments: Vec<&str> = file.lines().map(|line| line.strip_prefix('#').unwrap_or_default().trim()).collect();
    comments.split(|line| line.is_empty()).flat_map(|paragraph| text_claims(&paragraph.join(" "))).collect()
}

/// Returns the claims in the output of `--help`, without usage and names of options.
pub(super) fn help_claims(help: &str) -> Vec<String> {
    let mut claims = Vec::new();
    let mut paragraph = String::new();
    for line in help.lines().chain([""]) {
        let trimmed = line.trim();
        let is_command = line.starts_with("  ") && !line.starts_with("   ");
        if trimmed.is_empty() || trimmed.starts_with("Usage:") || trimmed.starts_with(['-', '<', '[']) || is_command {
            claims.extend(text_claims(&std::mem::take(&mut paragraph)));
        }
        let text = match trimmed.split_once("  ") {
            Some((_, description)) if is_command || trimmed.starts_with(['-', '<', '[']) => description,
            _ if trimmed.starts_with(['-', '<', '[']) || trimmed.starts_with("Usage:") => "",
            _ => trimmed,
        };
        paragraph.push_str(text);
        paragraph.push(' ');
    }
    claims
}

#[test]
fn a_sentence_with_an_absolute_word_is_a_claim() {
    let text =
        "It is never lost. All\nare. `q.all` e.g. everything; plain-only. No one's, nobody’s? Whatever (only this).";
    let expected = [
        "It is never lost.",
        "All are.",
        "`q.all` e.g. everything; plain-only.",
        "No one's, nobody’s?",
        "Whatever (only this).",
    ];
    assert_eq!(text_claims(text), expected);
}

#[test]
fn a_document_is_read_by_paragraph_item_and_cell() {
    let document =
        "# Only a title\n\nIt is\nall.\n\n```\nnever\n```\n\n* one\n* only two\n  lines\n\n| a | never |\n|---|---|\n";
    assert_eq!(markdown_claims(document), ["# Only a title", "It is all.", "* only two lines", "never"]);
}

#[test]
fn help_is_read_by_option() {
    let help = "Shows all\n\nUsage: x [OPTIONS] <all>\n\nCommands:\n  show    Shows only\n  all     Shows it\n\n\
                Options:\n      --all <N>\n          Never\n          more\n  -h, --help  Print all\n";
    assert_eq!(help_claims(help), ["Shows all", "Shows only", "Never more", "Print all"]);
}
