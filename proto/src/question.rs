//! The wire format of questions and answers: the only code that writes and reads these bytes, for site and server
//! alike.
//!
//! A *pool* is one dataset's questions: JSON Lines, a [`QuestionLine`] each, in one zstd frame. The lines are in the order of
//! their texts, each text once, so the bytes depend on nothing but the release. (The site's own order, or an order by
//! counts, would reveal information about the log that was not paid for.) A reader rejects any other order.
//!
//! A question's id is derived from its job, its dataset and its text ([`id`]), so server and lead need not exchange it.
//!
//! *Answers* are JSON Lines of [`AnswerLine`] in one zstd frame.
//!
//! No frame is decompressed into memory as a whole: a frame that decompresses to more than a pool may contain is
//! rejected while it is read.

mod lines;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use undertone_api::id::{DatasetId, JobId, QuestionId};
use undertone_api::question::{Answer, MOST_CHARACTERS, MOST_QUESTIONS};

use lines::LineReader;

/// The largest size of a pool, or of a round's answers, on the wire: 64 MiB.
pub const MAX_SIZE: u64 = 64 << 20;
/// Their largest decompressed size: 1 GiB.
pub const MAX_UNPACKED: u64 = 1 << 30;
/// The greatest count of a question: 2⁵³, up to which every JSON parser represents integers exactly.
pub const MAX_COUNT: u64 = 1 << 53;
/// zstd's own default.
const LEVEL: i32 = 3;

/// Reasons why questions cannot be sent, or bytes cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// More questions than a pool may contain.
    #[error("a pool has at most {MOST_QUESTIONS} questions: raise the threshold, or sample fewer rows")]
    TooMany,
    /// More bytes than a pool may have.
    #[error("{0} bytes are more than a pool's {MAX_SIZE}: raise the threshold, or sample fewer rows")]
    TooLong(u64),
    /// The decompressed data are too large.
    #[error("the packed bytes hold more than {MAX_UNPACKED} bytes")]
    Unpacked,
    /// The bytes are not zstd, truncated, or followed by other data.
    #[error("the packed bytes cannot be unpacked: {0}")]
    Packed(String),
    /// A line is invalid.
    #[error("line {line} cannot be read: {detail}")]
    Line {
        /// The line's number, from 1.
        line: u64,
        /// The problem; never the line's text.
        detail: String,
    },
    /// A text is not a valid question.
    #[error("question {line} is empty, has more than {MOST_CHARACTERS} characters, or control characters among them")]
    Text {
        /// The line's number, from 1.
        line: u64,
    },
    /// A count is invalid.
    #[error("question {line} has a count of 0, or of more than {MAX_COUNT}")]
    Count {
        /// The line's number, from 1.
        line: u64,
    },
    /// The texts are not in ascending order.
    #[error("question {line} repeats the one before it, or should stand before it: texts ascend, each once")]
    Order {
        /// The line's number, from 1.
        line: u64,
    },
}

/// One question of a pool. These lines have no field for any other part of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionLine {
    /// The text: 1 to 2,000 characters, none of them control characters, not all of them blank.
    pub text: String,
    /// Kept occurrences, where the job pays for disclosing them: 1 to [`MAX_COUNT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl QuestionLine {
    /// Checks the question on line `line`, from 1, against the text before it.
    fn check(&self, line: u64, before: Option<&str>) -> Result<(), QuestionError> {
        // Characters are counted only if the number of bytes does not decide already.
        let long = self.text.len() > MOST_CHARACTERS && self.text.chars().count() > MOST_CHARACTERS;
        if long || self.text.trim().is_empty() || self.text.chars().any(char::is_control) {
            return Err(QuestionError::Text { line });
        }
        if self.count.is_some_and(|count| !(1..=MAX_COUNT).contains(&count)) {
            return Err(QuestionError::Count { line });
        }
        if before.is_some_and(|before| before >= &*self.text) {
            return Err(QuestionError::Order { line });
        }
        Ok(())
    }
}

/// One answer to a question of a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerLine {
    /// The question.
    pub question: QuestionId,
    /// The annotator's number in the job, from 1.
    pub annotator: u32,
    /// The answer.
    pub answer: Answer,
}

/// Returns the id of a dataset's question in a job: a version 8 UUID from the SHA-256 of job, dataset and text.
pub fn id(job: JobId, dataset: DatasetId, text: &str) -> QuestionId {
    let mut hasher = Sha256::new();
    hasher.update(b"undertone question 1");
    hasher.update(job.0.as_bytes());
    hasher.update(dataset.0.as_bytes());
    hasher.update(text.as_bytes());
    let hash: [u8; 32] = hasher.finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    QuestionId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// Encodes a pool. The order of `questions` has no influence on the bytes.
///
/// # Errors
/// [`QuestionError`] when there are too many, two have the same text, or one is invalid.
pub fn write(mut questions: Vec<QuestionLine>) -> Result<Vec<u8>, QuestionError> {
    if questions.len() as u64 > MOST_QUESTIONS {
        return Err(QuestionError::TooMany);
    }
    questions.sort_unstable_by(|a, b| a.text.cmp(&b.text));
    let mut before = None;
    for (line, question) in (1..).zip(&questions) {
        question.check(line, before)?;
        before = Some(&*question.text);
    }
    lines::pack(&questions)
}

/// Decodes the questions of a complete pool, one after the other. The iterator ends after the first error.
///
/// # Errors
/// [`QuestionError::TooLong`]; each item carries the error of its line.
pub fn read(bytes: &[u8]) -> Result<impl Iterator<Item = Result<QuestionLine, QuestionError>>, QuestionError> {
    let (mut before, mut failed): (Option<String>, bool) = (None, false);
    let lines = LineReader::<QuestionLine>::new(bytes)?;
    Ok((1_u64..).zip(lines).map_while(move |(line, question)| {
        if failed {
            return None;
        }
        let question = question.and_then(|question| {
            if line > MOST_QUESTIONS {
                return Err(QuestionError::TooMany);
            }
            question.check(line, before.as_deref())?;
            before = Some(question.text.clone());
            Ok(question)
        });
        failed = question.is_err();
        Some(question)
    }))
}

/// Encodes a round's answers.
///
/// # Errors
/// [`QuestionError::TooLong`].
pub fn write_answers(answers: &[AnswerLine]) -> Result<Vec<u8>, QuestionError> {
    lines::pack(answers)
}

/// Decodes the answers of a round.
///
/// # Errors
/// [`QuestionError`] when the bytes are invalid.
pub fn read_answers(bytes: &[u8]) -> Result<Vec<AnswerLine>, QuestionError> {
    LineReader::new(bytes)?.collect()
}
