//! Identities at a sign-in provider, each of one member.

use sea_orm_migration::schema::{pk_uuid, string, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("identity")
        .column(pk_uuid("id"))
        .column(uuid("member_id"))
        .column(string("issuer"))
        .column(string("subject"))
        .column(timestamp_with_time_zone("linked_at"))
        .foreign_key("identity_member", ["member_id"], "member", ["id"])
        .unique_index("identity_once", ["issuer", "subject"])
        .index("identity_by_member", ["member_id"])
}
