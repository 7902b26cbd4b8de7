//! The figures, with their limits.

use super::scan;
use std::{cmp::Reverse, collections::BTreeMap};

/// Words of comments that stand in for a noun.
const WORDS: [&str; 4] =
    ["what", "who whoever whom whose", "said say says tell tells told", "anybody everybody nobody somebody"];
/// The limits of their counts in 1,000 words.
const WORD_LIMITS: [f64; 4] = [2.0, 2.0, 1.0, 0.3];
/// First words of docs that describe no action.
const QUESTIONS: &str = "at by for from how in of over to under what when where whether which who whom whose why with";
const PREPOSITIONS: &str = "after at before beside between beyond by into of over under upon within without";
/// Participles that served as names.
const PARTICIPLES: &str = "answered asked awaited begun believed brought charged chosen cleared counted cut done drawn found \
    given gone handed heard held judged kept known left made meant named paid said seen sent shown spoken taken thought told wanted";
/// Names of types that sea-orm and its migrations prescribe.
const PRESCRIBED: &str = "ActiveModel Column Entity Iden Migration Model PrimaryKey Relation";
// Of a hundred names, and absolute numbers.
const PARTICIPLE_FUNCTIONS: f64 = 0.5;
const PARTICIPLE_LOCALS: f64 = 0.5;
const REUSED_TYPE_NAMES: f64 = 12.0;
const PREPOSITION_FUNCTIONS: f64 = 10.0;

/// Names, each with its count and its first place.
#[derive(Default)]
struct NameTally(BTreeMap<String, (usize, String)>);

/// A figure with its limit and its places.
pub(super) struct LanguageFigure {
    name: String,
    pub(super) value: f64,
    pub(super) limit: f64,
    places: NameTally,
}

/// The names and words of all sources; of each of [`WORDS`], the files that use it.
#[derive(Default)]
pub(super) struct SourceFigures {
    pub(super) comment_words: usize,
    words: [NameTally; WORDS.len()],
    openings: NameTally,
    functions: NameTally,
    locals: NameTally,
    types: NameTally,
    tests: NameTally,
}

impl NameTally {
    fn add<'a>(&mut self, names: impl IntoIterator<Item = &'a str>, place: &str) {
        for name in names {
            self.0.entry(name.to_owned()).or_insert_with(|| (0, place.to_owned())).0 += 1;
        }
    }

    fn total(&self) -> f64 {
        self.0.values().map(|(count, _)| count).sum::<usize>() as f64
    }

    fn filter(&self, is_counted: impl Fn(&str, usize) -> bool) -> Self {
        let entries = self.0.iter().filter(|(name, (count, _))| is_counted(name.as_str(), *count));
        Self(entries.map(|(name, entry)| (name.clone(), entry.clone())).collect())
    }

    /// Returns the figure of the share of names that are counted, in percent.
    fn share(&self, name: &str, limit: f64, is_counted: impl Fn(&str) -> bool) -> LanguageFigure {
        let places = self.filter(|name, _| is_counted(name));
        let value = 100.0 * places.total() / self.total().max(1.0);
        LanguageFigure::new(&format!("{name}, %"), value, limit, places)
    }
}

impl LanguageFigure {
    fn new(name: &str, value: f64, limit: f64, places: NameTally) -> Self {
        Self { name: name.to_owned(), value, limit, places }
    }

    /// Returns a line about the figure, and lines about its twelve most frequent places.
    pub(super) fn describe(&self) -> String {
        let mut places: Vec<_> = self.places.0.iter().collect();
        places.sort_by_key(|(_, (count, _))| Reverse(*count));
        let lines = places.iter().take(12).map(|(name, (count, place))| format!("\n{count:7} {name} ({place})"));
        format!("{}: {:.2}, limit {}{}", self.name, self.value, self.limit, lines.collect::<Vec<_>>().concat())
    }
}

impl SourceFigures {
    /// Counts the words and names of a source.
    pub(super) fn add_source(&mut self, path: &str, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let place = format!("{path}:{}", index + 1);
            let comment = scan::comment_text(line).unwrap_or_default().to_lowercase();
            self.comment_words += comment.split_whitespace().count();
            for (tally, words) in self.words.iter_mut().zip(WORDS) {
                let uses = scan::identifiers(&comment).filter(|word| contains_word(words, word));
                tally.add(uses.map(|_| path), &place);
            }
            self.functions.add(scan::names_after(line, "fn"), &place);
            self.locals.add(scan::names_after(line, "let"), &place);
            for keyword in ["struct", "enum", "trait"] {
                let names = scan::names_after(line, keyword).into_iter();
                self.types.add(names.filter(|name| !contains_word(PRESCRIBED, name)), &place);
            }
        }
        for (index, opening) in scan::doc_openings(&lines) {
            self.openings.add([&*opening.to_lowercase()], &format!("{path}:{}", index + 1));
        }
        self.tests.add(scan::test_names(text), path);
    }

    /// Returns all figures.
    pub(super) fn list(&self) -> Vec<LanguageFigure> {
        let mut figures = Vec::new();
        for ((tally, words), limit) in self.words.iter().zip(WORDS).zip(WORD_LIMITS) {
            let value = 1000.0 * tally.total() / self.comment_words.max(1) as f64;
            let name = format!("{words}, in 1,000 words of comments");
            figures.push(LanguageFigure::new(&name, value, limit, tally.filter(|_, _| true)));
        }
        let is_participle = |name: &str| contains_word(PARTICIPLES, name);
        let begins_with_one = |name: &str| name.split('_').next().is_some_and(is_participle);
        let is_one_word = |name: &str| name.chars().filter(char::is_ascii_uppercase).count() == 1;
        let reused = self.types.filter(|_, count| count >= 4);
        let prepositions = self.functions.filter(|name, _| contains_word(PREPOSITIONS, name));
        figures.extend([
            self.openings.share("docs that begin with a question", 5.0, |word| contains_word(QUESTIONS, word)),
            self.functions.share("functions that begin with a participle", PARTICIPLE_FUNCTIONS, begins_with_one),
            self.locals.share("locals that are participles", PARTICIPLE_LOCALS, is_participle),
            self.types.share("type names of one word", 50.0, is_one_word),
            LanguageFigure::new("type names of several types", reused.0.len() as f64, REUSED_TYPE_NAMES, reused),
            LanguageFigure::new("prepositions", prepositions.total(), PREPOSITION_FUNCTIONS, prepositions),
            self.test_lengths(),
        ]);
        figures
    }

    fn test_lengths(&self) -> LanguageFigure {
        let lengths = self.tests.0.iter().flat_map(|(name, (count, _))| std::iter::repeat_n(name.len(), *count));
        let mut lengths: Vec<usize> = lengths.collect();
        lengths.sort_unstable();
        let value = lengths.get(lengths.len().saturating_sub(1) * 9 / 10).copied().unwrap_or_default();
        let longest = self.tests.filter(|name, _| name.len() >= value);
        LanguageFigure::new("length of test names, 90th percentile", value as f64, 60.0, longest)
    }
}

fn contains_word(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|listed| listed == word)
}
