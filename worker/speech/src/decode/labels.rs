//! The meaning of a classifier's classes: states of phones, or characters and the blank of a CTC model.

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::input::{FileKind, InputError, NumberedLines};
use super::mdef;
use crate::align::PhoneMap;
use crate::align::phones::{SILENCE, plain_phone};
use crate::prepare::ClassMap;

const KIND: FileKind = FileKind {
    name: "phone map",
    most_bytes: 64 << 20,
    remedy: "give the phones.json of a dataset, the `mdef` of a PocketSphinx model, or lines `CLASS PHONE STATE`",
};
/// Maximum number of states of a phone.
pub(super) const MOST_STATES: usize = 8;
/// Maximum number of characters.
const MOST_CHARACTERS: usize = 65_535;

/// A state of a phone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PhoneState {
    pub(super) phone: String,
    pub(super) state: usize,
}

/// The phone and state of each class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhoneStates {
    phones: Vec<String>,
    states: usize,
    /// `phone · states + state` of each class; `None` for a class without a phone.
    columns: Vec<Option<usize>>,
}

impl PhoneStates {
    /// Reads a phone map: the phones.json of a dataset, the `mdef` of a PocketSphinx model, or lines `CLASS PHONE STATE`
    /// (without STATE for phones of one state, `CLASS` alone without a phone; `#` begins a comment). With `classes`, the map names the labels of an
    /// aligner, and the classes are those of the class map.
    ///
    /// # Errors
    /// [`InputError`] with the line or the defect.
    pub fn read(path: &Path, classes: Option<&ClassMap>) -> Result<Self, InputError> {
        let invalid = |reason| InputError::Content { kind: KIND.name, path: path.to_path_buf(), reason };
        let mut reader = std::io::BufReader::new(std::fs::File::open(path).map_err(|source| InputError::Io {
            kind: KIND.name,
            path: path.to_path_buf(),
            source,
        })?);
        let beginning = reader.fill_buf().unwrap_or_default();
        let by_label = if beginning.starts_with(mdef::MAGIC) {
            mdef::read(path).map_err(invalid)?
        } else if beginning.trim_ascii_start().starts_with(b"{") {
            let map = PhoneMap::read(path).map_err(invalid)?;
            let state = |class: usize| map.phone_state(u16::try_from(class).ok()?);
            let owned = |(phone, state): (&str, usize)| PhoneState { phone: phone.to_owned(), state };
            (0..map.classes()).map(|class| state(class).map(owned)).collect()
        } else {
            parse_lines(NumberedLines::new(reader, path, KIND))?
        };
        Self::new(&by_label, classes).map_err(invalid)
    }

    /// Returns the map of labels or, with `classes`, of classes.
    fn new(by_label: &[Option<PhoneState>], classes: Option<&ClassMap>) -> Result<Self, String> {
        let by_class: Vec<Option<&PhoneState>> = match classes {
            None => by_label.iter().map(Option::as_ref).collect(),
            Some(ClassMap::Identity(classes)) => {
                (0..*classes).map(|class| by_label.get(class).and_then(Option::as_ref)).collect()
            }
            Some(ClassMap::Frequent(labels)) => {
                let named = labels.iter().map(|label| by_label.get(usize::from(*label)).and_then(Option::as_ref));
                named.chain([None]).collect()
            }
        };
        let mut places: BTreeMap<&str, usize> = by_class.iter().flatten().map(|one| (one.phone.as_str(), 0)).collect();
        for (place, index) in places.values_mut().zip(0..) {
            *place = index;
        }
        if places.is_empty() {
            return Err(format!("no class has a phone: {}", KIND.remedy));
        }
        let states = 1 + by_class.iter().flatten().map(|one| one.state).max().unwrap_or(0);
        let column = |one: &PhoneState| places.get(one.phone.as_str()).map(|place| place * states + one.state);
        let columns = by_class.into_iter().map(|one| one.and_then(column)).collect();
        Ok(Self { phones: places.into_keys().map(str::to_owned).collect(), states, columns })
    }

    /// Returns the number of classes.
    pub fn classes(&self) -> usize {
        self.columns.len()
    }

    /// Returns the phones that have a class, ascending.
    pub fn phones(&self) -> &[String] {
        &self.phones
    }

    /// Returns the number of states of each phone.
    pub const fn states(&self) -> usize {
        self.states
    }

    /// Returns the number of a phone.
    pub(super) fn phone(&self, name: &str) -> Option<usize> {
        self.phones.binary_search_by(|phone| phone.as_str().cmp(name)).ok()
    }

    /// Returns the number of the phone of silence.
    pub(super) fn silence(&self) -> Option<usize> {
        self.phone(SILENCE)
    }

    /// Returns `phone · states + state` of each class.
    pub(super) fn columns(&self) -> &[Option<usize>] {
        &self.columns
    }
}

/// Reads lines `CLASS PHONE STATE`.
fn parse_lines(mut lines: NumberedLines<impl std::io::BufRead>) -> Result<Vec<Option<PhoneState>>, InputError> {
    let mut by_label: Vec<Option<Option<PhoneState>>> = Vec::new();
    while let Some(line) = lines.next_line()? {
        let (class, state) = match parse_line(line) {
            Ok(Some(pair)) => pair,
            Ok(None) => continue,
            Err(reason) => return Err(lines.error(reason)),
        };
        if by_label.len() <= class {
            by_label.resize(class + 1, None);
        }
        if by_label[class].replace(state).is_some() {
            return Err(lines.error(format!("there is an earlier line of class {class}: remove one")));
        }
    }
    if by_label.is_empty() {
        return Err(lines.content_error(KIND.remedy));
    }
    Ok(by_label.into_iter().map(Option::flatten).collect())
}

/// Returns the class of a line and its state, if it has one; `None` for a comment.
fn parse_line(line: &str) -> Result<Option<(usize, Option<PhoneState>)>, String> {
    let fields: Vec<&str> = line.split_whitespace().take_while(|field| !field.starts_with('#')).collect();
    let (class, phone, state) = match *fields.as_slice() {
        [] => return Ok(None),
        [class] => (class, None, "0"),
        [class, phone] => (class, Some(phone), "0"),
        [class, phone, state] => (class, Some(phone), state),
        _ => return Err("expected `CLASS PHONE STATE`".to_owned()),
    };
    let class: u16 = class.parse().map_err(|_| format!("class `{class}`: a number from 0 to 65535"))?;
    let state = state.parse().ok().filter(|state| *state < MOST_STATES);
    let state = state.ok_or_else(|| format!("a state must be a number from 0 to {}", MOST_STATES - 1))?;
    Ok(Some((usize::from(class), phone.map(|phone| PhoneState { phone: plain_phone(phone), state }))))
}

/// The characters of a CTC model: class `c` is character `c`, and the last class is the blank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "CharacterList", into = "CharacterList")]
pub struct CharacterSet {
    characters: Vec<char>,
}

/// The file of a character set.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CharacterList {
    /// All characters, ascending.
    characters: String,
}

impl TryFrom<CharacterList> for CharacterSet {
    type Error = String;

    fn try_from(list: CharacterList) -> Result<Self, String> {
        let characters: Vec<char> = list.characters.chars().collect();
        if characters.is_empty() || characters.len() > MOST_CHARACTERS || !characters.is_sorted_by(|a, b| a < b) {
            return Err(format!("`characters` must be 1 to {MOST_CHARACTERS} different characters, ascending"));
        }
        Ok(Self { characters })
    }
}

impl From<CharacterSet> for CharacterList {
    fn from(set: CharacterSet) -> Self {
        Self { characters: set.characters.into_iter().collect() }
    }
}

impl CharacterSet {
    /// Returns the set of the characters of texts.
    ///
    /// # Errors
    /// The problem as text, for no character or too many.
    pub fn from_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let all: std::collections::BTreeSet<char> = texts.into_iter().flat_map(str::chars).collect();
        CharacterList { characters: all.into_iter().collect() }.try_into()
    }

    /// Reads the file that a preparation wrote.
    ///
    /// # Errors
    /// [`InputError`] if it is no such file.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let kind = "character set";
        let text = std::fs::read(path).map_err(|source| InputError::Io { kind, path: path.to_path_buf(), source })?;
        serde_json::from_slice(&text).map_err(|error| InputError::Content {
            kind,
            path: path.to_path_buf(),
            reason: format!("{error}: give the characters.json of `data spell`"),
        })
    }

    /// Returns the number of classes: the characters and the blank.
    pub fn classes(&self) -> usize {
        self.characters.len() + 1
    }

    /// Returns the class of the blank.
    pub fn blank(&self) -> usize {
        self.characters.len()
    }

    /// Returns the character of a class; `None` for the blank.
    pub fn character(&self, class: usize) -> Option<char> {
        self.characters.get(class).copied()
    }

    /// Returns the text of a path of classes, one a frame: repeated classes count once, and blanks are removed.
    pub fn read_path(&self, path: impl IntoIterator<Item = usize>) -> String {
        let mut previous = None;
        let starts = path.into_iter().filter(|class| previous.replace(*class) != Some(*class));
        starts.filter_map(|class| self.character(class)).collect()
    }

    /// Returns the class of a character: as written, or else in lower or in upper case.
    pub fn class(&self, character: char) -> Option<usize> {
        let find = |character: char| self.characters.binary_search(&character).ok();
        let single = |mut cases: &mut dyn Iterator<Item = char>| match (cases.next(), (&mut cases).next()) {
            (Some(character), None) => find(character),
            _ => None,
        };
        find(character)
            .or_else(|| single(&mut character.to_lowercase()))
            .or_else(|| single(&mut character.to_uppercase()))
    }
}

/// The reason why a transcript cannot be the labels of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SpellingError {
    /// The set lacks a character.
    #[error("the character set has no `{0}`")]
    Character(char),
    /// The transcript is empty.
    #[error("its transcript has no character")]
    Empty,
    /// The recording is too short for the transcript.
    #[error("{frames} frames, and its transcript needs {needed}")]
    TooShort {
        /// The frames of the recording.
        frames: usize,
        /// The fewest frames.
        needed: usize,
    },
}

impl CharacterSet {
    /// Returns a CTC path of `frames` classes for a transcript, spread evenly: its characters with a blank between equal
    /// neighbours. CTC training uses the order of the classes and ignores their times.
    ///
    /// # Errors
    /// [`SpellingError`] if the set lacks a character, or the frames are too few.
    pub fn spell(&self, text: &str, frames: usize) -> Result<Vec<u16>, SpellingError> {
        let mut units: Vec<u16> = Vec::new();
        for character in text.chars() {
            let class = self.class(character).ok_or(SpellingError::Character(character))? as u16;
            if units.last() == Some(&class) {
                units.push(self.blank() as u16);
            }
            units.push(class);
        }
        let needed = units.len();
        if needed == 0 {
            return Err(SpellingError::Empty);
        }
        if needed > frames {
            return Err(SpellingError::TooShort { frames, needed });
        }
        Ok((0..frames).map(|frame| units[frame * needed / frames]).collect())
    }
}

/// The classes of a classifier of frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClassLabels {
    /// States of phones, one class a frame.
    Phones(PhoneStates),
    /// Characters and blank, trained with CTC.
    Characters(CharacterSet),
}

impl ClassLabels {
    /// Returns the number of classes.
    pub fn classes(&self) -> usize {
        match self {
            Self::Phones(phones) => phones.classes(),
            Self::Characters(characters) => characters.classes(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::{CharacterSet, PhoneStates, SpellingError};
    use crate::prepare::ClassMap;

    fn read(text: &[u8], classes: Option<&ClassMap>) -> Result<PhoneStates, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        PhoneStates::read(file.path(), classes).map_err(|error| error.to_string())
    }

    #[test]
    fn phone_map_has_the_state_of_each_class() {
        let map = read(b"# PocketSphinx\n0 AA1 0\n1 AA 1\n3 sil 0\n2 B\n4\n", None).unwrap();
        assert_eq!((map.phones(), map.states()), (&["AA".to_owned(), "B".to_owned(), "SIL".to_owned()][..], 2));
        assert_eq!(map.columns(), [Some(0), Some(1), Some(2), Some(4), None]);
        let json = read(br#"{"phone_classes":["AA.1","B-AA+B.1","SIL.0"]}"#, None).unwrap();
        assert_eq!((json.columns(), json.states()), (&[Some(1), Some(1), Some(2), None][..], 2));
        let frequent = ClassMap::Frequent(vec![0, 3]);
        let some = read(b"0 AA 0\n1 AA 1\n3 SIL 1\n2 B 0\n", Some(&frequent)).unwrap();
        assert_eq!((some.columns(), some.phones().len()), (&[Some(0), Some(3), None][..], 2));
    }

    #[test]
    fn invalid_phone_map_names_the_line() {
        assert!(read(b"", None).unwrap_err().contains("is no phone map"));
        assert!(read(b"0 A 0\n0 B 0\n", None).unwrap_err().contains("line 2: there is an earlier line of class 0"));
        assert!(read(b"0 A 8\n", None).unwrap_err().contains("line 1: a state must be a number from 0 to 7"));
        assert!(read(b"x A\n", None).unwrap_err().contains("line 1: class `x`"));
        assert!(read(b"0 A 0 1\n", None).unwrap_err().contains("line 1: expected `CLASS PHONE STATE`"));
        assert!(read(b"7 A 0\n", Some(&ClassMap::Frequent(vec![3]))).unwrap_err().contains("no class has a phone"));
        assert!(read(b"{}", None).unwrap_err().contains("phones.json"));
    }

    #[test]
    fn character_set_has_the_blank_last() {
        let set = CharacterSet::from_texts(["go", "stop go"]).unwrap();
        assert_eq!((set.classes(), set.blank(), set.class(' ')), (7, 6, Some(0)));
        assert_eq!((set.class('G'), set.class('x'), set.character(6)), (set.class('g'), None, None));
        let text = serde_json::to_string(&set).unwrap();
        assert_eq!(text, r#"{"characters":" gopst"}"#);
        assert_eq!(serde_json::from_str::<CharacterSet>(&text).unwrap(), set);
        assert!(serde_json::from_str::<CharacterSet>(r#"{"characters":"ba"}"#).is_err());
        assert!(CharacterSet::from_texts([""]).is_err());
    }

    #[test]
    fn spelling_is_a_path_of_the_transcript() {
        let set = CharacterSet::from_texts(["abz "]).unwrap();
        let [space, a, b, blank] = [0, 1, 2, 4];
        assert_eq!(set.spell("AB a", 8).unwrap(), [a, a, b, b, space, space, a, a]);
        assert_eq!(set.spell("aab", 4).unwrap(), [a, blank, a, b]);
        for text in ["ab a", "aab", "b", "ab  ba"] {
            assert_eq!(set.read_path(set.spell(text, 20).unwrap().into_iter().map(usize::from)), text);
        }
        assert_eq!(set.spell("aab", 3), Err(SpellingError::TooShort { frames: 3, needed: 4 }));
        assert_eq!(set.spell("abc", 9), Err(SpellingError::Character('c')));
        assert_eq!(set.spell("", 9), Err(SpellingError::Empty));
    }
}
