//! Every limit ever set on an account.

use sea_orm_migration::schema::{double, pk_uuid, text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("budget")
        .column(pk_uuid("id"))
        .column(uuid("account_id"))
        .column(double("epsilon"))
        .column(double("delta"))
        .column(text("limits"))
        .column(uuid("set_by"))
        .column(timestamp_with_time_zone("set_at"))
        .foreign_key("budget_account", ["account_id"], "account", ["id"])
        .append_only()
}
