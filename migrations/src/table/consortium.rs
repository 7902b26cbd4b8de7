//! Consortia of organizations.

use sea_orm_migration::schema::{pk_uuid, string_uniq, text, timestamp_with_time_zone};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("consortium")
        .column(pk_uuid("id"))
        .column(string_uniq("name"))
        .column(text("description"))
        .column(timestamp_with_time_zone("created_at"))
}
