//! The organizations of each consortium. `retired_at` is set while a retirement is in force.

use sea_orm_migration::schema::{timestamp_with_time_zone, timestamp_with_time_zone_null, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("membership")
        .column(uuid("consortium_id"))
        .column(uuid("organization_id"))
        .column(timestamp_with_time_zone("joined_at"))
        .column(timestamp_with_time_zone_null("retired_at"))
        .primary_key(["consortium_id", "organization_id"])
        .foreign_key("membership_consortium", ["consortium_id"], "consortium", ["id"])
        .foreign_key("membership_organization", ["organization_id"], "organization", ["id"])
        .index("membership_by_organization", ["organization_id"])
}
