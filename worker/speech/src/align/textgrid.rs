//! Phones with times as Praat's TextGrid, one file per recording, as the Montreal Forced Aligner writes: the interval
//! tier `phones` (or `<speaker> - phones`).
//!
//! Both of Praat's text formats are read the same way, by Praat's own rule: only free-standing numbers, texts in double
//! quotes and flags in `<>` count. All other words, and the text after a `!`, are comments.

use super::phones::PhoneSegment;

/// Maximum number of tiers, and of intervals per tier, that a file may state.
const MOST: usize = 1 << 20;

enum TextGridToken {
    Number(f64),
    Text(String),
    Flag,
}

/// Returns the phones of a file.
///
/// # Errors
/// The problem of the file, as text.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<PhoneSegment>, String> {
    let text = decode(bytes)?;
    let mut reader = TokenReader { tokens: tokens(&text)?.into_iter() };
    if reader.text("the file type")? != "ooTextFile" || reader.text("the object class")? != "TextGrid" {
        return Err("not a TextGrid".to_owned());
    }
    let _ = (reader.number("xmin")?, reader.number("xmax")?);
    match reader.tokens.next() {
        Some(TextGridToken::Flag) => {}
        _ => return Err("it has no tiers".to_owned()),
    }
    let mut phones = None;
    for _ in 0..reader.count("the number of tiers")? {
        let interval = match &*reader.text("a tier's class")? {
            "IntervalTier" => true,
            "TextTier" => false,
            other => return Err(format!("a tier of class {other:?}")),
        };
        let name = reader.text("a tier's name")?;
        let _ = (reader.number("xmin")?, reader.number("xmax")?);
        let mut segments = Vec::new();
        for _ in 0..reader.count("the number of intervals")? {
            let start = reader.number("an interval's start")?;
            let end = if interval { reader.number("an interval's end")? } else { start };
            segments.push(PhoneSegment { start, end, phone: reader.text("an interval's text")? });
        }
        if interval && (name == "phones" || name.ends_with(" - phones")) && phones.replace(segments).is_some() {
            return Err("two tiers of phones: one speaker a recording".to_owned());
        }
    }
    phones.ok_or_else(|| "no interval tier is called `phones`".to_owned())
}

struct TokenReader {
    tokens: std::vec::IntoIter<TextGridToken>,
}

impl TokenReader {
    fn number(&mut self, what: &str) -> Result<f64, String> {
        match self.tokens.next() {
            Some(TextGridToken::Number(number)) => Ok(number),
            _ => Err(format!("{what} is missing")),
        }
    }

    fn text(&mut self, what: &str) -> Result<String, String> {
        match self.tokens.next() {
            Some(TextGridToken::Text(text)) => Ok(text),
            _ => Err(format!("{what} is missing")),
        }
    }

    fn count(&mut self, what: &str) -> Result<usize, String> {
        let number = self.number(what)?;
        let whole = number.fract() == 0.0 && (0.0..=MOST as f64).contains(&number);
        if whole { Ok(number as usize) } else { Err(format!("{what} is {number}: a whole number up to {MOST}")) }
    }
}

/// Decodes UTF-8, or UTF-16 with a byte order mark (which Praat writes where UTF-8 is not possible).
fn decode(bytes: &[u8]) -> Result<String, String> {
    let wide = |rest: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = rest.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16(&units).map_err(|_| "broken UTF-16".to_owned())
    };
    match bytes {
        [0xFE, 0xFF, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xFF, 0xFE, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] | rest => {
            std::str::from_utf8(rest).map(str::to_owned).map_err(|_| "neither UTF-8 nor UTF-16".to_owned())
        }
    }
}

fn tokens(text: &str) -> Result<Vec<TextGridToken>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let (content, after) = quoted(&rest[1..])?;
            tokens.push(TextGridToken::Text(content));
            rest = after;
        } else if first == '!' {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let word = &rest[..end];
            if word.starts_with('<') && word.ends_with('>') {
                tokens.push(TextGridToken::Flag);
            } else if let Some(number) = word.parse().ok().filter(|number: &f64| number.is_finite()) {
                tokens.push(TextGridToken::Number(number));
            }
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

/// Returns the text up to the closing quote; a doubled quote represents itself.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let (mut content, mut rest) = (String::new(), text);
    loop {
        let end = rest.find('"').ok_or("a text has no closing quote")?;
        content.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                content.push('"');
                rest = after;
            }
            None => return Ok((content, rest)),
        }
    }
}
