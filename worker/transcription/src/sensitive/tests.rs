#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

/// Words of 0.3 s, one every 0.4 s.
fn words(text: &str) -> Vec<TimedWord> {
    let word = |(at, text): (usize, &str)| {
        let start = at as f64 * 0.4;
        TimedWord { text: text.to_owned(), start, end: start + 0.3, confidence: Some(0.9) }
    };
    text.split(' ').enumerate().map(word).collect()
}

fn finder(code: &str, settings: &SensitiveSettings) -> SensitiveFinder {
    SensitiveFinder::new(SensitiveLexicon::bundled(code).unwrap(), settings).unwrap()
}

/// Returns the text with all sensitive words replaced by underscores.
fn hidden(finder: &SensitiveFinder, text: &str) -> String {
    let words = words(text);
    let hits = finder.find(&words);
    let of = |at: usize| if hits.iter().any(|hit| hit.words.contains(&at)) { "_" } else { words[at].text.as_str() };
    (0..words.len()).map(of).collect::<Vec<_>>().join(" ")
}

#[test]
fn numbers_names_and_places_stay_and_the_rest_leaves() {
    let finder = finder("en", &SensitiveSettings::default());
    for (text, expected) in [
        ("the patient is john smith and has two hundred fifty dollars", "the patient is _ _ and has _ _ _ _"),
        ("we met in san francisco on the third", "we met in _ _ on the _"),
        ("doctor brown was late", "_ _ was late"),
        ("call five oh two and nine", "call _ _ _ _ _"),
        ("they went to baker street again", "they went to _ _ again"),
        ("my name is xavier quill by the way", "my _ _ _ _ by the way"),
        ("it is the mary hawthorne matter", "it is the _ _ matter"),
        ("the smiths' house, Hoffman's dog", "the _ house, _ dog"),
        ("the meeting was about the remote control", "the meeting was about the remote control"),
        ("she spells it q. u. i. l. l. for you", "she spells it _ _ _ _ _ for you"),
        ("born in the summer of love", "_ _ _ _ of love"),
        ("chapter forty-two and room 7b", "chapter _ _ room _"),
    ] {
        let hidden = hidden(&finder, text);
        assert_eq!(hidden, expected, "{text}");
    }
}

#[test]
fn name_extends_to_next_word_but_not_function_word() {
    let finder = finder("en", &SensitiveSettings::default());
    assert_eq!(hidden(&finder, "then robert zyxwick left"), "then _ _ left");
    assert_eq!(hidden(&finder, "then robert was there"), "then _ was there");
    assert_eq!(hidden(&finder, "doctor and nurse"), "doctor and nurse", "a title without a name is none");
}

#[test]
fn doubtful_words_stay_unless_disabled() {
    let text = "one may mark the bill";
    let strict = hidden(&finder("en", &SensitiveSettings::default()), text);
    assert_eq!(strict, "_ _ _ the _");
    let lenient = SensitiveSettings { doubtful: false, ..SensitiveSettings::default() };
    assert_eq!(hidden(&finder("en", &lenient), text), text);
    assert_eq!(hidden(&finder("en", &lenient), "two for robert"), "_ for _", "the certain ones stay all the same");
}

#[test]
fn user_list_and_patterns_are_found() {
    let list = vec!["Project Bluebird".to_owned(), "haemo*".to_owned()];
    let settings =
        SensitiveSettings { list, patterns: vec![r"\bcase [a-z]+".to_owned()], ..SensitiveSettings::default() };
    let finder = finder("en", &settings);
    assert_eq!(hidden(&finder, "the project bluebird is a project"), "the _ _ is a project");
    assert_eq!(hidden(&finder, "his haemoglobin in case sigma"), "his _ in _ _");
    let kinds: Vec<SensitiveKind> = finder.find(&words("haemoglobin case sigma")).iter().map(|hit| hit.kind).collect();
    assert_eq!(kinds, [SensitiveKind::Listed, SensitiveKind::Pattern]);
}

#[test]
fn german_has_its_own_lists() {
    let finder = finder("de", &SensitiveSettings::default());
    for (text, expected) in [
        ("herr müller wohnt in münchen", "_ _ _ in _"),
        ("sie zahlt einundzwanzig euro", "sie zahlt _ _"),
        ("die sitzung war lang", "die sitzung war lang"),
        ("in der goethestraße", "in der _"),
    ] {
        assert_eq!(hidden(&finder, text), expected);
    }
}

#[test]
fn touched_pieces_and_pieces_without_words_stay() {
    let words = words("now robert zyxwick goes there too");
    let seconds = |start: f64, end: f64| (start * 16_000.0) as u64..(end * 16_000.0) as u64;
    // The first two share the name; the fourth has words, none of them sensitive; the last has none.
    let ranges = [seconds(0.0, 0.75), seconds(0.75, 1.12), seconds(1.17, 1.5), seconds(1.5, 2.4), seconds(3.0, 3.5)];
    let pieces: Vec<Piece> = (0..).zip(ranges).map(|(id, samples)| Piece { id, samples }).collect();
    let hits = finder("en", &SensitiveSettings::default()).find(&words);
    let local_pieces = select_local_pieces(&pieces, &words, &hits);
    let expected = [(0, SensitiveKind::Name), (1, SensitiveKind::Name), (4, SensitiveKind::Unheard)];
    assert_eq!(local_pieces, expected.into_iter().map(|(id, kind)| (id, BTreeSet::from([kind]))).collect());
}

#[test]
fn boundary_in_sensitive_word_keeps_both_pieces() {
    let words = words("we saw robert was there");
    // "Robert" is from 0.8 to 1.1 s, the cut 0.02 s later.
    let pieces = [Piece { id: 0, samples: 0..17_920 }, Piece { id: 1, samples: 17_920..32_000 }];
    let hits = finder("en", &SensitiveSettings::default()).find(&words);
    assert_eq!(select_local_pieces(&pieces, &words, &hits).keys().copied().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn words_of_low_confidence_stay_if_configured() {
    let mut words = words("the weather is fine");
    words[1].confidence = Some(0.2);
    words[3].confidence = None;
    assert!(finder("en", &SensitiveSettings::default()).find(&words).is_empty());
    let unsure = SensitiveSettings { least_confidence: 0.5, ..SensitiveSettings::default() };
    assert_eq!(finder("en", &unsure).find(&words), [SensitiveHit { words: 1..2, kind: SensitiveKind::Unsure }]);
}

#[test]
fn invalid_settings_are_refused_without_repeating_them() {
    let usual = SensitiveSettings::default;
    let long = "secret ".repeat(200);
    for (settings, expected) in [
        (
            SensitiveSettings { list: vec!["a".to_owned(), " - ".to_owned()], ..usual() },
            "list: entry 2: write one or more words",
        ),
        (SensitiveSettings { list: vec![long.clone()], ..usual() }, "list: entry 1"),
        (
            SensitiveSettings { list: vec!["a".to_owned(); 10_001], ..usual() },
            "list: 10001 entries: give at most 10000",
        ),
        (
            SensitiveSettings { patterns: vec!["a".to_owned(), "(secret".to_owned()], ..usual() },
            "patterns: pattern 2 is no regular",
        ),
        (
            SensitiveSettings { patterns: vec!["(secret{1000}){1000}".to_owned()], ..usual() },
            "patterns: pattern 1 is too large",
        ),
        (SensitiveSettings { patterns: vec![long], ..usual() }, "patterns: pattern 1 has 1400 bytes"),
        (
            SensitiveSettings { patterns: vec!["a".to_owned(); 101], ..usual() },
            "patterns: 101 patterns: give at most 100",
        ),
        (SensitiveSettings { least_confidence: 1.5, ..usual() }, "least_confidence: 1.5: choose it between 0 and 1"),
    ] {
        let refused =
            SensitiveFinder::new(SensitiveLexicon::bundled("en").unwrap(), &settings).err().unwrap().to_string();
        assert!(refused.starts_with(expected) && !refused.contains("secret"), "{refused}");
    }
    let unknown = SensitiveLexicon::bundled("tlh").err().unwrap().to_string();
    assert!(unknown.contains("choose de or en"), "{unknown}");
    assert!(SensitiveLexicon::parse("language = \"xx\"").err().unwrap().to_string().contains("missing field"));
}

#[test]
fn no_words_have_no_sensitive_pieces() {
    let finder = finder("en", &SensitiveSettings::default());
    assert!(finder.find(&[]).is_empty());
    assert!(select_local_pieces(&[], &[], &[]).is_empty());
    assert_eq!(SensitiveLexicon::bundled("de").unwrap().code(), "de");
}

/// Needs the shared documents (`UNDERTONE_DATA`); passes without them.
#[test]
fn numbers_of_real_calls_stay_and_meetings_mostly_leave() {
    let Some(docs) = undertone_worker_site::testing::fixture::data("docs") else { return };
    let finder = finder("en", &SensitiveSettings::default());
    let read_words = |path: &std::path::Path| {
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.lines().map(|line| line.split_once(": ").map_or(line, |(_, speech)| speech));
        words(&lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" "))
    };
    let stay = |words: &[TimedWord]| {
        let mut stay = vec![false; words.len()];
        for hit in finder.find(words) {
            stay[hit.words].fill(true);
        }
        stay
    };
    let files = |folder: &str, extension: &str| {
        let entries = std::fs::read_dir(docs.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|actual| actual == extension)).collect::<Vec<_>>()
    };
    let mut numbers = 0;
    for path in files("earnings21", "tsv") {
        // `<call>.entities.tsv` has the position of each tagged word in `<call>.txt`.
        let stay = stay(&read_words(&path.with_extension("").with_extension("txt")));
        for line in std::fs::read_to_string(&path).unwrap().lines().skip(1) {
            let fields: Vec<&str> = line.split('\t').collect();
            if ["CARDINAL", "MONEY", "ORDINAL", "PERCENT", "YEAR"].contains(&fields[2]) {
                assert!(stay[fields[0].parse::<usize>().unwrap()], "{line} of a call does not stay");
                numbers += 1;
            }
        }
    }
    assert!(numbers > 400, "only {numbers} numbers are tagged");
    let meetings: Vec<bool> = files("ami_meetings", "txt").iter().flat_map(|path| stay(&read_words(path))).collect();
    let share = meetings.iter().filter(|stays| **stays).count() as f64 / meetings.len() as f64;
    assert!(share < 0.06, "{share} of the words of meetings would stay");
}

#[test]
fn list_and_pattern_limits_are_enforced() {
    let field = |settings: &SensitiveSettings| {
        SensitiveFinder::new(SensitiveLexicon::bundled("en").unwrap(), settings).err().map(|error| error.field)
    };
    let listed =
        |entry: String, many: usize| SensitiveSettings { list: vec![entry; many], ..SensitiveSettings::default() };
    let patterned =
        |many: usize| SensitiveSettings { patterns: vec!["quill".to_owned(); many], ..SensitiveSettings::default() };
    assert_eq!(field(&listed("quill".to_owned(), MOST_LISTED)), None);
    assert_eq!(field(&listed("quill".to_owned(), MOST_LISTED + 1)), Some("list"));
    assert_eq!(field(&listed("q".repeat(LONGEST), 1)), None);
    assert_eq!(field(&listed("q".repeat(LONGEST + 1), 1)), Some("list"));
    assert_eq!(field(&patterned(MOST_PATTERNS)), None);
    assert_eq!(field(&patterned(MOST_PATTERNS + 1)), Some("patterns"));
}

#[test]
fn lexicon_over_its_limit_is_refused() {
    let file = include_str!("en.toml");
    // Comments up to the last byte.
    let of = |bytes: usize| SensitiveLexicon::parse(&format!("{file}\n{}", "#".repeat(bytes - file.len() - 1)));
    assert!(of(language::LARGEST).is_ok());
    let refused = of(language::LARGEST + 1).err().unwrap();
    assert!(refused.reason.contains("at most 4194304"), "{refused}");
}

#[test]
fn compiled_pattern_size_is_bounded() {
    let field = |pattern: &str| {
        let settings = SensitiveSettings { patterns: vec![pattern.to_owned()], ..SensitiveSettings::default() };
        SensitiveFinder::new(SensitiveLexicon::bundled("en").unwrap(), &settings).err().map(|error| error.to_string())
    };
    assert_eq!(field("[a-z]{1,20}"), None);
    assert!(field("(\\w{1,100}){1,100}").is_some_and(|message| message.contains("more than 1048576 bytes")));
}
