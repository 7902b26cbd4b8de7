//! Answers to questions: `answer` is `label`, `unsure` or `skip`.

use sea_orm_migration::schema::{integer, pk_uuid, string, string_null, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("annotation")
        .column(pk_uuid("id"))
        .column(uuid("job_id"))
        .column(uuid("question_id"))
        .column(integer("round"))
        .column(integer("annotator"))
        .column(string("answer"))
        .column(string_null("label"))
        .column(timestamp_with_time_zone("at"))
        .foreign_key("annotation_question", ["question_id"], "question", ["id"])
        .index("annotation_own", ["job_id", "round", "annotator"])
        .index("annotation_question", ["question_id"])
        .append_only()
}
