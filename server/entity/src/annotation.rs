//! An answer. Append-only.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

use crate::column::EnumColumn;

/// An answer. Append-only.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "annotation")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    pub job_id: Uuid,
    pub question_id: Uuid,
    pub round: i32,
    pub annotator: i32,
    pub answer: EnumColumn<AnswerKind, Entity>,
    pub label: Option<String>,
    pub at: TimeDateTimeWithTimeZone,
}

/// The kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// One of the job's labels.
    Label,
    /// The annotator cannot decide.
    Unsure,
    /// The annotator leaves the question to others.
    Skip,
}

/// Rows are joined by hand, by key.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
