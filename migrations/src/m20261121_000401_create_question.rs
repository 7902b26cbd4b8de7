//! Pools of questions that sites release, the selected questions, and people's answers. All tables except `asking`,
//! `tally` and `hold` are tables of record: an undone answer remains, and has a row in `undo`.

use sea_orm_migration::prelude::*;
use sea_orm_migration::schema::{
    big_integer, big_integer_null, double, integer, pk_uuid, string, string_null, text, timestamp_with_time_zone,
    timestamp_with_time_zone_null, uuid, uuid_null,
};

use crate::append_only::append_only;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

fn of_job(name: &str, table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create().name(name).from(table, "job_id").to("job", "id").to_owned()
}

fn of_question(name: &str, table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create().name(name).from(table, "question_id").to("question", "id").to_owned()
}

/// Returns the table of pools, one for each participant; their texts are in the object store until the end of the job.
fn pool() -> TableCreateStatement {
    Table::create()
        .table("pool")
        .col(uuid("job_id"))
        .col(uuid("dataset_id"))
        .col(string("series"))
        .col(integer("round"))
        .col(string("digest"))
        .col(string("object"))
        .col(big_integer("size"))
        .col(big_integer("questions"))
        .col(timestamp_with_time_zone("accepted_at"))
        .primary_key(Index::create().name("pool_pk").col("job_id").col("dataset_id").col("series").col("round"))
        .foreign_key(
            ForeignKey::create()
                .name("pool_participant")
                .from("pool", ("job_id", "dataset_id"))
                .to("participant", ("job_id", "dataset_id")),
        )
        .to_owned()
}

/// Returns the table of rounds of questions; round 0 is that of the pools, and has a row once it is closed.
fn asking() -> TableCreateStatement {
    Table::create()
        .table("asking")
        .col(uuid("job_id"))
        .col(integer("round"))
        .col(big_integer("questions"))
        .col(timestamp_with_time_zone("opened_at"))
        .col(timestamp_with_time_zone("deadline"))
        .col(timestamp_with_time_zone_null("closed_at"))
        .primary_key(Index::create().name("asking_pk").col("job_id").col("round"))
        .foreign_key(&mut of_job("asking_job", "asking"))
        .to_owned()
}

/// Returns the table of selected questions; `place` is the position in the round's queue, from 0.
fn question() -> TableCreateStatement {
    Table::create()
        .table("question")
        .col(pk_uuid("id"))
        .col(uuid("job_id"))
        .col(uuid("dataset_id"))
        .col(integer("round"))
        .col(integer("place"))
        .col(double("uncertainty"))
        .col(text("text"))
        .col(big_integer_null("count"))
        .col(timestamp_with_time_zone("chosen_at"))
        .foreign_key(&mut of_job("question_job", "question"))
        .to_owned()
}

/// Returns the table of the numbers of valid answers: derived from `annotation` and `undo`, and stored to find open
/// questions.
fn tally() -> TableCreateStatement {
    Table::create()
        .table("tally")
        .col(pk_uuid("question_id"))
        .col(uuid("job_id"))
        .col(integer("round"))
        .col(integer("answers"))
        .foreign_key(&mut of_question("tally_question", "tally"))
        .to_owned()
}

/// Returns the table of annotator numbers of a job, each for a member or a named import.
fn annotator() -> TableCreateStatement {
    Table::create()
        .table("annotator")
        .col(uuid("job_id"))
        .col(integer("number"))
        .col(uuid_null("member_id"))
        .col(string_null("name"))
        .col(timestamp_with_time_zone("joined_at"))
        .primary_key(Index::create().name("annotator_pk").col("job_id").col("number"))
        .foreign_key(&mut of_job("annotator_job", "annotator"))
        .to_owned()
}

/// Returns the table of answers: `answer` is `label`, `unsure` or `skip`.
fn annotation() -> TableCreateStatement {
    Table::create()
        .table("annotation")
        .col(pk_uuid("id"))
        .col(uuid("job_id"))
        .col(uuid("question_id"))
        .col(integer("round"))
        .col(integer("annotator"))
        .col(string("answer"))
        .col(string_null("label"))
        .col(timestamp_with_time_zone("at"))
        .foreign_key(&mut of_question("annotation_question", "annotation"))
        .to_owned()
}

/// Returns the table of withdrawn answers.
fn undo() -> TableCreateStatement {
    Table::create()
        .table("undo")
        .col(pk_uuid("annotation_id"))
        .col(uuid("job_id"))
        .col(timestamp_with_time_zone("at"))
        .foreign_key(ForeignKey::create().name("undo_annotation").from("undo", "annotation_id").to("annotation", "id"))
        .to_owned()
}

/// Returns the table of questions assigned to members, with the ends of the assignments.
fn hold() -> TableCreateStatement {
    Table::create()
        .table("hold")
        .col(uuid("question_id"))
        .col(uuid("member_id"))
        .col(uuid("job_id"))
        .col(timestamp_with_time_zone("until"))
        .primary_key(Index::create().name("hold_pk").col("question_id").col("member_id"))
        .foreign_key(&mut of_question("hold_question", "hold"))
        .to_owned()
}

fn indexes() -> [IndexCreateStatement; 8] {
    let index = |name: &str, table: &'static str, columns: &[&'static str], unique: bool| {
        let mut index = Index::create().name(name).table(table).to_owned();
        for column in columns {
            index.col(*column);
        }
        if unique {
            index.unique();
        }
        index
    };
    [
        index("question_queue", "question", &["job_id", "round", "place"], true),
        index("tally_left", "tally", &["job_id", "round", "answers"], false),
        index("annotator_member", "annotator", &["job_id", "member_id"], true),
        index("annotator_name", "annotator", &["job_id", "name"], true),
        index("annotation_own", "annotation", &["job_id", "round", "annotator"], false),
        index("annotation_question", "annotation", &["question_id"], false),
        index("undo_job", "undo", &["job_id"], false),
        index("hold_job", "hold", &["job_id", "until"], false),
    ]
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in [pool(), asking(), question(), tally(), annotator(), annotation(), undo(), hold()] {
            manager.create_table(table).await?;
        }
        for index in indexes() {
            manager.create_index(index).await?;
        }
        for table in ["pool", "question", "annotator", "annotation", "undo"] {
            append_only(manager, table).await?;
        }
        Ok(())
    }
}
