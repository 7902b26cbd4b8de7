//! Incomplete sign-ins that require a second factor. Only hashes of their secrets are stored.

use sea_orm_migration::schema::{pk_uuid, string_uniq, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("half_session")
        .column(pk_uuid("id"))
        .column(uuid("member_id"))
        .column(string_uniq("secret_hash"))
        .column(timestamp_with_time_zone("created_at"))
        .column(timestamp_with_time_zone("expires_at"))
        .foreign_key("half_session_member", ["member_id"], "member", ["id"])
        .index("half_session_by_member", ["member_id"])
}
