//! The numbers of valid answers: derived from `annotation` and `undo`, and stored to find open questions.

use sea_orm_migration::schema::{integer, pk_uuid, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("tally")
        .column(pk_uuid("question_id"))
        .column(uuid("job_id"))
        .column(integer("round"))
        .column(integer("answers"))
        .foreign_key("tally_question", ["question_id"], "question", ["id"])
        .index("tally_left", ["job_id", "round", "answers"])
}
