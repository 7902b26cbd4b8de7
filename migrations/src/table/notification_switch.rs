//! The kinds of notifications that a member has turned off.

use sea_orm_migration::schema::{string, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("notification_switch")
        .column(uuid("member_id"))
        .column(string("kind"))
        .primary_key_with_name("notification_switch_pk", ["member_id", "kind"])
        .foreign_key("notification_switch_member", ["member_id"], "member", ["id"])
}
