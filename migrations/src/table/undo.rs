//! Withdrawn answers. The answer remains in `annotation`.

use sea_orm_migration::schema::{pk_uuid, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("undo")
        .column(pk_uuid("annotation_id"))
        .column(uuid("job_id"))
        .column(timestamp_with_time_zone("at"))
        .foreign_key("undo_annotation", ["annotation_id"], "annotation", ["id"])
        .index("undo_job", ["job_id"])
        .append_only()
}
