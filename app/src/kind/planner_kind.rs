//! The kinds of jobs as the planner offers them: a card for each, and a form. Training on speech and training on tables
//! are one kind of job and two kinds of the planner, because their forms and their datasets differ.
//!
//! To add a kind: a variant, its place in [`PlannerKind::ALL`], and an arm of each match.

use leptos::prelude::AnyView;
use undertone_api::dataset::{Dataset, DatasetContent, Visibility};
use undertone_api::job::{JobKind as _, NewDraft, active_learning, analytics, dp_sgd, evaluation, transcription};

use super::{Card as _, PlannerData};
use crate::query;

/// A kind of the planner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannerKind {
    /// Training of an acoustic model.
    Speech,
    /// Training of a model of rows.
    Rows,
    /// Evaluation of a model.
    Evaluation,
    /// Active learning with questions.
    Questions,
    /// Transcription by recognizers.
    Transcription,
    /// Queries on tables.
    Analytics,
}

impl PlannerKind {
    /// Every kind, in the order of the cards.
    pub const ALL: [Self; 6] =
        [Self::Speech, Self::Rows, Self::Evaluation, Self::Questions, Self::Transcription, Self::Analytics];

    /// Returns the kind with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Returns the kind of a draft, if the planner has a form for it.
    pub fn from_draft(draft: &NewDraft, datasets: &[Dataset]) -> Option<Self> {
        match draft.kind.as_str() {
            dp_sgd::Spec::NAME => {
                let has_rows = draft.spec.pointer("/model/rows").is_some_and(|rows| !rows.is_null());
                let lead = draft.spec.pointer("/participants/0/dataset").and_then(|lead| lead.as_str());
                Some(Self::from_training(has_rows, lead, datasets))
            }
            evaluation::Spec::NAME => Some(Self::Evaluation),
            active_learning::Spec::NAME => Some(Self::Questions),
            transcription::Spec::NAME => Some(Self::Transcription),
            analytics::Spec::NAME => Some(Self::Analytics),
            _ => None,
        }
    }

    /// Returns the kind of the plan in a page's query, if it has one. The names of its fields tell the kind, so that a
    /// plan with an invalid number opens its own form too.
    pub fn from_query(query: &str, datasets: &[Dataset]) -> Option<Self> {
        let kind_of = |name: &str| match name.split_once('[')?.0 {
            "plan" => {
                let rows = query::find_value(query, "plan[rows]").unwrap_or_default();
                let lead = query::find_value(query, "plan[lead]");
                Some(Self::from_training(!rows.trim().is_empty(), lead.as_deref(), datasets))
            }
            "evaluation" => Some(Self::Evaluation),
            "ask" => Some(Self::Questions),
            "hear" => Some(Self::Transcription),
            "analytics" => Some(Self::Analytics),
            _ => None,
        };
        query::read_pairs(query).find_map(|(name, _)| kind_of(&name))
    }

    /// Returns the kind of a training: of rows if it has columns, or if its lead is a table. A training with neither is
    /// of speech, unless rows alone can be planned.
    fn from_training(has_rows: bool, lead: Option<&str>, datasets: &[Dataset]) -> Self {
        let is_lead_table = |dataset: &Dataset| {
            dataset.content == DatasetContent::Table && lead.is_some_and(|lead| dataset.id.to_string() == lead)
        };
        let is_rows_alone = || !Self::Speech.is_possible(datasets) && Self::Rows.is_possible(datasets);
        if has_rows || datasets.iter().any(is_lead_table) || is_rows_alone() { Self::Rows } else { Self::Speech }
    }

    /// Returns the word of the kind in the planner's address.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Speech => "speech",
            Self::Rows => "rows",
            Self::Evaluation => "evaluation",
            Self::Questions => "questions",
            Self::Transcription => "transcription",
            Self::Analytics => "analytics",
        }
    }

    /// Returns the display name.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Speech => dp_sgd::Spec::TITLE,
            Self::Rows => super::dp_sgd::ROW_TITLE,
            Self::Evaluation => evaluation::Spec::TITLE,
            Self::Questions => active_learning::Spec::TITLE,
            Self::Transcription => transcription::Spec::TITLE,
            Self::Analytics => analytics::Spec::TITLE,
        }
    }

    /// Returns the purpose of such a job, as a sentence.
    pub const fn purpose(self) -> &'static str {
        match self {
            Self::Speech => {
                "Train a model that recognizes the sounds of speech on recordings of several sites, by DP-SGD."
            }
            Self::Rows => {
                "Train a model that predicts a column of a table from the other columns, on tables of several sites, by DP-SGD."
            }
            Self::Evaluation => {
                "Measure how accurate a model is on private test sets, from one noisy release of each site."
            }
            Self::Questions => {
                "Train a classifier of queries whose texts pass the gates of their sites and are labelled by annotators."
            }
            Self::Transcription => {
                "Transcribe recordings by cloud recognizers, with the counts of words hidden among dummies."
            }
            Self::Analytics => {
                "Compute counts, means, quantiles and regressions of tables, from one noisy release of each site."
            }
        }
    }

    /// Returns the datasets that a job of this kind needs, as a sentence.
    pub const fn requirement(self) -> &'static str {
        match self {
            Self::Speech => "It needs a public dataset of speech, which leads and trains the warm start.",
            Self::Rows => {
                "It needs a public table with a boolean, a category or a number to predict; it leads and trains the warm start."
            }
            Self::Evaluation => {
                "It needs a public dataset, whose site provides the model, and a private one to measure on: both of speech, or both tables."
            }
            Self::Questions => "It needs a query log with labels, which leads and from which the classifier starts.",
            Self::Transcription => "It needs a dataset of recordings.",
            Self::Analytics => "It needs a table.",
        }
    }

    /// Returns whether the datasets of a consortium suffice to plan such a job.
    pub fn is_possible(self, datasets: &[Dataset]) -> bool {
        let can_begin = |dataset: &Dataset| match self {
            Self::Speech => dp_sgd::Spec::can_begin(dataset),
            Self::Rows => dp_sgd::Spec::can_begin(dataset) && super::dp_sgd::can_predict_rows(dataset),
            Self::Evaluation => evaluation::Spec::can_begin(dataset) && has_test_set(dataset, datasets),
            Self::Questions => active_learning::Spec::can_begin(dataset),
            Self::Transcription => transcription::Spec::can_begin(dataset),
            Self::Analytics => analytics::Spec::can_begin(dataset),
        };
        datasets.iter().any(|dataset| self.uses(dataset.content) && can_begin(dataset))
    }

    /// Returns whether such a job uses datasets of this content.
    pub const fn uses(self, content: DatasetContent) -> bool {
        match self {
            Self::Speech => matches!(content, DatasetContent::Speech),
            Self::Rows | Self::Analytics => matches!(content, DatasetContent::Table),
            Self::Evaluation => matches!(content, DatasetContent::Speech | DatasetContent::Table),
            Self::Questions => matches!(content, DatasetContent::Queries),
            Self::Transcription => matches!(content, DatasetContent::Recordings),
        }
    }

    /// Renders the form of this kind; the datasets of the data are those that it uses.
    pub async fn render_form(self, data: PlannerData) -> AnyView {
        match self {
            Self::Speech | Self::Rows => dp_sgd::Spec::form(data).await,
            Self::Evaluation => evaluation::Spec::form(data).await,
            Self::Questions => active_learning::Spec::form(data).await,
            Self::Transcription => transcription::Spec::form(data).await,
            Self::Analytics => analytics::Spec::form(data).await,
        }
    }
}

/// Returns whether a consortium has a dataset that is not public and has the content of `lead`.
pub(super) fn has_test_set(lead: &Dataset, datasets: &[Dataset]) -> bool {
    datasets.iter().any(|dataset| dataset.content == lead.content && dataset.visibility != Visibility::Public)
}

#[cfg(test)]
mod tests;
