//! Pools and answers survive the wire, and other bytes are rejected.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use undertone_api::id::{DatasetId, JobId};
use undertone_api::question::{Answer, MOST_CHARACTERS, MOST_QUESTIONS};
use uuid::Uuid;

use super::{
    AnswerLine, MAX_COUNT, MAX_SIZE, QuestionError, QuestionLine, id, read, read_answers, write, write_answers,
};

fn posed(text: &str, count: Option<u64>) -> QuestionLine {
    QuestionLine { text: text.to_owned(), count }
}

fn read_all(bytes: &[u8]) -> Result<Vec<QuestionLine>, QuestionError> {
    read(bytes)?.collect()
}

fn frame(lines: &str) -> Vec<u8> {
    zstd::encode_all(lines.as_bytes(), 1).unwrap()
}

#[test]
fn a_pool_survives_the_wire_in_the_order_of_its_texts() {
    let questions =
        vec![posed("where is my card", Some(7)), posed("book a taxi", None), posed("über", Some(MAX_COUNT))];
    let mut sorted = questions.clone();
    sorted.swap(0, 1);
    assert_eq!(read_all(&write(questions).unwrap()).unwrap(), sorted);
    assert_eq!(read_all(&write(Vec::new()).unwrap()).unwrap(), []);
}

#[test]
fn the_bytes_do_not_tell_in_which_order_questions_were_found() {
    let (a, b, c) = (posed("a", None), posed("b", None), posed("c", None));
    let one = write(vec![c.clone(), a.clone(), b.clone()]).unwrap();
    assert_eq!(one, write(vec![b.clone(), c.clone(), a.clone()]).unwrap());
    for lines in ["{\"text\":\"b\"}\n{\"text\":\"a\"}\n", "{\"text\":\"a\"}\n{\"text\":\"a\"}\n"] {
        assert_eq!(read_all(&frame(lines)), Err(QuestionError::Order { line: 2 }));
    }
    assert_eq!(write(vec![a.clone(), a]), Err(QuestionError::Order { line: 2 }));
}

#[test]
fn a_text_that_is_no_question_is_neither_written_nor_read() {
    let long = "ä".repeat(MOST_CHARACTERS);
    assert_eq!(read_all(&write(vec![posed(&long, None)]).unwrap()).unwrap(), [posed(&long, None)]);
    for text in ["", "  ", "a\tb", "a\nb", &format!("{long}a")] {
        assert_eq!(write(vec![posed(text, None)]), Err(QuestionError::Text { line: 1 }));
        let line = format!("{}\n", serde_json::to_string(&posed(text, None)).unwrap());
        assert_eq!(read_all(&frame(&line)), Err(QuestionError::Text { line: 1 }));
    }
    for count in [0, MAX_COUNT + 1] {
        assert_eq!(write(vec![posed("a", Some(count))]), Err(QuestionError::Count { line: 1 }));
    }
}

#[test]
fn pool_lines_have_text_and_count_only() {
    for line in [r#"{"text":"a","user":"u1"}"#, r#"{"text":"a","count":-1}"#, r#"{"count":2}"#, "secret words", ""] {
        let refused = read_all(&frame(&format!("{line}\n"))).unwrap_err();
        assert!(matches!(refused, QuestionError::Line { line: 1, .. }), "{line}: {refused}");
        assert!(!refused.to_string().contains("secret") && !refused.to_string().contains("u1"), "{refused}");
    }
}

#[test]
fn bytes_that_are_no_whole_frame_are_refused() {
    let whole = write(vec![posed("a", None), posed("b", Some(2))]).unwrap();
    for bytes in [&whole[..whole.len() - 1], b"not zstd", b""] {
        assert!(matches!(read_all(bytes), Err(QuestionError::Packed(_))));
    }
    let mut two = whole.clone();
    two.extend_from_slice(&whole);
    assert!(matches!(read_all(&two), Err(QuestionError::Packed(_))));
    assert!(matches!(read_all(&frame("{\"text\":\"a\"}")), Err(QuestionError::Line { line: 1, .. })));
    let long = vec![0; MAX_SIZE as usize + 1];
    assert_eq!(read_all(&long), Err(QuestionError::TooLong(MAX_SIZE + 1)));
}

#[test]
fn endless_line_is_refused_during_reading() {
    // White space without an end: a few kilobytes packed, 64 MiB decompressed.
    let mut bomb = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    for _ in 0..64 {
        std::io::Write::write_all(&mut bomb, &vec![b' '; 1 << 20]).unwrap();
    }
    assert!(matches!(read_all(&bomb.finish().unwrap()), Err(QuestionError::Line { line: 1, .. })));
}

#[test]
fn pool_over_a_million_questions_is_refused() {
    let many: Vec<QuestionLine> = (0..=MOST_QUESTIONS).map(|number| posed(&format!("{number:07}"), None)).collect();
    assert_eq!(write(many.clone()), Err(QuestionError::TooMany));
    let bytes = super::lines::pack(&many).unwrap();
    let mut questions = read(&bytes).unwrap();
    assert!(questions.by_ref().take(MOST_QUESTIONS as usize).all(|question| question.is_ok()));
    assert_eq!(questions.next(), Some(Err(QuestionError::TooMany)));
    assert_eq!(questions.next(), None, "what follows the first error is nothing");
}

#[test]
fn id_follows_from_job_dataset_and_text() {
    let job = JobId(Uuid::from_u128(1));
    let dataset = DatasetId(Uuid::from_u128(2));
    let one = id(job, dataset, "where is my card");
    assert_eq!(one, id(job, dataset, "where is my card"));
    assert_ne!(one, id(job, dataset, "where is my card?"));
    assert_ne!(one, id(JobId(Uuid::from_u128(3)), dataset, "where is my card"));
    assert_ne!(one, id(job, DatasetId(Uuid::from_u128(3)), "where is my card"));
    assert_eq!(one.0.get_version_num(), 8);
}

#[test]
fn answers_survive_the_wire() {
    let question = id(JobId(Uuid::from_u128(1)), DatasetId(Uuid::from_u128(2)), "a");
    let answers: Vec<AnswerLine> = [Answer::Label { label: "billing".to_owned() }, Answer::Unsure, Answer::Skip]
        .into_iter()
        .zip(1..)
        .map(|(answer, annotator)| AnswerLine { question, annotator, answer })
        .collect();
    assert_eq!(read_answers(&write_answers(&answers).unwrap()).unwrap(), answers);
}
