#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::alignment::MOST_FRAMES;
use super::lines::LONGEST_REASON;
use super::*;
use undertone_worker_site::testing::fixture;

fn one(line: &str) -> Result<Alignment, String> {
    let mut alignments = parse(line.as_bytes()).unwrap();
    match alignments.bad_lines.pop() {
        Some(bad) => Err(bad.reason),
        None => Ok(alignments.by_id.pop_first().unwrap().1),
    }
}

#[test]
fn runs_become_one_label_a_frame() {
    let alignment = one(r#"{"u": "a", "frames": 6, "runs": [[7, 1], [9, 3], [7, 2]]}"#).unwrap();
    assert_eq!(alignment.labels(6, 0).unwrap(), [7, 9, 9, 9, 7, 7]);
    assert_eq!(alignment.runs(), [(7, 1), (9, 3), (7, 2)]);
}

#[test]
fn a_few_frames_are_reconciled_and_more_is_a_mismatch() {
    let alignment = one(r#"{"u": "a", "frames": 20, "runs": [[1, 10], [2, 10]]}"#).unwrap();
    assert_eq!(alignment.labels(18, 2).unwrap().len(), 18, "labels are cut to the features");
    assert_eq!(alignment.labels(22, 2).unwrap().len(), 20, "features are left over");
    assert_eq!(alignment.labels(17, 2), Err(LengthMismatch { labels: 20, features: 17, tolerance: 2 }));
    assert_eq!(alignment.labels(23, 2), Err(LengthMismatch { labels: 20, features: 23, tolerance: 2 }));
}

#[test]
fn every_kind_of_bad_line_is_named_and_the_rest_is_read() {
    let bad = [
        (r#"{"u": "a", "frames": 2, "runs": [[1, 1]]}"#, "add up to 1"),
        (r#"{"u": "a", "frames": 1, "runs": [[65536, 1]]}"#, "at most 65535"),
        (r#"{"u": "a", "frames": 1, "runs": [[-1, 1]]}"#, "invalid value"),
        (r#"{"u": "a", "frames": 1, "runs": [[1, 1], [2, 0]]}"#, "a run of 0"),
        (r#"{"u": "a", "frames": 0, "runs": []}"#, "0 frames"),
        (r#"{"u": "a", "frames": 18446744073709551615, "runs": [[1, 18446744073709551615]]}"#, "between 1 and"),
        (r#"{"u": "", "frames": 1, "runs": [[1, 1]]}"#, "id is empty"),
        (r#"{"u": "a", "runs": [[1, 1]]}"#, "missing field"),
        (r#"{"u": "a", "frames": 1, "runs": [[1, 1]]"#, "EOF"),
        ("\u{0}", "expected value"),
        (r#"{"u": "good", "frames": 1, "runs": [[3, 1]]}"#, "earlier line"),
    ];
    let mut text = String::from("{\"u\": \"good\", \"frames\": 1, \"runs\": [[2, 1]]}\n\n");
    for (line, _) in bad {
        text.push_str(line);
        text.push('\n');
    }
    let alignments = parse(text.as_bytes()).unwrap();
    assert_eq!(alignments.by_id.len(), 1);
    assert_eq!(alignments.by_id["good"].runs(), [(2, 1)]);
    assert_eq!(alignments.bad_lines.len(), bad.len());
    for (found, (line, (_, expected))) in alignments.bad_lines.iter().zip(bad.iter().enumerate()) {
        assert_eq!(found.line, line + 3);
        assert!(found.reason.contains(expected), "{} is not about {expected}", found.reason);
    }
}

#[test]
fn an_endless_line_is_passed_over_without_being_kept() {
    let mut text = vec![b'x'; lines::LONGEST_LINE + 5];
    text.extend(b"\n{\"u\": \"a\", \"frames\": 1, \"runs\": [[2, 1]]}");
    let alignments = parse(text.as_slice()).unwrap();
    assert_eq!((alignments.by_id.len(), alignments.bad_lines.len()), (1, 1));
    assert!(alignments.bad_lines[0].reason.contains("longer than"));
}

#[test]
fn a_file_without_one_good_line_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    assert!(matches!(read(&path, &LabelOptions::default()), Err(AlignError::Io { .. })));
    std::fs::write(&path, "").unwrap();
    assert!(read(&path, &LabelOptions::default()).unwrap_err().to_string().contains("empty"));
    std::fs::write(&path, "\n[]\n").unwrap();
    assert!(read(&path, &LabelOptions::default()).unwrap_err().to_string().contains("line 2"));
}

#[test]
fn real_alignments_are_read_whole() {
    let Some(path) = fixture::data("speech/alignments/pocketsphinx-en-us-senones.jsonl") else { return };
    let alignments = read(&path, &LabelOptions::default()).unwrap().alignments;
    assert!(alignments.by_id.len() >= 40, "{} alignments", alignments.by_id.len());
    assert_eq!(alignments.bad_lines.len(), 0);
    assert_eq!(alignments.by_id["fash-1-0251"].labels(98, TOLERANCE).unwrap().len(), 98);
}

/// Reads a file, or the files of a folder.
fn read_file(name: &str, content: impl AsRef<[u8]>, reading: &LabelOptions) -> Result<LabelFile, AlignError> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(name), content).unwrap();
    let path = if name.ends_with("TextGrid") { dir.path().to_path_buf() } else { dir.path().join(name) };
    read(&path, reading)
}

fn phones(least: u64) -> LabelOptions {
    LabelOptions { step: 1, phones: Some(PhoneTying::Least(least)) }
}

/// Returns the names of an utterance's classes, one per run.
fn names(labels: &LabelFile, id: &str) -> Vec<(String, u32)> {
    let map = labels.phones.as_ref().unwrap();
    let name = |(class, frames): &(u16, u32)| (map.name(*class).unwrap().to_owned(), *frames);
    labels.alignments.by_id[id].runs().iter().map(name).collect()
}

#[test]
fn a_kaldi_archive_has_one_class_a_frame() {
    let labels = read_file("ali.txt", "anna-1 4 4 9 9 9\nben-1 7\n", &LabelOptions::default()).unwrap().alignments;
    assert_eq!(labels.by_id["anna-1"].runs(), [(4, 2), (9, 3)]);
    assert_eq!(labels.by_id["ben-1"].frames(), 1);
    let subsampled = LabelOptions { step: 3, phones: None };
    let labels = read_file("ali.txt", "anna-1 4 4 9\n", &subsampled).unwrap().alignments;
    assert_eq!((labels.by_id["anna-1"].runs(), labels.by_id["anna-1"].frames()), (&[(4, 6), (9, 3)][..], 9));
}

#[test]
fn bad_lines_of_a_kaldi_archive_are_named() {
    let text = "a 1 2\nb 1 x\nc 70000\nd\na 3\n";
    let labels = read_file("ali.txt", text, &LabelOptions::default()).unwrap().alignments;
    assert_eq!(labels.by_id.len(), 1);
    let reasons: Vec<_> =
        labels.bad_lines.iter().map(|bad| (bad.line, bad.reason.split(' ').next().unwrap())).collect();
    assert_eq!(reasons, [(2, "\"x\""), (3, "\"70000\""), (4, "0"), (5, "there")]);
}

#[test]
fn a_reason_does_not_repeat_a_line_of_any_length() {
    let text = format!("a 1 2\nb {}\n", "x".repeat(1 << 20));
    let labels = read_file("ali.txt", text, &LabelOptions::default()).unwrap().alignments;
    assert_eq!(labels.bad_lines[0].reason.chars().count(), LONGEST_REASON + 1, "cut, and said to be");
    let short = BadLine::new(1, "é".repeat(LONGEST_REASON));
    assert_eq!(short.reason.chars().count(), LONGEST_REASON);
}

/// Thirty bytes may state a phone as long as a day: reading time depends on the file's size only.
#[test]
fn a_phone_of_a_day_costs_no_more_than_a_short_one() {
    let lines: Vec<String> = (0..2_000).map(|u| format!("u{u} 1 0 86400 AA\n")).collect();
    let labels = read_file("u.ctm", lines.concat(), &phones(1)).unwrap().alignments;
    assert_eq!(labels.by_id.len(), 2_000);
    assert_eq!(labels.by_id["u7"].runs().iter().map(|(_, frames)| *frames).sum::<u32>(), 8_640_000);
}

#[test]
fn an_utterance_has_a_day_of_frames_and_no_more() {
    let of = |frames: u64| one(&format!(r#"{{"u": "a", "frames": {frames}, "runs": [[1, {}], [2, 1]]}}"#, frames - 1));
    assert_eq!(of(MOST_FRAMES).unwrap().frames() as u64, MOST_FRAMES);
    let refused = of(MOST_FRAMES + 1).unwrap_err();
    assert!(refused.contains("between 1 and 8640000"), "{refused}");
}

#[test]
fn one_bad_line_at_the_beginning_does_not_decide_what_a_file_is() {
    let labels = read_file("ali.txt", "silent-1\nanna-1 4 4 9\n", &LabelOptions::default()).unwrap().alignments;
    assert_eq!((labels.by_id["anna-1"].frames(), labels.bad_lines[0].line), (3, 1));
    let labels = read_file("u.ctm", "header\n;; a comment\nu A 0.00 0.04 T\n", &phones(1)).unwrap().alignments;
    assert_eq!((labels.by_id["u"].frames(), labels.bad_lines[0].line), (4, 1));
}

#[test]
fn packed_or_binary_labels_are_refused_with_the_remedy() {
    let refused = |content: &[u8]| read_file("ali.1.gz", content, &LabelOptions::default()).unwrap_err().to_string();
    assert!(refused(&[0x1F, 0x8B, 8, 0]).contains("gunzip"));
    assert!(refused(b"anna-1 \0B\x04\x02\0\0\0").contains("ark,t:"));
}

#[test]
fn phone_frames_split_into_three_states() {
    let text = "u A 0.00 0.04 sil\nu A 0.04 0.03 AA1_B\nu A 0.07 0.01 T_E\n";
    let labels = read_file("u.ctm", text, &phones(u64::MAX)).unwrap();
    let expected = [("SIL.0", 1), ("SIL.1", 2), ("SIL.2", 1), ("AA.0", 1), ("AA.1", 1), ("AA.2", 1), ("T.1", 1)];
    assert_eq!(names(&labels, "u"), expected.map(|(name, frames)| (name.to_owned(), frames)));
    assert_eq!(labels.alignments.by_id["u"].frames(), 8);
}

#[test]
fn gaps_are_silence_and_overlaps_are_refused() {
    let text = "u A 0.02 0.03 T\nu A 0.08 0.03 T\nv A 0.0 0.1 T\nv A 0.05 0.1 T\n";
    let labels = read_file("u.ctm", text, &phones(u64::MAX)).unwrap();
    let silent: u32 = names(&labels, "u").iter().filter(|(name, _)| name.starts_with("SIL")).map(|(_, n)| n).sum();
    assert_eq!((silent, labels.alignments.by_id["u"].frames()), (5, 11));
    assert!(!labels.alignments.by_id.contains_key("v"));
    assert!(labels.alignments.bad_lines[0].reason.contains("overlap"), "{:?}", labels.alignments.bad_lines);
}

#[test]
fn frequent_context_keeps_its_class() {
    // T after AA four times and T after IY once, always before silence, with three frames each.
    let vowels = ["AA", "AA", "AA", "AA", "IY"].into_iter().enumerate();
    let lines: Vec<_> = vowels.map(|(u, vowel)| format!("u{u} 1 0.0 0.03 {vowel}\nu{u} 1 0.03 0.03 T\n")).collect();
    let text = lines.concat();
    let labels = read_file("u.ctm", &text, &phones(4)).unwrap();
    let of = |id: &str| names(&labels, id).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(of("u0"), ["SIL-AA+T.0", "SIL-AA+T.1", "SIL-AA+T.2", "AA-T+SIL.0", "AA-T+SIL.1", "AA-T+SIL.2"]);
    assert_eq!(of("u4"), ["IY.0", "IY.1", "IY.2", "T.0", "T.1", "T.2"]);
    // Two contexts with too few frames share the class of their right neighbour.
    let shared = read_file("u.ctm", &text, &phones(5)).unwrap();
    assert_eq!(names(&shared, "u0")[3].0, "T+SIL.0");
    assert_eq!(names(&shared, "u4")[3].0, "T+SIL.0");
}

#[test]
fn another_corpus_read_by_the_same_map_has_the_same_classes() {
    let ours = read_file("u.ctm", "u 1 0.0 0.09 AA\nu 1 0.09 0.09 T\n", &phones(1)).unwrap();
    let map = ours.phones.clone().unwrap();
    let reading = LabelOptions { step: 1, phones: Some(PhoneTying::Map(map.clone())) };
    let theirs = read_file("v.ctm", "v 1 0.0 0.09 AA\nv 1 0.09 0.03 ZH\n", &reading).unwrap();
    assert_eq!(theirs.phones.as_ref(), Some(&map));
    let names = names(&theirs, "v");
    assert_eq!(names[0].0, "AA.0", "a context that the map does not know falls back");
    assert_eq!(names.last(), Some(&("?".to_owned(), 3)), "a phone that it does not know is the class of the rest");
    assert_eq!(usize::from(theirs.alignments.by_id["v"].runs().last().unwrap().0) + 1, map.classes());
}

#[test]
fn phones_need_class_options_and_numbers_refuse_them() {
    let refused = read_file("u.ctm", "u 1 0.0 0.09 AA\n", &LabelOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("--phone-frames"), "{refused}");
    let refused = read_file("ali.txt", "u 1 2\n", &phones(1)).unwrap_err();
    assert!(refused.to_string().contains("leave --phone-frames"), "{refused}");
}

const LONG: &str = r#"File type = "ooTextFile"
Object class = "TextGrid"

xmin = 0
xmax = 0.12
tiers? <exists>
size = 2
item []:
    item [1]:
        class = "IntervalTier"
        name = "words"
        xmin = 0
        xmax = 0.12
        intervals: size = 1
        intervals [1]:
            xmin = 0
            xmax = 0.12
            text = "say ""at"""
    item [2]:
        class = "IntervalTier"
        name = "anna - phones"
        xmin = 0
        xmax = 0.12
        intervals: size = 3
        intervals [1]:
            xmin = 0
            xmax = 0.03
            text = ""
        intervals [2]:
            xmin = 0.03
            xmax = 0.09
            text = "AE1"
        intervals [3]:
            xmin = 0.09
            xmax = 0.12
            text = "T"
"#;

const SHORT: &str = "File type = \"ooTextFile\"\nObject class = \"TextGrid\"\n\n0\n0.12\n<exists>\n1\n\"IntervalTier\"\n\
                     \"phones\"\n0\n0.12\n3\n0\n0.03\n\"\"\n0.03\n0.09\n\"AE1\"\n0.09\n0.12\n\"T\"\n";

#[test]
fn both_forms_of_a_textgrid_in_any_encoding_say_the_same() {
    let long = read_file("a.TextGrid", LONG, &phones(u64::MAX)).unwrap();
    let expected = [("SIL.0", 1), ("SIL.1", 1), ("SIL.2", 1), ("AE.0", 2), ("AE.1", 2), ("AE.2", 2)];
    assert_eq!(names(&long, "a")[..6], expected.map(|(name, frames)| (name.to_owned(), frames)));
    assert_eq!(read_file("a.TextGrid", SHORT, &phones(u64::MAX)).unwrap(), long);
    let wide: Vec<u8> = [0xFE_u8, 0xFF].into_iter().chain(LONG.encode_utf16().flat_map(u16::to_be_bytes)).collect();
    assert_eq!(read_file("a.TextGrid", wide, &phones(u64::MAX)).unwrap(), long);
}

#[test]
fn every_kind_of_broken_textgrid_is_named() {
    let cases = [
        (LONG.replace("anna - phones", "syllables"), "no interval tier"),
        (LONG.replace("\"words\"", "\"ben - phones\""), "two tiers"),
        (LONG.replace("ooTextFile", "ooBinaryFile"), "not a TextGrid"),
        (LONG.replace("intervals: size = 3", "intervals: size = 4"), "is missing"),
        (LONG.replace("intervals: size = 3", "intervals: size = 99999999999"), "a whole number"),
        (LONG.replace("\"T\"", "\"T"), "closing quote"),
        (LONG.replace("xmax = 0.09", "xmax = 1e300"), "a time of"),
        (LONG.replace("xmin = 0.03", "xmin = nan"), "is missing"),
    ];
    for (content, expected) in cases {
        let refused = read_file("a.TextGrid", &content, &phones(1)).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused} is not about {expected}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_read(runs in prop::collection::vec((any::<u16>(), 1_u32..50), 1..40), cut in 0_usize..10) {
        let frames: u32 = runs.iter().map(|run| run.1).sum();
        let line = serde_json::json!({ "u": "a", "frames": frames, "runs": runs }).to_string();
        let alignment = one(&line).unwrap();
        prop_assert_eq!(alignment.runs(), &runs);
        let features = (frames as usize).saturating_sub(cut);
        let labels = alignment.labels(features, 10).unwrap();
        let whole: Vec<u16> = runs.iter().flat_map(|(class, frames)| vec![*class; *frames as usize]).collect();
        prop_assert_eq!(labels.as_slice(), &whole[..features]);
    }

    /// Valid lines are read whatever is between them, and nothing panics.
    #[test]
    fn malformed_lines_are_counted_and_never_spoil_others(
        noise in prop::collection::vec(
            prop_oneof![
                "[^\n]{0,60}",
                r#"\{"u": ?"[a-z]{0,3}", ?"frames": ?-?[0-9]{1,20}, ?"runs": ?\[(\[-?[0-9]{1,12}, ?[0-9]{1,12}\],?){0,4}\]\}?"#,
            ],
            0..12,
        ),
    ) {
        let pair = |(i, line)| format!("{{\"u\": \"good-{i}\", \"frames\": 3, \"runs\": [[{i}, 3]]}}\n{line}\n");
        let text: String = noise.iter().enumerate().map(pair).collect();
        let alignments = parse(text.as_bytes()).unwrap();
        for i in 0..noise.len() {
            prop_assert_eq!(alignments.by_id[&format!("good-{i}")].runs(), &[(i as u16, 3)]);
        }
        let blank = noise.iter().filter(|line| line.trim_ascii().is_empty()).count();
        prop_assert_eq!(alignments.by_id.len() + alignments.bad_lines.len() + blank, 2 * noise.len());
        for alignment in alignments.by_id.values() {
            prop_assert_eq!(alignment.labels(alignment.frames(), 0).unwrap().len(), alignment.frames());
        }
    }
}
