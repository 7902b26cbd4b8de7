//! Lineages that an audit has frozen, and their releases with the responsible person. The last row of a lineage is its
//! state.

use sea_orm_migration::schema::{boolean, integer, string, text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("account_freeze")
        .column(uuid("organization_id"))
        .column(uuid("lineage_id"))
        .column(integer("number"))
        .column(uuid("dataset_id"))
        .column(uuid("job_id"))
        .column(boolean("frozen"))
        .column(text("reason"))
        .column(string("by"))
        .column(timestamp_with_time_zone("at"))
        .primary_key_with_name("account_freeze_pk", ["organization_id", "lineage_id", "number"])
        .foreign_key("account_freeze_job", ["job_id"], "job", ["id"])
        .append_only()
}
