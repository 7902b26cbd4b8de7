//! Security notices to be sent by e-mail or to the webhook, until they are delivered or abandoned.

use sea_orm_migration::schema::{integer, pk_uuid, string, text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("notice_delivery")
        .column(pk_uuid("id"))
        .column(uuid("member_id"))
        .column(string("channel"))
        .column(string("kind"))
        .column(text("text"))
        .column(timestamp_with_time_zone("at"))
        .column(integer("attempts"))
        .column(timestamp_with_time_zone("due_at"))
        .foreign_key("notice_delivery_member", ["member_id"], "member", ["id"])
        .index("notice_delivery_due", ["due_at"])
}
