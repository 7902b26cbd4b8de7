//! Texts of a certificate for a terminal: the author of the file chose the names in it.

/// Escapes each character that can change the state of a terminal, the order of a text or its lines.
pub fn escape_line(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Controls (C0, C1 and DEL), separators of lines and paragraphs, and marks of writing direction.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::escape_line;

    #[test]
    fn controls_and_line_ends_are_escaped() {
        let text = "north\u{1b}[2J\u{9b}31m\nok\r\t\u{202e}\u{2028}";
        assert_eq!(escape_line(text), "north\\u{1b}[2J\\u{9b}31m\\nok\\r\\t\\u{202e}\\u{2028}");
        assert_eq!(escape_line("Größe ε ≤ 1, “it’s”"), "Größe ε ≤ 1, “it’s”");
    }
}
