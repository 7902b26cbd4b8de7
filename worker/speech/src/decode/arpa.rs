//! N-gram language models in the ARPA format (Doug Paul; `ngram-format(5)` of SRILM), with backoff (Katz 1987):
//! `p(w | h) = p(hw)` for a listed n-gram, and `backoff(h) · p(w | h without its first word)` otherwise.
//!
//! N-grams lie in a trie over their words. A state is the longest listed suffix of the history that is shorter than
//! the order, so that two histories with the same future share a state.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::BufRead;
use std::path::Path;

use super::input::{FileKind, InputError, NumberedLines};

const KIND: FileKind = FileKind {
    name: "language model",
    most_bytes: 4 << 30,
    remedy: "prune it, for example with SRILM's `ngram -prune`, or reduce its order",
};
/// Maximum number of n-grams of all orders: about 2 GiB of memory.
const MOST_NGRAMS: usize = 30_000_000;
/// Maximum order.
const MOST_ORDER: usize = 10;
/// Maximum number of words of the vocabulary.
const MOST_WORDS: usize = 4_000_000;
/// Maximum log10 of a backoff weight.
const MOST_BACKOFF: f64 = 1_000.0;
const BEGIN: &str = "<s>";
const END: &str = "</s>";
const UNKNOWN: &str = "<unk>";

/// A history, as a node of the trie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LanguageState(u32);

/// The empty history.
const ROOT: LanguageState = LanguageState(0);

/// A word of the language model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LanguageWord(u32);

#[derive(Debug, Clone, Copy)]
struct Node {
    /// ln p of the last word after the others.
    probability: f32,
    /// ln of the weight of shorter histories.
    backoff: f32,
    /// The node without the first word.
    suffix: u32,
    order: u8,
}

/// A language model.
#[derive(Debug, Clone)]
pub struct NgramModel {
    order: usize,
    words: HashMap<String, u32>,
    nodes: Vec<Node>,
    children: HashMap<(u32, u32), u32>,
    begin: Option<u32>,
    end: Option<u32>,
}

impl NgramModel {
    /// Reads a model.
    ///
    /// # Errors
    /// [`InputError`] with the line, or if the file is truncated or above a limit.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        Builder::new(NumberedLines::open(path, KIND)?).build()
    }

    /// Reads a model from text; `path` names it in errors.
    ///
    /// # Errors
    /// [`InputError`] as [`NgramModel::read`].
    pub fn parse(reader: impl BufRead, path: &Path) -> Result<Self, InputError> {
        Builder::new(NumberedLines::new(reader, path, KIND)).build()
    }

    /// Returns the order: 3 for trigrams.
    pub const fn order(&self) -> usize {
        self.order
    }

    /// Returns a word: as written, or else in lower or in upper case; `None` if the model does not have it.
    pub fn word(&self, text: &str) -> Option<LanguageWord> {
        let find = |text: &str| self.words.get(text).copied();
        find(text).or_else(|| find(&text.to_lowercase())).or_else(|| find(&text.to_uppercase())).map(LanguageWord)
    }

    /// Returns the words, without the marks of beginning, end and unknown words, in no order.
    pub fn vocabulary(&self) -> impl Iterator<Item = &str> {
        let is_mark = |word: &str| matches!(word, BEGIN | END) || word.eq_ignore_ascii_case(UNKNOWN);
        self.words.keys().map(String::as_str).filter(move |word| !is_mark(word))
    }

    /// Returns the state at the beginning of a sentence; the empty history if the model has no `<s>`.
    pub fn start(&self) -> LanguageState {
        let begin = self.begin.and_then(|word| self.children.get(&(ROOT.0, word)));
        begin.map_or(ROOT, |node| self.history(*node))
    }

    /// Returns ln p of a word after a history, and the history after the word.
    pub fn advance(&self, state: LanguageState, word: LanguageWord) -> (f64, LanguageState) {
        let (mut history, mut weight) = (state.0, 0.0);
        loop {
            if let Some(node) = self.children.get(&(history, word.0)) {
                return (weight + f64::from(self.nodes[*node as usize].probability), self.history(*node));
            }
            // The empty history has every word.
            let Node { backoff, suffix, .. } = self.nodes[history as usize];
            weight += f64::from(backoff);
            history = suffix;
        }
    }

    /// Returns ln p of the end of the sentence after a history; 0 if the model has no `</s>`.
    pub fn finish(&self, state: LanguageState) -> f64 {
        self.end.map_or(0.0, |end| self.advance(state, LanguageWord(end)).0)
    }

    /// Returns ln p of a word without its history.
    pub fn unigram(&self, word: LanguageWord) -> f64 {
        self.advance(ROOT, word).0
    }

    /// Returns the state after an n-gram: a node of the highest order has no longer n-grams below it.
    fn history(&self, node: u32) -> LanguageState {
        let Node { order, suffix, .. } = self.nodes[node as usize];
        LanguageState(if usize::from(order) >= self.order { suffix } else { node })
    }
}

/// Reads the sections of a file one after another.
struct Builder<R> {
    lines: NumberedLines<R>,
    model: NgramModel,
}

/// A line of the structure of a file.
enum Heading {
    Section(usize),
    End,
}

impl<R: BufRead> Builder<R> {
    fn new(lines: NumberedLines<R>) -> Self {
        let root = Node { probability: 0.0, backoff: 0.0, suffix: ROOT.0, order: 0 };
        let model = NgramModel {
            order: 0,
            words: HashMap::new(),
            nodes: vec![root],
            children: HashMap::new(),
            begin: None,
            end: None,
        };
        Self { lines, model }
    }

    fn build(mut self) -> Result<NgramModel, InputError> {
        let (counts, mut heading) = self.read_counts()?;
        self.model.order = counts.len();
        for (order, count) in (1..).zip(&counts) {
            if !matches!(heading, Heading::Section(section) if section == order) {
                return Err(self.lines.error(format!("expected `\\{order}-grams:`: write the file again")));
            }
            let before = self.model.nodes.len();
            heading = self.read_section(order)?;
            let read = self.model.nodes.len() - before;
            if read != *count {
                let reason = format!("{read} {order}-grams end here, `\\data\\` states {count}: write the file again");
                return Err(self.lines.error(reason));
            }
        }
        match heading {
            Heading::End => {
                self.model.begin = self.model.words.get(BEGIN).copied();
                self.model.end = self.model.words.get(END).copied();
                Ok(self.model)
            }
            Heading::Section(_) => Err(self.lines.error("more sections than `\\data\\` states: write the file again")),
        }
    }

    /// Reads `\data\` and the counts, up to the next heading.
    fn read_counts(&mut self) -> Result<(Vec<usize>, Heading), InputError> {
        loop {
            match self.lines.next_line()? {
                Some("\\data\\") => break,
                Some(_) => {}
                None => {
                    return Err(self.lines.content_error(
                        "it has no line `\\data\\`; give an ARPA file, unpacked (binary models are not read)",
                    ));
                }
            }
        }
        let mut counts = Vec::new();
        while let Some(line) = self.lines.next_line()? {
            if line.is_empty() {
                continue;
            }
            if let Some(heading) = parse_heading(line) {
                return if counts.is_empty() {
                    Err(self.lines.error("no line `ngram 1=COUNT` before it: write the file again"))
                } else {
                    Ok((counts, heading))
                };
            }
            let count = line
                .strip_prefix("ngram ")
                .and_then(|rest| rest.split_once('='))
                .and_then(|(order, count)| Some((order.trim().parse::<usize>().ok()?, count.trim().parse().ok()?)));
            match count {
                Some((order, count)) if order == counts.len() + 1 && order <= MOST_ORDER => counts.push(count),
                Some((order, _)) if order > MOST_ORDER => {
                    return Err(self.lines.error(format!("order {order}: at most {MOST_ORDER}; {}", KIND.remedy)));
                }
                _ => return Err(self.lines.error("expected `ngram N=COUNT` with ascending N: write the file again")),
            }
            let all = counts.iter().fold(0_usize, |sum, count| sum.saturating_add(*count));
            if all > MOST_NGRAMS {
                return Err(self.lines.error(format!("{all} n-grams: at most {MOST_NGRAMS}; {}", KIND.remedy)));
            }
        }
        Err(self.lines.content_error("it ends within `\\data\\`: copy it again"))
    }

    /// Reads the n-grams of one order, up to the next heading.
    fn read_section(&mut self, order: usize) -> Result<Heading, InputError> {
        let mut path = Vec::with_capacity(order);
        while let Some(line) = self.lines.next_line()? {
            if line.is_empty() {
                continue;
            }
            if let Some(heading) = parse_heading(line) {
                return Ok(heading);
            }
            let mut fields = line.split_ascii_whitespace();
            let number =
                |field: Option<&str>| field.and_then(|field| field.parse::<f64>().ok()).filter(|n| !n.is_nan());
            let probability = number(fields.next()).filter(|probability| *probability <= 1e-6);
            path.clear();
            let words: &mut HashMap<String, u32> = &mut self.model.words;
            let mut unknown = None;
            for word in fields.by_ref().take(order) {
                match words.get(word) {
                    Some(word) => path.push(*word),
                    None if order == 1 && words.len() < MOST_WORDS => {
                        let new = words.len() as u32;
                        words.insert(word.to_owned(), new);
                        path.push(new);
                    }
                    None => unknown = unknown.or_else(|| Some(word.to_owned())),
                }
            }
            let backoff = match fields.next() {
                None => Some(0.0),
                field => number(field).filter(|backoff| *backoff <= MOST_BACKOFF),
            };
            let is_over = fields.next().is_none();
            if let Some(word) = unknown {
                let reason = if order == 1 {
                    format!("more than {MOST_WORDS} words: {}", KIND.remedy)
                } else {
                    format!("`{word}` is no 1-gram: write the file again")
                };
                return Err(self.lines.error(reason));
            }
            let (Some(probability), Some(backoff), true, true) = (probability, backoff, path.len() == order, is_over)
            else {
                return Err(self.lines.error(format!(
                    "expected a log10 probability of at most 0, {order} words and perhaps a backoff: write the file again"
                )));
            };
            self.add(&path, probability, backoff)?;
        }
        Err(self.lines.content_error(format!("it ends within the {order}-grams, without `\\end\\`: copy it again")))
    }

    fn add(&mut self, path: &[u32], probability: f64, backoff: f64) -> Result<(), InputError> {
        let model = &mut self.model;
        let Some((last, history)) = path.split_last() else { return Ok(()) };
        let mut above = ROOT.0;
        for word in history {
            let Some(node) = model.children.get(&(above, *word)) else {
                let reason = "its history is no n-gram of the next lower order: write the file again";
                return Err(self.lines.error(reason));
            };
            above = *node;
        }
        // The longest listed suffix of the n-gram: the history's suffixes are known, from long to short.
        let mut suffix = ROOT.0;
        let mut shorter = above;
        while shorter != ROOT.0 {
            shorter = model.nodes[shorter as usize].suffix;
            if let Some(node) = model.children.get(&(shorter, *last)) {
                suffix = *node;
                break;
            }
        }
        let new = model.nodes.len() as u32;
        match model.children.entry((above, *last)) {
            Entry::Occupied(_) => return Err(self.lines.error("there is an earlier line of this n-gram: remove one")),
            Entry::Vacant(place) => place.insert(new),
        };
        let natural = |log10: f64| (log10 * std::f64::consts::LN_10).max(f64::from(f32::MIN)) as f32;
        model.nodes.push(Node {
            probability: natural(probability.min(0.0)),
            backoff: natural(backoff),
            suffix,
            order: path.len() as u8,
        });
        Ok(())
    }
}

fn parse_heading(line: &str) -> Option<Heading> {
    if line == "\\end\\" {
        return Some(Heading::End);
    }
    line.strip_prefix('\\')?.strip_suffix("-grams:")?.parse().ok().map(Heading::Section)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::Path;

    use super::{LanguageState, NgramModel};

    const TRIGRAMS: &str = "about this file\n\\data\\\nngram 1=5\nngram 2=4\nngram 3=1\n\n\\1-grams:\n\
        -1.0 <unk>\n-99 <s> -0.30\n-0.9 </s>\n-0.6 go -0.20\n-0.7 STOP -0.10\n\n\\2-grams:\n-0.3 <s> go -0.05\n\
        -0.4 go STOP -0.15\n-0.2 STOP </s>\n-0.8 go go\n\n\\3-grams:\n-0.1 <s> go STOP\n\n\\end\\\n";

    fn parse(text: &str) -> Result<NgramModel, String> {
        NgramModel::parse(text.as_bytes(), Path::new("words.arpa")).map_err(|error| error.to_string())
    }

    /// Returns log10 p of each word and of the end.
    fn score(model: &NgramModel, words: &[&str]) -> Vec<f64> {
        let mut state: LanguageState = model.start();
        let mut scores = Vec::new();
        for word in words {
            let (score, next) = model.advance(state, model.word(word).unwrap());
            scores.push(score / std::f64::consts::LN_10);
            state = next;
        }
        scores.push(model.finish(state) / std::f64::consts::LN_10);
        scores
    }

    #[test]
    fn probabilities_follow_the_backoff_formula() {
        let model = parse(TRIGRAMS).unwrap();
        let close = |words: &[&str], expected: &[f64]| {
            let scores = score(&model, words);
            assert!(scores.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{words:?}: {scores:?}");
        };
        assert_eq!(model.order(), 3);
        // p(go | <s>), p(STOP | <s> go), backoff(go STOP) + p(</s> | STOP).
        close(&["go", "stop"], &[-0.3, -0.1, -0.15 - 0.2]);
        // backoff(<s>) + p(STOP); no node `<s> STOP`, so backoff(STOP) + p(go); backoff(go) + p(</s>).
        close(&["STOP", "go"], &[-0.3 - 0.7, -0.1 - 0.6, -0.2 - 0.9]);
        // backoff(<s> go) + p(go | go); `go go` has no backoff, so backoff(go) + p(</s>) .
        close(&["GO", "go"], &[-0.3, -0.05 - 0.8, -0.2 - 0.9]);
        assert!(model.word("left").is_none() && model.word("Stop").is_some());
        let mut words: Vec<&str> = model.vocabulary().collect();
        words.sort_unstable();
        assert_eq!(words, ["STOP", "go"]);
    }

    #[test]
    fn probabilities_after_each_history_sum_to_one() {
        // A closed model: p(a) = 0.5, p(b) = 0.3, p(</s>) = 0.2; p(a | a) = 0.7, the rest by backoff.
        let rest: f64 = (0.3_f64 / 0.5).log10();
        let log = f64::log10;
        let text = format!(
            "\\data\\\nngram 1=4\nngram 2=1\n\\1-grams:\n-99 <s> 0\n{} </s>\n{} a {rest}\n{} b 0\n\\2-grams:\n{} a a\n\\end\\\n",
            log(0.2),
            log(0.5),
            log(0.3),
            log(0.7)
        );
        let model = parse(&text).unwrap();
        let mut states = vec![model.start()];
        for word in ["a", "b", "a"] {
            states.push(model.advance(states[states.len() - 1], model.word(word).unwrap()).1);
        }
        for state in states {
            let words: f64 =
                ["a", "b"].map(|word| model.advance(state, model.word(word).unwrap()).0.exp()).iter().sum();
            assert!((words + model.finish(state).exp() - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn invalid_model_names_its_line_and_a_remedy() {
        for (from, to, expected) in [
            ("\\data\\", "\\date\\", "words.arpa is no language model: it has no line `\\data\\`"),
            ("ngram 2=4", "ngram 2=5", "line 20: 4 2-grams end here, `\\data\\` states 5"),
            ("ngram 2=4", "ngram 2=40000000", "at most 30000000"),
            ("ngram 3=1", "ngram 4=1", "line 5: expected `ngram N=COUNT`"),
            ("-0.8 go go", "0.8 go go", "line 18: expected a log10 probability"),
            ("-0.8 go go", "-0.8 go", "line 18: expected a log10 probability"),
            ("-0.8 go go", "-0.8 go left", "line 18: `left` is no 1-gram"),
            ("-0.8 go go", "-0.4 go STOP", "line 18: there is an earlier line"),
            ("<s> go STOP", "STOP go STOP", "line 21: its history is no n-gram"),
            ("\\end\\", "", "it ends within the 3-grams, without `\\end\\`"),
            ("\\3-grams:", "\\4-grams:", "expected `\\3-grams:`"),
        ] {
            let error = parse(&TRIGRAMS.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(expected), "{from} to {to}: {error}");
        }
    }
}
