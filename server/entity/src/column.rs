//! The columns of contract values: an enum as its word, a structure as JSON.
//!
//! Both types carry the entity of their row, so that an error names the table and the column. A column has the text that
//! `serde` gives the value. A wrong text is an error of the read.
//!
//! A column stays a `String` where its exact bytes are signed or are a leaf of the log: an export must include a row that
//! was changed, and report it. Such rows have accessors that parse (`account::Model::balance`).
//!
//! Ids in rows are plain UUIDs, as in filters and keys. The id types belong to `api`, which knows no database, so a column
//! of an id type would need a wrapper at each of the several hundred places that compare, join or filter by it.
//!
//! To add an enum: a line in `enum_columns!`.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use sea_orm::sea_query::{ArrayType, ColumnType, Nullable, StringLen, Value, ValueType, ValueTypeErr};
use sea_orm::{ColIdx, DbErr, EntityName, QueryResult, TryFromU64, TryGetError, TryGetable};
use serde::Serialize;
use serde::de::DeserializeOwned;
use undertone_server_base::error::Error;

/// An enum whose serialized form is one word.
pub trait ColumnEnum: Copy + Serialize + DeserializeOwned {
    /// Returns the text of the value in a column.
    fn to_text(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(text)) => text,
            // Only enums without fields have this trait, and serde writes a unit variant as a string.
            other => unreachable!("a unit variant is a string, not {other:?}"),
        }
    }
}

/// Permits enums in columns. Each has unit variants only.
macro_rules! enum_columns {
    ($($name:path),* $(,)?) => {$(
        impl ColumnEnum for $name {}
    )*};
}

enum_columns![
    super::annotation::AnswerKind,
    super::decision::DecisionSource,
    super::invitation::LinkPurpose,
    super::masked_message::MaskedStep,
    super::notice_delivery::NoticeChannel,
    super::participant::ApprovalState,
    super::participant::PartState,
    super::retirement::RestoreAuthority,
    super::retirement::SubjectKind,
    super::role::ScopeKind,
    undertone_api::audit_log::ActorKind,
    undertone_api::audit_log::AuditAction,
    undertone_api::budget::EntryKind,
    undertone_api::dataset::DatasetContent,
    undertone_api::dataset::Visibility,
    undertone_api::job::DatasetUse,
    undertone_api::job::DepartureOrigin,
    undertone_api::job::JobState,
    undertone_api::job::audit::AuditVerdict,
    undertone_api::job::Holder,
    undertone_api::job::log::LogLevel,
    undertone_api::log::leaf::KeyEvent,
    undertone_api::member::Role,
    undertone_api::notification::NotificationKind,
    undertone_api::signed::PasskeyAlgorithm,
    undertone_privacy::Adjacency,
    undertone_privacy::PrivacyUnit,
];

/// An enum in a column of the table of `E`.
pub struct EnumColumn<T, E>(T, PhantomData<fn() -> E>);

/// A structure as JSON in a column of the table of `E`. It keeps the text of the row, which a rewritten row then has to the
/// byte.
pub struct JsonColumn<T, E> {
    text: String,
    value: T,
    table: PhantomData<fn() -> E>,
}

impl<T: Serialize, E> JsonColumn<T, E> {
    /// Writes a structure as JSON.
    ///
    /// # Errors
    /// An internal error when it has no JSON form.
    pub fn new(value: T) -> Result<Self, Error> {
        Ok(Self { text: to_json(&value)?, value, table: PhantomData })
    }
}

impl<T, E> JsonColumn<T, E> {
    /// Returns the text of the row.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the structure.
    pub fn into_value(self) -> T {
        self.value
    }
}

/// Writes a structure as JSON.
///
/// # Errors
/// An internal error when it has no JSON form.
pub fn to_json<T: Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::internal("storing a value as JSON", error))
}

/// Parses a text column: a JSON structure.
///
/// # Errors
/// An internal error that names `column`, the table and the column, when the text is something else.
pub fn parse_json<T: DeserializeOwned>(column: &'static str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| Error::internal(column, error))
}

/// Parses a text column: the word of an enum.
///
/// # Errors
/// As [`parse_json`].
pub fn parse_word<T: ColumnEnum>(column: &'static str, text: &str) -> Result<T, Error> {
    read_word(text).map_err(|error| Error::internal(column, error))
}

fn read_word<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_value(serde_json::Value::String(text.to_owned()))
}

/// Returns the error of a text in the column `index` of the table of `E`.
fn column_error<E: EntityName + Default>(index: impl ColIdx, error: &serde_json::Error) -> TryGetError {
    let name = index.as_str().map_or_else(|| format!("{index:?}"), str::to_owned);
    // Rows of two tables have prefixed columns.
    let name = name.strip_prefix("A_").or_else(|| name.strip_prefix("B_")).unwrap_or(&name);
    DbErr::Type(format!("column {}.{name}: {error}", E::default().table_name())).into()
}

impl<T, E> From<T> for EnumColumn<T, E> {
    fn from(value: T) -> Self {
        Self(value, PhantomData)
    }
}

impl<T: Copy, E> EnumColumn<T, E> {
    /// Returns the value.
    pub const fn get(&self) -> T {
        self.0
    }
}

impl<T, E> Deref for EnumColumn<T, E> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T, E> Deref for JsonColumn<T, E> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Copy, E> Copy for EnumColumn<T, E> {}

impl<T: Copy, E> Clone for EnumColumn<T, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Clone, E> Clone for JsonColumn<T, E> {
    fn clone(&self) -> Self {
        Self { text: self.text.clone(), value: self.value.clone(), table: PhantomData }
    }
}

impl<T: fmt::Debug, E> fmt::Debug for EnumColumn<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T, E> fmt::Debug for JsonColumn<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl<T: PartialEq, E> PartialEq for EnumColumn<T, E> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T: PartialEq, E> PartialEq<T> for EnumColumn<T, E> {
    fn eq(&self, other: &T) -> bool {
        self.0 == *other
    }
}

impl<T: Eq, E> Eq for EnumColumn<T, E> {}

impl<T, E> PartialEq for JsonColumn<T, E> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<T, E> Eq for JsonColumn<T, E> {}

impl<T: ColumnEnum, E: EntityName + Default> TryGetable for EnumColumn<T, E> {
    fn try_get_by<I: ColIdx>(row: &QueryResult, index: I) -> Result<Self, TryGetError> {
        let text = String::try_get_by(row, index)?;
        read_word::<T>(&text).map(Self::from).map_err(|error| column_error::<E>(index, &error))
    }
}

impl<T: DeserializeOwned, E: EntityName + Default> TryGetable for JsonColumn<T, E> {
    fn try_get_by<I: ColIdx>(row: &QueryResult, index: I) -> Result<Self, TryGetError> {
        let text = String::try_get_by(row, index)?;
        let value = serde_json::from_str(&text).map_err(|error| column_error::<E>(index, &error))?;
        Ok(Self { text, value, table: PhantomData })
    }
}

impl<T, E> TryFromU64 for EnumColumn<T, E> {
    fn try_from_u64(_: u64) -> Result<Self, DbErr> {
        Err(DbErr::ConvertFromU64("the word of an enum"))
    }
}

impl<T: ColumnEnum, E> From<EnumColumn<T, E>> for Value {
    fn from(column: EnumColumn<T, E>) -> Self {
        column.0.to_text().into()
    }
}

impl<T, E> From<JsonColumn<T, E>> for Value {
    fn from(column: JsonColumn<T, E>) -> Self {
        column.text.into()
    }
}

impl<T, E> Nullable for EnumColumn<T, E> {
    fn null() -> Value {
        Value::String(None)
    }
}

impl<T, E> Nullable for JsonColumn<T, E> {
    fn null() -> Value {
        Value::String(None)
    }
}

impl<T: ColumnEnum, E> ValueType for EnumColumn<T, E> {
    fn try_from(value: Value) -> Result<Self, ValueTypeErr> {
        let text = <String as ValueType>::try_from(value)?;
        read_word::<T>(&text).map(Self::from).map_err(|_| ValueTypeErr)
    }

    fn type_name() -> String {
        <String as ValueType>::type_name()
    }

    fn array_type() -> ArrayType {
        ArrayType::String
    }

    fn column_type() -> ColumnType {
        ColumnType::String(StringLen::None)
    }
}

impl<T: DeserializeOwned, E> ValueType for JsonColumn<T, E> {
    fn try_from(value: Value) -> Result<Self, ValueTypeErr> {
        let text = <String as ValueType>::try_from(value)?;
        let value = serde_json::from_str(&text).map_err(|_| ValueTypeErr)?;
        Ok(Self { text, value, table: PhantomData })
    }

    fn type_name() -> String {
        <String as ValueType>::type_name()
    }

    fn array_type() -> ArrayType {
        ArrayType::String
    }

    fn column_type() -> ColumnType {
        ColumnType::Text
    }
}

#[cfg(test)]
mod tests {
    use undertone_api::job::JobState;

    use crate::column::{ColumnEnum as _, EnumColumn};
    use crate::job;

    #[test]
    fn enum_column_has_the_serialized_word() {
        assert_eq!(JobState::Proposed.to_text(), "proposed");
        let value = sea_orm::Value::from(EnumColumn::<_, job::Entity>::from(JobState::Queued));
        assert_eq!(value, "queued".into());
    }
}
