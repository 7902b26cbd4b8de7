//! Hostile language models, lexicons and phone maps: any answer but a panic, and probabilities that are probabilities.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use undertone_fuzz::Target;

use super::labels::PhoneStates;
use super::{Lexicon, NgramModel};

#[test]
fn no_language_model_breaks_its_reader() {
    let seed = "\\data\\\nngram 1=4\nngram 2=2\n\\1-grams:\n-99 <s> -0.3\n-0.9 </s>\n-0.5 a -0.2\n-0.6 b\n\\2-grams:\n\
                -0.2 <s> a\n-0.3 a b\n\\end\\\n";
    let words = ["\\2-grams:", "\\end\\", "-99", "inf", "nan", "ngram 2=2", "<s>", "\\data\\"];
    Target::new("worker.arpa", 800).seeds([seed]).words(&words).run(|bytes| {
        let Ok(model) = NgramModel::parse(bytes, Path::new("a.arpa")) else { return };
        let mut state = model.start();
        let mut texts: Vec<&str> = model.vocabulary().collect();
        texts.sort_unstable();
        for text in texts {
            let (score, next) = model.advance(state, model.word(text).unwrap());
            assert!(!score.is_nan());
            state = next;
        }
        assert!(!model.finish(state).is_nan());
    });
}

#[test]
fn no_lexicon_or_phone_map_breaks_its_reader() {
    let seed = "a AH0\na(2) EY1 # comment\n;;; comment\nword W ER1 D\n";
    Target::new("worker.lexicon", 500).seeds([seed]).words(&["(2)", ";;;", "#", " "]).run(|bytes| {
        let Ok(lexicon) = Lexicon::parse(bytes, Path::new("a.dict")) else { return };
        assert!(lexicon.pronunciations().iter().all(|one| !one.word.is_empty()));
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    let seeds = ["0 SIL 0\n1 AA1 1\n2 B\n3\n", "{\"phone_classes\":[\"A+B.0\",\"SIL.0\"]}"];
    Target::new("worker.phone_map", 500).seeds(seeds).words(&["65535", " 7", "SIL", "BMDF"]).run(|bytes| {
        std::fs::write(file.path(), bytes).unwrap();
        let Ok(map) = PhoneStates::read(file.path(), None) else { return };
        let columns = map.phones().len() * map.states();
        assert!(map.columns().iter().flatten().all(|column| *column < columns) && map.classes() <= 65_536);
    });
}
