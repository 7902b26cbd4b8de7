#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::*;

const STRICT: TextNormalization = TextNormalization {
    form: UnicodeForm::Nfkc,
    case: CaseRule::Lower,
    punctuation: PunctuationRule::Drop,
    digits: DigitRule::Zero,
    blanks: BlankRule::Single,
};

fn apply(rules: TextNormalization, text: &str) -> String {
    TextNormalizer::new(rules).apply(text).to_owned()
}

#[test]
fn default_rules_ignore_accents_capitals_and_blanks() {
    let rules = TextNormalization::default();
    for (text, same) in [
        ("  Call\tthe  Nurse\r\n", "call the nurse"),
        ("cafe\u{301}", "caf\u{e9}"),
        ("CAF\u{c9}", "caf\u{e9}"),
        ("ΟΔΟΣ", "οδο\u{3c2}"),
        ("\u{feff}İ\u{a0}x\u{202e}", "i\u{307} x"),
        ("where's Dr. Ito?", "where's dr. ito?"),
        ("room 12-b", "room 12-b"),
        ("\u{ff52}oom", "\u{ff52}oom"),
        (" \u{85}\u{2003}\u{7}", ""),
        ("\u{5e9}\u{5dc}\u{5d5}\u{5dd}", "\u{5e9}\u{5dc}\u{5d5}\u{5dd}"),
        ("नम\u{200d}", "नम\u{200d}"),
    ] {
        assert_eq!(apply(rules, text), same);
    }
    assert_eq!(rules.to_string(), "NFC, lower case, single blanks");
}

#[test]
fn each_rule_changes_only_its_own_characters() {
    let only = |change: fn(&mut TextNormalization)| {
        let mut rules = TextNormalization::NONE;
        change(&mut rules);
        rules
    };
    let drop = only(|rules| rules.punctuation = PunctuationRule::Drop);
    let zero = only(|rules| rules.digits = DigitRule::Zero);
    let compatible = only(|rules| rules.form = UnicodeForm::Nfkc);
    let lower = only(|rules| rules.case = CaseRule::Lower);
    let single = only(|rules| rules.blanks = BlankRule::Single);
    for (rules, text, same) in [
        (drop, "don't! (re-check) 'x' $5+1_a", "don't   re-check   x  $5+1 a"),
        (drop, "don\u{2019}t \u{ab}x\u{bb} e\u{301}'a\u{3001}b", "don't  x  e\u{301}'a b"),
        (zero, "bed 12, \u{661}\u{662}", "bed 00, 00"),
        (zero, "a1b22", "a0b00"),
        (compatible, "\u{fb01}t \u{ff11}\u{2460}", "fit 11"),
        (lower, "\u{1e9e} \u{130}", "\u{df} i\u{307}"),
        (single, "\t a \n b ", "a b"),
        (TextNormalization::NONE, " A\u{301}\t1! ", " A\u{301}\t1! "),
    ] {
        assert_eq!(apply(rules, text), same, "{rules}");
    }
    assert_eq!(TextNormalization::NONE.to_string(), "as they came");
    assert_eq!(STRICT.to_string(), "NFKC, lower case, no punctuation, every digit 0, single blanks");
}

#[test]
fn rules_are_recorded_by_name() {
    let json = serde_json::to_value(TextNormalization::default()).unwrap();
    let document = serde_json::json!({"form": "nfc", "case": "lower", "punctuation": "keep", "digits": "keep", "blanks": "single"});
    assert_eq!(json, document);
    assert!(unicode().contains("(forms)"));
}

/// Generates arbitrary rules.
fn rules() -> impl Strategy<Value = TextNormalization> {
    (0..3_u8, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(form, lower, drop, zero, single)| TextNormalization {
            form: [UnicodeForm::Keep, UnicodeForm::Nfc, UnicodeForm::Nfkc][usize::from(form)],
            case: if lower { CaseRule::Lower } else { CaseRule::Keep },
            punctuation: if drop { PunctuationRule::Drop } else { PunctuationRule::Keep },
            digits: if zero { DigitRule::Zero } else { DigitRule::Keep },
            blanks: if single { BlankRule::Single } else { BlankRule::Keep },
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn normalization_is_idempotent(rules in rules(), text in "\\PC{0,12}|[\\x00-\\x7f]{0,24}|\\p{any}{0,8}") {
        let once = apply(rules, &text);
        prop_assert_eq!(apply(rules, &once), once);
    }

    /// Compares both paths: a final non-ASCII character sends the whole text through the general one.
    #[test]
    fn short_way_is_the_long_way(rules in rules(), text in "[\\x00-\\x7f]{0,24}") {
        let long = apply(rules, &format!("{text} \u{e9}"));
        let short = apply(rules, &format!("{text} e"));
        prop_assert_eq!(long.strip_suffix('\u{e9}').unwrap(), short.strip_suffix('e').unwrap());
    }

    #[test]
    fn what_it_makes_of_a_text_does_not_depend_on_others(rules in rules(), texts in proptest::collection::vec("\\PC{0,10}", 1..6)) {
        let mut busy = TextNormalizer::new(rules);
        for text in &texts {
            prop_assert_eq!(busy.apply(text), apply(rules, text));
        }
    }
}
