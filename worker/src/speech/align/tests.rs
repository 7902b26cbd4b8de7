#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::*;
use crate::speech::fixture;

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
    assert_eq!(alignment.labels(17, 2), Err(Mismatch { labels: 20, features: 17, tolerance: 2 }));
    assert_eq!(alignment.labels(23, 2), Err(Mismatch { labels: 20, features: 23, tolerance: 2 }));
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
    let mut text = vec![b'x'; LONGEST_LINE + 5];
    text.extend(b"\n{\"u\": \"a\", \"frames\": 1, \"runs\": [[2, 1]]}");
    let alignments = parse(text.as_slice()).unwrap();
    assert_eq!((alignments.by_id.len(), alignments.bad_lines.len()), (1, 1));
    assert!(alignments.bad_lines[0].reason.contains("longer than"));
}

#[test]
fn a_file_without_one_good_line_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    assert!(matches!(read(&path), Err(AlignError::Io { .. })));
    std::fs::write(&path, "").unwrap();
    assert!(read(&path).unwrap_err().to_string().contains("empty"));
    std::fs::write(&path, "\n[]\n").unwrap();
    assert!(read(&path).unwrap_err().to_string().contains("line 2"));
}

/// Needs the speech data (`UNDERTONE_DATA`); passes without it.
#[test]
fn real_alignments_are_read_whole() {
    let Some(path) = fixture::data("speech/alignments/pocketsphinx-en-us-senones.jsonl") else { return };
    let alignments = read(&path).unwrap();
    assert_eq!((alignments.by_id.len(), alignments.bad_lines.len()), (1_125, 0));
    assert_eq!(alignments.by_id["fash-1-0251"].labels(98, TOLERANCE).unwrap().len(), 98);
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_read(runs in prop::collection::vec((any::<u16>(), 1_u32..50), 1..40), cut in 0_usize..10) {
        let frames: u32 = runs.iter().map(|run| run.1).sum();
        let line = serde_json::json!({ "u": "a", "frames": frames, "runs": runs }).to_string();
        let alignment = one(&line).unwrap();
        prop_assert_eq!(alignment.runs(), &runs);
        let kept = (frames as usize).saturating_sub(cut);
        let labels = alignment.labels(kept, 10).unwrap();
        let whole: Vec<u16> = runs.iter().flat_map(|(class, frames)| vec![*class; *frames as usize]).collect();
        prop_assert_eq!(labels.as_slice(), &whole[..kept]);
    }

    /// Good lines survive whatever stands between them, and nothing panics.
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
