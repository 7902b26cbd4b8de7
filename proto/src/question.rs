//! How questions and answers travel: the one place that writes and reads these bytes, for site and server alike.
//!
//! A *pool* is one dataset's questions: JSON Lines, a [`Posed`] each, in one zstd frame. The lines stand in the order of their
//! texts, each text once: so the bytes follow from what was released and from nothing else. (In the order in which a site found
//! them, or counted them, they would tell about the log what nobody paid for.) A reader refuses any other order.
//!
//! A question's id follows from its job, its dataset and its text ([`id`]), so server and lead need not tell each other.
//!
//! *Answers* are JSON Lines of [`Answered`] in one zstd frame.
//!
//! Nothing is unpacked into memory as a whole: a frame that unpacks to more than a pool may hold is refused while it is read.

mod lines;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use undertone_api::id::{DatasetId, JobId, QuestionId};
use undertone_api::question::{Answer, MOST_CHARACTERS, MOST_QUESTIONS};

use lines::Lines;

/// Most bytes of a pool, or of a round's answers, as they travel: 64 MiB.
pub const MAX_SIZE: u64 = 64 << 20;
/// Most bytes of them unpacked: 1 GiB.
pub const MAX_UNPACKED: u64 = 1 << 30;
/// Greatest count of a question: 2⁵³, up to which every reader of JSON has all digits.
pub const MAX_COUNT: u64 = 1 << 53;
/// zstd's own default.
const LEVEL: i32 = 3;

/// Why questions cannot be sent, or bytes are none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// More questions than a pool holds.
    #[error("a pool has at most {MOST_QUESTIONS} questions: raise the threshold, or sample fewer rows")]
    TooMany,
    /// More bytes than a pool has.
    #[error("{0} bytes are more than a pool's {MAX_SIZE}: raise the threshold, or sample fewer rows")]
    TooLong(u64),
    /// Unpacks to more than it may.
    #[error("the packed bytes hold more than {MAX_UNPACKED} bytes")]
    Unpacked,
    /// Not zstd, cut off, or followed by something else.
    #[error("the packed bytes cannot be unpacked: {0}")]
    Packed(String),
    /// A line is not what stands in such lines.
    #[error("line {line} cannot be read: {detail}")]
    Line {
        /// Which, from 1.
        line: u64,
        /// What is wrong with it; never its text.
        detail: String,
    },
    /// A text that is no question.
    #[error("question {line} is empty, has more than {MOST_CHARACTERS} characters, or control characters among them")]
    Text {
        /// Which, from 1.
        line: u64,
    },
    /// A count that is none.
    #[error("question {line} has a count of 0, or of more than {MAX_COUNT}")]
    Count {
        /// Which, from 1.
        line: u64,
    },
    /// Not in the order of the texts.
    #[error("question {line} repeats the one before it, or should stand before it: texts ascend, each once")]
    Order {
        /// Which, from 1.
        line: u64,
    },
}

/// One question of a pool. Nothing else of a log can be written in these lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Posed {
    /// The text: 1 to 2,000 characters, none of them control characters, not all of them blank.
    pub text: String,
    /// Kept occurrences, where the job pays for showing them: 1 to [`MAX_COUNT`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl Posed {
    /// Checks the question on line `line`, from 1, against the text before it.
    fn check(&self, line: u64, before: Option<&str>) -> Result<(), QuestionError> {
        // Counted in characters only where bytes do not tell already.
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
pub struct Answered {
    /// The question.
    pub question: QuestionId,
    /// Who answered: a number of the job, from 1.
    pub annotator: u32,
    /// What.
    pub answer: Answer,
}

/// The id of the question that a dataset asks in a job: a version 8 UUID of the SHA-256 of all three.
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

/// A pool as it travels. The order of `questions` does not matter, and does not show.
///
/// # Errors
/// [`QuestionError`] when they are too many, two have the same text, or one is no question.
pub fn write(mut questions: Vec<Posed>) -> Result<Vec<u8>, QuestionError> {
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

/// The questions of a pool that came whole, one after the other: what follows the first error is nothing.
///
/// # Errors
/// [`QuestionError::TooLong`]; each item says what is wrong with its line.
pub fn read(bytes: &[u8]) -> Result<impl Iterator<Item = Result<Posed, QuestionError>>, QuestionError> {
    let (mut before, mut failed): (Option<String>, bool) = (None, false);
    let lines = Lines::<Posed>::new(bytes)?;
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

/// A round's answers as they travel.
///
/// # Errors
/// [`QuestionError::TooLong`].
pub fn write_answers(answers: &[Answered]) -> Result<Vec<u8>, QuestionError> {
    lines::pack(answers)
}

/// The answers of a round.
///
/// # Errors
/// [`QuestionError`] when the bytes are none.
pub fn read_answers(bytes: &[u8]) -> Result<Vec<Answered>, QuestionError> {
    Lines::new(bytes)?.collect()
}
