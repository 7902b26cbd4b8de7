//! Questions: texts for annotators to label, and their answers.
//!
//! A job kind with questions implements [`crate::job::JobKind::questions`]; the server knows nothing else of them. One
//! text is one question, however many rows contain it. The questions here have left their site through that site's gate
//! and were charged there; computations from them cost nothing more. Annotators are identified by a number of the job,
//! never by name.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::{DatasetId, JobId, QuestionId};

/// The most questions of one dataset in one job.
pub const MOST_QUESTIONS: u64 = 1_000_000;
/// The most characters of a question's text; the least is 1.
pub const MOST_CHARACTERS: usize = 2000;
/// Keys of the page itself, which no label may have: skip, unsure, undo.
pub const OWN_KEYS: [char; 3] = ['s', 'u', 'z'];

/// The questions of a job to annotators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionPlan {
    /// The series in which pools are charged and sent, in one round with the number 1; [`crate::job::JobKind::release`]
    /// describes the release of one pool.
    pub series: String,
    /// The datasets with pools, in the order of the participants.
    pub asking: Vec<DatasetId>,
    /// The lead, which alone reads the pools, chooses and reads the answers.
    pub lead: DatasetId,
    /// The possible answers.
    pub labels: Vec<Label>,
    /// Instructions for answering; may be empty.
    pub guidelines: String,
    /// The number of answers that close a question: 1 to 20, each from a different annotator.
    pub annotators: u32,
    /// Rounds of questions, numbered from 1.
    pub rounds: u32,
    /// The most questions in a round.
    pub batch: u32,
    /// Seconds from a round's selection to its deadline, and from the job's start to that of the pools.
    pub deadline_seconds: u32,
}

/// A possible answer to the questions of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Label {
    /// The label: 1 to 60 characters, unique, as in the data.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 60))]
    pub name: String,
    /// The key that selects it: a lower-case letter or a digit, unique, but not `s`, `u` or `z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "b"))]
    pub key: Option<char>,
    /// Instructions for its use: at most 200 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_length = 200))]
    pub hint: String,
}

/// The state of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum QuestionState {
    /// In the pool, not chosen.
    Waiting,
    /// Chosen in a round that is open.
    Asked,
    /// Chosen, and answered by the requested number of annotators.
    Answered,
    /// Chosen, and its round closed without the requested number of answers.
    Closed,
}

impl QuestionState {
    /// Returns the word on the wire.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Asked => "asked",
            Self::Answered => "answered",
            Self::Closed => "closed",
        }
    }
}

/// A text that a site released.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Question {
    /// Id.
    pub id: QuestionId,
    /// The job.
    pub job: JobId,
    /// The dataset it comes from.
    pub dataset: DatasetId,
    /// The text: 1 to 2,000 characters.
    pub text: String,
    /// Kept occurrences at its site, if the job pays to release them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The classifier's uncertainty when it chose the question; greater is more uncertain. The measure is the job's
    /// acquisition, so values are comparable only within one round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<f64>,
    /// The round in which it was chosen, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u32>,
    /// Its answers, without skipped and withdrawn ones.
    pub annotations: u32,
    /// Its state.
    pub state: QuestionState,
}

/// An annotator's answer; in JSON `{"answer": "label", "label": "billing"}`, `{"answer": "unsure"}`, `{"answer":
/// "skip"}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// One of the job's labels.
    Label {
        /// Its name.
        label: String,
    },
    /// The annotator cannot decide. This counts as an answer.
    Unsure,
    /// The annotator leaves the question to others. This does not count as an answer.
    Skip,
}

impl Answer {
    /// Returns whether it is one of the answers that close a question.
    pub fn counts(&self) -> bool {
        *self != Self::Skip
    }

    /// Returns the label, if the answer is one.
    pub fn label(&self) -> Option<&str> {
        match self {
            Self::Label { label } => Some(label),
            Self::Unsure | Self::Skip => None,
        }
    }
}

/// An answer to be recorded; in JSON the answer itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewAnnotation {
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
}

/// A recorded answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Annotation {
    /// The question.
    pub question: QuestionId,
    /// The annotator's number in this job, from 1. It has no meaning in other jobs.
    pub annotator: u32,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
    /// When it was given.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
    /// Whether it was withdrawn.
    pub undone: bool,
}

/// The caller's open questions in a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Queue))]
pub struct AnnotationQueue {
    /// The job.
    pub job: JobId,
    /// Its title.
    pub title: String,
    /// The instructions for the annotators.
    pub guidelines: String,
    /// The possible answers.
    pub labels: Vec<Label>,
    /// The next questions that the caller has not answered, the most uncertain first. Skipped questions follow the others.
    pub questions: Vec<Question>,
    /// Questions of the open round that the caller has answered. Skipped questions do not count.
    pub done: u64,
    /// Questions of the open round that the caller has not answered and that lack answers.
    pub left: u64,
    /// The part of `left` that is assigned to other annotators at present. A question returns when its annotator does
    /// not answer within five minutes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held: u64,
    /// Fleiss' κ of the job's answers so far: 1 is full agreement, 0 is chance. Absent until two annotators have
    /// answered one question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The progress of a job's questions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Asking))]
pub struct QuestionProgress {
    /// Closed rounds of questions.
    pub rounds_done: u32,
    /// Rounds in all.
    pub rounds: u32,
    /// Pools received.
    pub pools: u32,
    /// Expected pools in all.
    pub pools_awaited: u32,
    /// Questions in the pools.
    pub questions: u64,
    /// Of these, chosen so far.
    pub asked: u64,
    /// Of these, answered by the requested number of annotators.
    pub answered: u64,
    /// Answers to all questions, without skips.
    pub annotations: u64,
    /// Annotators with an answer.
    pub annotators: u32,
    /// Fleiss' κ so far: 1 is full agreement, 0 is chance. Absent until two annotators have answered one question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<f64>,
}

/// The form of exported questions and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    /// One [`ExportedQuestion`] on each line.
    #[default]
    Jsonl,
    /// One answer on each line, with a header. A question without answers has one line.
    Csv,
    /// The task file of Label Studio.
    LabelStudio,
}

/// An exported question with its answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Exported))]
pub struct ExportedQuestion {
    /// The question.
    #[serde(flatten)]
    pub question: Question,
    /// Every answer that was not withdrawn, oldest first.
    pub answers: Vec<ExportedAnswer>,
}

/// One answer of an exported question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ExportedAnswer))]
pub struct ExportedAnswer {
    /// The annotator's number in this job.
    pub annotator: u32,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
}

/// One line of an import: the label of the question with this text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImportedLabel {
    /// The exact text of the question.
    pub text: String,
    /// The label's name.
    pub label: String,
}

/// The result of an import. Every line counts in one of these numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Imported))]
pub struct ImportResult {
    /// Lines recorded as answers.
    pub taken: u64,
    /// Lines whose text is no question of the job, or was not chosen.
    pub unknown_texts: u64,
    /// Lines with labels that the job does not have.
    pub unknown_labels: u64,
    /// Lines for questions that the same importer has already answered, or whose round is closed.
    pub too_late: u64,
}

#[cfg(test)]
mod tests {
    use super::{Answer, NewAnnotation};

    #[test]
    fn an_answer_is_one_flat_object_on_the_wire() {
        let label = Answer::Label { label: "billing".to_owned() };
        for (answer, text) in [
            (label, r#"{"answer":"label","label":"billing"}"#),
            (Answer::Unsure, r#"{"answer":"unsure"}"#),
            (Answer::Skip, r#"{"answer":"skip"}"#),
        ] {
            let new = NewAnnotation { answer };
            assert_eq!(serde_json::to_string(&new).expect("it has a JSON form"), text);
            assert_eq!(serde_json::from_str::<NewAnnotation>(text).expect("it is read again"), new);
        }
    }

    #[test]
    fn only_a_skip_is_no_answer() {
        assert!(Answer::Unsure.counts() && Answer::Label { label: "a".to_owned() }.counts());
        assert!(!Answer::Skip.counts());
        assert_eq!((Answer::Unsure.label(), Answer::Skip.label()), (None, None));
    }
}
