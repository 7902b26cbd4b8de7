//! Notifications of members. `key` identifies the cause, so that each cause produces one notification, however often
//! and by whichever replica it is detected.

use sea_orm_migration::schema::{
    pk_uuid, string, text, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid, uuid_null,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("notification")
        .column(pk_uuid("id"))
        .column(uuid("member_id"))
        .column(string("kind"))
        .column(string("key"))
        .column(text("text"))
        .column(uuid_null("consortium_id"))
        .column(uuid_null("job_id"))
        .column(uuid_null("dataset_id"))
        .column(uuid_null("organization_id"))
        .column(timestamp_with_time_zone("at"))
        .column(timestamp_with_time_zone_null("read_at"))
        .foreign_key("notification_member", ["member_id"], "member", ["id"])
        .unique_index("notification_once", ["member_id", "key"])
        .index("notification_unread", ["member_id", "read_at"])
}
