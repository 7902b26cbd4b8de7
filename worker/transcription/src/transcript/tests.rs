#![expect(clippy::unwrap_used, reason = "a test may fail")]

use proptest::prelude::*;

use super::{Format, OfflineReason, Transcript, TranscriptPart, WordSource, json};
use crate::piece::{Piece, Recognition, TimedWord};

fn recognition(words: &[(&str, f64, f64)]) -> Recognition {
    let word = |(text, start, end): &(&str, f64, f64)| TimedWord {
        text: (*text).to_owned(),
        start: *start,
        end: *end,
        confidence: None,
    };
    Recognition { words: words.iter().map(word).collect() }
}

fn part(id: u32, stays: Option<OfflineReason>, offline: &str) -> TranscriptPart {
    let begin = f64::from(id) * 2.0;
    TranscriptPart {
        piece: Piece { id, samples: u64::from(id) * 32_000..u64::from(id) * 32_000 + 16_000 },
        offline: recognition(&[(offline, begin + 0.25, begin + 0.75)]),
        stays,
    }
}

/// Three pieces, of 1 s each, 1 s apart: one sent and answered, one kept, one sent and not answered.
fn three() -> Transcript {
    let parts = [part(0, None, "won"), part(1, Some(OfflineReason::Sensitive), "smith"), part(2, None, "three")];
    let answers = [(4, 7, recognition(&[("One", 0.25, 0.5), ("<more>", 0.5, 9.0)]))];
    Transcript::assemble(&parts, answers, |_, place| (place == 7).then_some(0))
}

#[test]
fn words_have_recording_times_and_sources() {
    let words: Vec<_> =
        three().words().iter().map(|word| (word.text.clone(), word.start, word.end, word.source)).collect();
    assert_eq!(
        words,
        [
            ("One".to_owned(), 0.25, 0.5, WordSource::Provider(4)),
            ("<more>".to_owned(), 0.5, 1.0, WordSource::Provider(4)),
            ("smith".to_owned(), 2.25, 2.75, WordSource::Offline(OfflineReason::Sensitive)),
            ("three".to_owned(), 4.25, 4.75, WordSource::Offline(OfflineReason::Unanswered)),
        ]
    );
}

#[test]
fn formats_mark_words_of_the_own_recognizer() {
    let transcript = three();
    assert_eq!(transcript.plain(), "One <more> smith three");
    assert_eq!(transcript.write(Format::Text), "One <more> [smith three]\n");
    assert_eq!(
        transcript.write(Format::Srt),
        "1\n00:00:00,250 --> 00:00:01,000\nOne <more>\n\n2\n00:00:02,250 --> 00:00:02,750\n[smith]\n\n\
         3\n00:00:04,250 --> 00:00:04,750\n[three]\n\n"
    );
    assert_eq!(
        transcript.write(Format::Vtt),
        "WEBVTT\n\n00:00:00.250 --> 00:00:01.000\nOne &lt;more&gt;\n\n00:00:02.250 --> 00:00:02.750\n\
         <c.sensitive>smith</c>\n\n00:00:04.250 --> 00:00:04.750\n<c.offline>three</c>\n\n"
    );
    let json: serde_json::Value = serde_json::from_str(&transcript.write(Format::Json)).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(
        json["words"][0],
        serde_json::json!({
            "word": "One", "start": 0.25, "end": 0.5, "source": "provider", "provider": 4, "sensitive": false
        })
    );
    assert_eq!(
        json["words"][2],
        serde_json::json!({
            "word": "smith", "start": 2.25, "end": 2.75, "source": "offline", "why": "sensitive", "sensitive": true
        })
    );
    assert_eq!(json["words"][3]["why"], "unanswered");
}

#[test]
fn long_silence_begins_a_new_line() {
    let mut late = part(3, None, "late");
    late.piece.samples = 160_000..176_000;
    late.offline = recognition(&[("late", 10.0, 10.5)]);
    let transcript = Transcript::assemble(&[part(0, None, "early"), late], [], |_, _| None);
    assert_eq!(transcript.write(Format::Text), "[early]\n[late]\n");
    let nothing = Transcript::assemble(&[], [], |_, _| None);
    assert_eq!((nothing.write(Format::Text).as_str(), nothing.write(Format::Srt).as_str()), ("", ""));
}

#[test]
fn captions_are_short_and_do_not_overlap() {
    let words: Vec<_> = (0..400).map(|n| (f64::from(n) * 0.2, f64::from(n) * 0.2 + 0.5)).collect();
    let words: Vec<_> = words.iter().map(|(start, end)| ("seventeen", *start, *end)).collect();
    let whole = TranscriptPart {
        piece: Piece { id: 0, samples: 0..1_600_000 },
        offline: recognition(&words),
        stays: Some(OfflineReason::Crowded),
    };
    let file = Transcript::assemble(&[whole], [], |_, _| None).write(Format::Srt);
    let mut over = String::new();
    let captions: Vec<&str> = file.split_terminator("\n\n").collect();
    for caption in &captions {
        let lines: Vec<&str> = caption.lines().collect();
        let (start, end) = lines[1].split_once(" --> ").unwrap();
        assert!(over.as_str() <= start && start < end, "{caption}");
        assert!(lines.len() <= 4 && lines[2..].iter().all(|line| line.len() <= 42 + 2), "{caption}");
        over = end.to_owned();
    }
    assert_eq!(file.matches("seventeen").count(), 400, "no word is lost");
}

#[test]
fn words_cannot_imitate_caption_times() {
    let arrow = TranscriptPart { offline: recognition(&[("-->", 0.1, 0.2)]), ..part(0, None, "") };
    let transcript = Transcript::assemble(&[arrow], [], |_, _| None);
    assert_eq!(transcript.write(Format::Srt).matches("-->").count(), 1);
    assert_eq!(transcript.write(Format::Vtt).matches("-->").count(), 1);
}

/// Pieces, of which some stay and some are not answered, with their answers and those of dummies, in any order.
#[derive(Debug, Clone)]
struct TestTranscript {
    parts: Vec<TranscriptPart>,
    /// Provider, piece (`None` for a dummy), words; in the order of the answers.
    answers: Vec<(u32, Option<u32>, Recognition)>,
}

fn recording() -> impl Strategy<Value = TestTranscript> {
    let word = "[a-z]{1,6}";
    let piece = (word, prop::option::weighted(0.8, (0_u32..3, word)), prop::bool::weighted(0.2));
    let dummies = prop::collection::vec((0_u32..3, word), 0..40);
    (prop::collection::vec(piece, 0..20), dummies, any::<u64>()).prop_map(|(pieces, dummies, order)| {
        let mut parts = Vec::new();
        let mut answers = Vec::new();
        for (id, (offline, answer, stays)) in (0_u32..).zip(pieces) {
            parts.push(part(id, stays.then_some(OfflineReason::Sensitive), &offline));
            if let Some((provider, text)) = answer.filter(|_| !stays) {
                answers.push((provider, Some(id), recognition(&[(&text, 0.1, 0.4)])));
            }
        }
        answers.extend(dummies.iter().map(|(provider, text)| (*provider, None, recognition(&[(text, 0.1, 0.4)]))));
        // The order differs between cases.
        answers.sort_by_cached_key(|(provider, piece, _)| {
            (u64::from(*provider) << 32 | u64::from(piece.unwrap_or(u32::MAX))).wrapping_mul(order | 1).rotate_left(17)
        });
        TestTranscript { parts, answers }
    })
}

/// Returns the transcript of `answers`; places are numbered in the order of the list.
fn transcript(parts: &[TranscriptPart], answers: &[(u32, Option<u32>, Recognition)]) -> Transcript {
    let numbered =
        (0_u32..).zip(answers).map(|(place, (provider, _, recognition))| (*provider, place, recognition.clone()));
    Transcript::assemble(parts, numbered, |_, place| answers[place as usize].1)
}

#[test]
fn damaged_documents_are_no_transcripts() {
    let read = |word: &str| json::read(&format!(r#"{{"version": 1, "words": [{word}]}}"#));
    let good = r#"{"word": "a", "start": 0.0, "end": 0.5, "source": "provider", "provider": 1, "sensitive": false}"#;
    assert_eq!(read(good).unwrap()[0].source, WordSource::Provider(1));
    for bad in
        [good.replace("0.5", "-0.5"), good.replace("provider\": 1", "why\": \"crowded\""), good.replace("0.0", "0.6")]
    {
        assert!(matches!(read(&bad), Err(json::TranscriptError::Word(0))), "{bad}");
    }
    assert!(matches!(json::read(r#"{"version": 2, "words": []}"#), Err(json::TranscriptError::Version(2))));
    assert!(matches!(read("1"), Err(json::TranscriptError::Format(_))));
}

proptest! {
    #[test]
    fn written_documents_are_read_back(recording in recording()) {
        let TestTranscript { parts, answers } = recording;
        let transcript = transcript(&parts, &answers);
        let words = json::read(&transcript.write(Format::Json)).unwrap();
        prop_assert_eq!(words.len(), transcript.words().len());
        for (read, written) in words.iter().zip(transcript.words()) {
            prop_assert_eq!((&read.text, read.source, read.confidence), (&written.text, written.source, written.confidence));
            prop_assert!((read.start - written.start).abs() < 0.001 && (read.end - written.end).abs() < 0.001);
        }
    }

    #[test]
    fn dummies_and_answer_order_do_not_change_transcripts(recording in recording(), turn in any::<prop::sample::Index>()) {
        let TestTranscript { parts, answers } = recording;
        let with = transcript(&parts, &answers);
        let true_ones: Vec<_> = answers.iter().filter(|(_, piece, _)| piece.is_some()).cloned().collect();
        let without = transcript(&parts, &true_ones);
        let mut turned = answers.clone();
        turned.reverse();
        if !turned.is_empty() {
            let middle = turn.index(turned.len());
            turned.rotate_left(middle);
        }
        let mut parts_turned = parts.clone();
        parts_turned.reverse();
        let in_other_order = transcript(&parts_turned, &turned);
        for format in Format::ALL {
            prop_assert_eq!(with.write(format), without.write(format));
            prop_assert_eq!(with.write(format), in_other_order.write(format));
        }
    }

    #[test]
    fn pieces_have_their_answer_or_offline_words(recording in recording()) {
        let TestTranscript { parts, answers } = recording;
        let transcript = transcript(&parts, &answers);
        prop_assert_eq!(transcript.words().len(), parts.len());
        for (part, word) in parts.iter().zip(transcript.words()) {
            let answer = answers.iter().find(|(_, piece, _)| *piece == Some(part.piece.id));
            let (text, source) = match (part.stays, answer) {
                (Some(why), _) => (part.offline.text(), WordSource::Offline(why)),
                (None, Some((provider, _, recognition))) => (recognition.text(), WordSource::Provider(*provider)),
                (None, None) => (part.offline.text(), WordSource::Offline(OfflineReason::Unanswered)),
            };
            prop_assert_eq!((&word.text, word.source), (&text, source));
            prop_assert!(part.piece.start() <= word.start && word.end <= part.piece.end());
        }
    }
}
