//! Drafts of jobs: not proposed yet.

use sea_orm_migration::schema::{big_integer, pk_uuid, string, text, timestamp_with_time_zone, uuid, uuid_null};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("draft")
        .column(pk_uuid("id"))
        .column(uuid("consortium_id"))
        .column(uuid("organization_id"))
        .column(uuid("author_id"))
        .column(string("author"))
        .column(string("title"))
        .column(string("kind"))
        .column(text("spec"))
        .column(uuid_null("cloned_from"))
        .column(big_integer("version"))
        .column(timestamp_with_time_zone("created_at"))
        .column(timestamp_with_time_zone("updated_at"))
        .foreign_key("draft_consortium", ["consortium_id"], "consortium", ["id"])
        .index("draft_of", ["consortium_id", "organization_id"])
}
