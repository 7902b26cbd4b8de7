//! The roles of members: `scope` is `consortium` or `organization`, and `scope_id` is its id.

use sea_orm_migration::schema::{string, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("role")
        .column(uuid("member_id"))
        .column(string("scope"))
        .column(uuid("scope_id"))
        .column(string("role"))
        .primary_key(["member_id", "scope", "scope_id", "role"])
        .foreign_key("role_member", ["member_id"], "member", ["id"])
        .index("role_by_scope", ["scope", "scope_id"])
}
