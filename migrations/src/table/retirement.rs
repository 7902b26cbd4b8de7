//! Retirements of workers, members, organizations and accounts: one row for each act, with its reason and end. Rows are
//! never deleted.

use sea_orm_migration::schema::{
    pk_uuid, string, text, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid, uuid_null,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("retirement")
        .column(pk_uuid("id"))
        .column(string("kind"))
        .column(uuid("subject_id"))
        // The organization of a member, the consortium of an organization.
        .column(uuid_null("scope_id"))
        .column(string("authority"))
        .column(text("reason"))
        // The roles that a restoration returns, JSON.
        .column(text("roles"))
        .column(timestamp_with_time_zone("retired_at"))
        .column(uuid("retired_by"))
        .column(timestamp_with_time_zone_null("restored_at"))
        .column(uuid_null("restored_by"))
        .column(text("restored_reason").default(""))
        .index("retirement_by_subject", ["subject_id", "scope_id", "id"])
}
