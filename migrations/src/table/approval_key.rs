//! Stewards' public keys for approvals, as listed by their owners. A site accepts only keys pinned at the site.

use sea_orm_migration::schema::{pk_uuid, string, text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("approval_key")
        .column(pk_uuid("id"))
        .column(uuid("member_id"))
        .column(string("label"))
        .column(text("key"))
        .column(string("fingerprint"))
        .column(timestamp_with_time_zone("created_at"))
        .foreign_key("approval_key_member", ["member_id"], "member", ["id"])
        .index("approval_key_by_member", ["member_id"])
}
