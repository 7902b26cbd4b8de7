//! Datasets: the coarse facts that may be disclosed outside their site. `users` is set where the data has a column of
//! users, `seconds` where its recordings are for transcription. `approval` is the site's approval rule.

use sea_orm_migration::schema::{
    big_integer, big_integer_null, integer, pk_uuid, string, string_null, text_null, timestamp_with_time_zone, uuid,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("dataset")
        .column(pk_uuid("id"))
        .column(uuid("organization_id"))
        .column(uuid("worker_id"))
        .column(uuid("lineage_id"))
        .column(string("name"))
        .column(string("visibility"))
        .column(integer("inputs"))
        .column(integer("classes"))
        .column(big_integer("records"))
        .column(big_integer("speakers"))
        .column(big_integer("test_records"))
        .column(timestamp_with_time_zone("created_at"))
        .column(timestamp_with_time_zone("updated_at"))
        .column(big_integer_null("users"))
        .column(string_null("units"))
        .column(string("content").default("speech"))
        .column(big_integer_null("seconds"))
        .column(text_null("approval"))
        .foreign_key("dataset_organization", ["organization_id"], "organization", ["id"])
        .foreign_key("dataset_worker", ["worker_id"], "worker", ["id"])
        .unique_index("dataset_name", ["organization_id", "name"])
}
