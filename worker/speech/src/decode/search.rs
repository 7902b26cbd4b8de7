//! The search for the best word sequence: tokens pass through the tree of words, frame by frame (Young, Russell &
//! Thornton 1989).
//!
//! A token is the best path to a place of the tree with a state of the language model. Of two tokens at one place with
//! one state, the better remains (Viterbi). Tokens below the best by more than the beam are dropped; the comparison
//! includes the best word below their place ([`Node::lookahead`](super::tree::Node)).
//!
//! | topology | places of a node | between words |
//! |---|---|---|
//! | phones | its states, each for at least one frame | silence, optional |
//! | characters (CTC) | the character, then a blank, optional | the space, required if the model has one |
//!
//! With CTC, a character can only follow the same character after a blank (Graves et al. 2006).

use std::collections::HashMap;

use super::arpa::{LanguageState, NgramModel};
use super::labels::ClassLabels;
use super::lexicon::Lexicon;
use super::scores::FrameScores;
use super::tree::{NetworkError, ROOT, WordTree};

/// No word precedes.
const NO_LINK: u32 = u32::MAX;
/// The number of the node between words, in place of a node of the tree.
const SEPARATOR: u32 = u32::MAX / 16;

/// Settings of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchOptions {
    /// The factor of the language model's logarithms.
    pub language_weight: f64,
    /// The cost of each word, in natural logarithms; negative values favour more words.
    pub word_penalty: f64,
    /// The greatest distance to the best token, in natural logarithms.
    pub beam: f64,
    /// The most tokens of a frame.
    pub most_tokens: usize,
    /// Whether words of the language model that the lexicon lacks are skipped.
    pub skip_missing_words: bool,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { language_weight: 1.0, word_penalty: 0.0, beam: 100.0, most_tokens: 10_000, skip_missing_words: false }
    }
}

/// A recognized word or label, with its frames.
#[derive(Clone, PartialEq)]
pub struct FrameWord {
    /// The text.
    pub text: String,
    /// Its first frame.
    pub start: usize,
    /// The frame after its last.
    pub end: usize,
    /// The mean probability of its phones or characters over its frames, 0 to 1.
    pub confidence: f64,
}

/// Prints times only: words do not belong in logs.
impl std::fmt::Debug for FrameWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FrameWord(frames {} to {})", self.start, self.end)
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoding {
    /// The words, in order of time.
    pub words: Vec<FrameWord>,
    /// Whether the recording ends with a whole word; otherwise the words are those before its end.
    pub is_complete: bool,
    /// The score of the path: the sum of the frames' scores, the weighted language model and the penalties.
    pub score: f64,
}

/// The places of a node.
#[derive(Debug, Clone, Copy)]
enum Topology {
    States { count: u32 },
    Ctc { blank: u32 },
}

/// A decoder of words.
#[derive(Debug, Clone)]
pub struct WordDecoder {
    tree: WordTree,
    language: Option<NgramModel>,
    topology: Topology,
    /// The unit between words.
    separator: Option<u32>,
    options: SearchOptions,
}

/// A path to a place.
#[derive(Debug, Clone, Copy)]
struct Token {
    place: Place,
    language: Option<LanguageState>,
    score: f64,
    /// The last word.
    link: u32,
    /// The first frame of the present word.
    start: u32,
    /// The frame after its last frame that is no blank.
    end: u32,
    /// The sum of the probabilities of its frames that are no blanks.
    confidence: f64,
    counted: u32,
}

/// A step of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Place {
    node: u32,
    step: u32,
}

/// A word of a path.
#[derive(Debug, Clone, Copy)]
struct WordLink {
    previous: u32,
    word: u32,
    start: u32,
    end: u32,
    confidence: f64,
}

/// A path that may begin a word.
#[derive(Debug, Clone, Copy)]
struct WordExit {
    token: Token,
    word: Option<u32>,
}

/// Where a path between words may continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ExitKey {
    language: Option<LanguageState>,
    /// The unit that must not follow at once.
    forbidden: Option<u32>,
    source: ExitSource,
}

/// The place that a path between words left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ExitSource {
    Start,
    Separator,
    Word,
}

/// Hashes keys of small numbers by multiplication with 2⁶⁴/φ (Knuth, The Art of Computer Programming 3, 6.4). The keys are
/// numbers of nodes, and the number of tokens is limited, so the hash need not resist crafted collisions.
#[derive(Debug, Clone, Copy, Default)]
struct NumberHasher(u64);

impl std::hash::Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Values with the best for each key, in the order of the first occurrence: the result does not depend on hashes.
struct BestByKey<K, V> {
    places: HashMap<K, usize, std::hash::BuildHasherDefault<NumberHasher>>,
    values: Vec<(K, V)>,
}

impl<K: Copy + Eq + std::hash::Hash, V> BestByKey<K, V> {
    fn new() -> Self {
        Self { places: HashMap::default(), values: Vec::new() }
    }

    fn offer(&mut self, key: K, value: V, score: impl Fn(&V) -> f64) {
        match self.places.entry(key) {
            std::collections::hash_map::Entry::Occupied(place) => {
                let known = &mut self.values[*place.get()].1;
                if score(&value) > score(known) {
                    *known = value;
                }
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(self.values.len());
                self.values.push((key, value));
            }
        }
    }
}

type TokenSet = BestByKey<(Place, Option<LanguageState>), Token>;
type ExitSet = BestByKey<ExitKey, WordExit>;

impl WordDecoder {
    /// Returns a decoder of the words of a lexicon. Without a language model all words are equally likely.
    ///
    /// # Errors
    /// [`NetworkError`] with the word, phone or character that does not fit.
    pub fn new(
        labels: &ClassLabels,
        lexicon: &Lexicon,
        language: Option<NgramModel>,
        options: SearchOptions,
    ) -> Result<Self, NetworkError> {
        let tree = WordTree::build(lexicon, labels, language.as_ref(), options.skip_missing_words)?;
        let (topology, separator) = match labels {
            ClassLabels::Phones(map) => (Topology::States { count: map.states() as u32 }, map.silence()),
            ClassLabels::Characters(set) => (Topology::Ctc { blank: set.blank() as u32 }, set.class(' ')),
        };
        Ok(Self { tree, language, topology, separator: separator.map(|unit| unit as u32), options })
    }

    /// Returns the best word sequence.
    pub fn decode(&self, scores: &FrameScores) -> Decoding {
        let start = self.language.as_ref().map(NgramModel::start);
        let place = Place { node: ROOT, step: 0 };
        let (score, confidence) = (0.0, 0.0);
        let first = Token { place, language: start, score, link: NO_LINK, start: 0, end: 0, confidence, counted: 0 };
        let mut links = Vec::new();
        let mut tokens: Vec<Token> = Vec::new();
        for frame in 0..scores.frames() {
            let mut next = TokenSet::new();
            let mut exits = ExitSet::new();
            if frame == 0 {
                let key = ExitKey { language: start, forbidden: None, source: ExitSource::Start };
                exits.offer(key, WordExit { token: first, word: None }, |exit| exit.token.score);
                if let Topology::Ctc { .. } = self.topology {
                    enter(&mut next, first, Place { node: ROOT, step: 1 }, frame);
                }
            }
            for token in &tokens {
                self.advance(token, &mut next, &mut exits);
            }
            let best = exits.values.iter().map(|(_, exit)| exit.token.score).fold(f64::NEG_INFINITY, f64::max);
            for (key, exit) in exits.values {
                if exit.token.score >= best - self.options.beam {
                    self.begin_word(key, exit, &mut next, &mut links, frame);
                }
            }
            tokens = self.add_frame(next, scores, frame);
        }
        self.finish(&tokens, links)
    }

    fn unit(&self, node: u32) -> u32 {
        if node == SEPARATOR { self.separator.unwrap_or(0) } else { self.tree.nodes[node as usize].unit }
    }

    /// Returns whether the place emits the unit of its node, not a blank.
    fn is_unit(&self, place: Place) -> bool {
        matches!(self.topology, Topology::States { .. }) || place.step == 0
    }

    /// Returns whether a path may leave the node from here.
    fn is_last(&self, place: Place) -> bool {
        match self.topology {
            Topology::States { count } => place.step + 1 == count,
            Topology::Ctc { .. } => true,
        }
    }

    /// Offers all continuations of a token within its word, and its exits.
    fn advance(&self, token: &Token, next: &mut TokenSet, exits: &mut ExitSet) {
        let Place { node, step } = token.place;
        let mut offer = |place| {
            next.offer((place, token.language), Token { place, ..*token }, |token| token.score);
        };
        offer(token.place);
        let steps = match self.topology {
            Topology::States { count } => count,
            Topology::Ctc { .. } => 2,
        };
        if step + 1 < steps {
            offer(Place { node, step: step + 1 });
        }
        if !self.is_last(token.place) {
            return;
        }
        let is_label = matches!(self.topology, Topology::Ctc { .. }) && step == 0;
        let forbidden = is_label.then(|| self.unit(node));
        if node == ROOT || node == SEPARATOR {
            let source = if node == ROOT { ExitSource::Start } else { ExitSource::Separator };
            let key = ExitKey { language: token.language, forbidden, source };
            exits.offer(key, WordExit { token: *token, word: None }, |exit| exit.token.score);
            return;
        }
        for child in &self.tree.nodes[node as usize].children {
            if forbidden != Some(self.unit(*child)) {
                offer(Place { node: *child, step: 0 });
            }
        }
        for word in &self.tree.nodes[node as usize].words {
            let after = self.add_word(token, *word);
            let key = ExitKey { language: after.language, forbidden, source: ExitSource::Word };
            exits.offer(key, WordExit { token: after, word: Some(*word) }, |exit| exit.token.score);
        }
    }

    /// Returns the token with the score and the language state after a word.
    fn add_word(&self, token: &Token, word: u32) -> Token {
        let of_word = self.tree.words[word as usize].language;
        let (score, language) = match (&self.language, token.language, of_word) {
            (Some(model), Some(state), Some(word)) => {
                let (score, state) = model.advance(state, word);
                (score, Some(state))
            }
            _ => (self.tree.uniform(), None),
        };
        let SearchOptions { language_weight, word_penalty, .. } = self.options;
        Token { score: token.score + language_weight * score - word_penalty, language, ..*token }
    }

    /// Continues a path between words: by the separator, or by the first units of all words.
    fn begin_word(&self, key: ExitKey, exit: WordExit, next: &mut TokenSet, links: &mut Vec<WordLink>, frame: usize) {
        let mut token = exit.token;
        if let Some(word) = exit.word {
            token.link = push_link(links, &token, word);
        }
        if key.source != ExitSource::Separator && self.separator.is_some_and(|unit| key.forbidden != Some(unit)) {
            enter(next, token, Place { node: SEPARATOR, step: 0 }, frame);
        }
        let needs_separator = matches!(self.topology, Topology::Ctc { .. }) && self.separator.is_some();
        if key.source == ExitSource::Word && needs_separator {
            return;
        }
        for child in &self.tree.nodes[ROOT as usize].children {
            if key.forbidden != Some(self.unit(*child)) {
                enter(next, token, Place { node: *child, step: 0 }, frame);
            }
        }
    }

    /// Adds the scores of a frame and drops tokens outside the beam.
    fn add_frame(&self, next: TokenSet, scores: &FrameScores, frame: usize) -> Vec<Token> {
        let own = &scores.scores[frame * scores.columns..][..scores.columns];
        let posteriors = &scores.posteriors[frame * scores.units..][..scores.units];
        let mut best = f64::NEG_INFINITY;
        let mut ranked: Vec<(f64, Token)> = Vec::with_capacity(next.values.len());
        for (_, mut token) in next.values {
            let unit = self.unit(token.place.node);
            let column = match self.topology {
                Topology::States { count } => unit * count + token.place.step,
                Topology::Ctc { .. } if token.place.step == 0 => unit,
                Topology::Ctc { blank } => blank,
            };
            token.score += f64::from(own[column as usize]);
            if self.is_unit(token.place) {
                token.confidence += f64::from(posteriors[unit as usize]);
                token.counted += 1;
                token.end = frame as u32 + 1;
            }
            let node = if token.place.node == SEPARATOR { ROOT } else { token.place.node };
            let ahead = self.tree.nodes[node as usize].lookahead;
            let rank = token.score + self.options.language_weight * ahead;
            best = best.max(rank);
            ranked.push((rank, token));
        }
        ranked.retain(|(rank, _)| *rank >= best - self.options.beam);
        let most = self.options.most_tokens.max(1);
        if ranked.len() > most {
            ranked.select_nth_unstable_by(most - 1, |(a, one), (b, other)| {
                b.total_cmp(a).then_with(|| (one.place, one.language).cmp(&(other.place, other.language)))
            });
            ranked.truncate(most);
            // The selection leaves an order of its own.
            ranked.sort_unstable_by_key(|(_, token)| (token.place, token.language));
        }
        ranked.into_iter().map(|(_, token)| token).collect()
    }

    /// Returns the words of the best path that ends with a whole word, or else of the best path.
    fn finish(&self, tokens: &[Token], mut links: Vec<WordLink>) -> Decoding {
        let end = |token: &Token| match (&self.language, token.language) {
            (Some(model), Some(state)) => self.options.language_weight * model.finish(state),
            _ => 0.0,
        };
        let mut best: Option<(f64, Token, Option<u32>)> = None;
        let mut offer = |token: Token, word: Option<u32>| {
            let score = token.score + end(&token);
            if best.as_ref().is_none_or(|(known, ..)| score > *known) {
                best = Some((score, token, word));
            }
        };
        for token in tokens.iter().filter(|token| self.is_last(token.place)) {
            if token.place.node == ROOT || token.place.node == SEPARATOR {
                offer(*token, None);
            } else {
                for word in &self.tree.nodes[token.place.node as usize].words {
                    offer(self.add_word(token, *word), Some(*word));
                }
            }
        }
        let is_complete = best.is_some() || tokens.is_empty();
        let (score, mut link) = match best {
            Some((score, token, Some(word))) => (score, push_link(&mut links, &token, word)),
            Some((score, token, None)) => (score, token.link),
            None => {
                let partial = tokens.iter().max_by(|a, b| a.score.total_cmp(&b.score));
                partial.map_or((0.0, NO_LINK), |token| (token.score, token.link))
            }
        };
        let mut words = Vec::new();
        while link != NO_LINK {
            let WordLink { previous, word, start, end, confidence } = links[link as usize];
            let text = self.tree.words[word as usize].text.clone();
            words.push(FrameWord { text, start: start as usize, end: end as usize, confidence });
            link = previous;
        }
        words.reverse();
        Decoding { words, is_complete, score }
    }
}

/// Offers a path at the first frame of a place.
fn enter(next: &mut TokenSet, token: Token, place: Place, frame: usize) {
    let (start, end) = (frame as u32, frame as u32);
    let token = Token { place, start, end, confidence: 0.0, counted: 0, ..token };
    next.offer((place, token.language), token, |token| token.score);
}

fn push_link(links: &mut Vec<WordLink>, token: &Token, word: u32) -> u32 {
    let Token { link: previous, start, end, confidence, counted, .. } = *token;
    let confidence = (confidence / f64::from(counted.max(1))).clamp(0.0, 1.0);
    links.push(WordLink { previous, word, start, end, confidence });
    links.len() as u32 - 1
}

#[cfg(test)]
mod tests;
