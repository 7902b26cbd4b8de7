//! Stewards' standing limits within which jobs are approved automatically. Rows are withdrawn, never removed.

use sea_orm_migration::schema::{
    double, double_null, pk_uuid, string, string_null, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("approval_limit")
        .column(pk_uuid("id"))
        .column(uuid("dataset_id"))
        .column(double("epsilon"))
        .column(string("kinds"))
        .column(timestamp_with_time_zone("until"))
        .column(uuid("member_id"))
        .column(string("set_by"))
        .column(timestamp_with_time_zone("set_at"))
        .column(timestamp_with_time_zone_null("withdrawn_at"))
        .column(string_null("withdrawn_by"))
        .column(double_null("total_epsilon"))
        .foreign_key("approval_limit_dataset", ["dataset_id"], "dataset", ["id"])
        .index("approval_limit_of", ["dataset_id"])
}
