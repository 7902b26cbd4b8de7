//! Changes of stewards' credentials, for the sites of their organizations. Rows are never changed.

use sea_orm_migration::schema::{pk_uuid, text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("credential_notice")
        .column(pk_uuid("id"))
        .column(uuid("organization_id"))
        .column(uuid("member_id"))
        .column(text("text"))
        .column(timestamp_with_time_zone("at"))
        .foreign_key("credential_notice_organization", ["organization_id"], "organization", ["id"])
        .index("credential_notice_by_organization", ["organization_id", "id"])
}
