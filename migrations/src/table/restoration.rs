//! The server's signed statements that it was restored.

use sea_orm_migration::schema::{big_integer, string, string_uniq, text, timestamp_with_time_zone};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("restoration")
        .column(big_integer("position").primary_key())
        .column(string_uniq("digest"))
        .column(text("payload"))
        .column(string("signature"))
        .column(timestamp_with_time_zone("at"))
        .append_only()
}
