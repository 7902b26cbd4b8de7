//! Questions assigned to members, with the ends of the assignments.

use sea_orm_migration::schema::{timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("hold")
        .column(uuid("question_id"))
        .column(uuid("member_id"))
        .column(uuid("job_id"))
        .column(timestamp_with_time_zone("until"))
        .primary_key_with_name("hold_pk", ["question_id", "member_id"])
        .foreign_key("hold_question", ["question_id"], "question", ["id"])
        .index("hold_job", ["job_id", "until"])
}
