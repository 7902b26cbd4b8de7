//! Owners of datasets and workers.

use sea_orm_migration::schema::{pk_uuid, string_uniq, timestamp_with_time_zone};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("organization")
        .column(pk_uuid("id"))
        .column(string_uniq("name"))
        .column(timestamp_with_time_zone("created_at"))
}
