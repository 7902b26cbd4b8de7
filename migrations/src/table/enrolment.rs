//! One-time tokens for the enrolment of workers. Only their hashes are stored.

use sea_orm_migration::schema::{
    pk_uuid, string, string_uniq, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid, uuid_null,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("enrolment")
        .column(pk_uuid("id"))
        .column(uuid("organization_id"))
        .column(string("name"))
        .column(string_uniq("secret_hash"))
        .column(uuid("created_by"))
        .column(timestamp_with_time_zone("created_at"))
        .column(timestamp_with_time_zone("expires_at"))
        .column(timestamp_with_time_zone_null("used_at"))
        .column(uuid_null("replaces"))
        .foreign_key("enrolment_organization", ["organization_id"], "organization", ["id"])
}
