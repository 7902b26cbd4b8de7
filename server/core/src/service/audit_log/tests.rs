mod leaving;
mod sealed;

use std::collections::BTreeSet;

use futures::TryStreamExt as _;
use sea_orm::ConnectionTrait as _;
use serde_json::json;
use time::Duration;
use undertone_api::audit_log::{ActorKind, AuditEntry, AuditPlace, AuditQuery, broken_at, origin};
use undertone_api::member::Role;
use undertone_api::page::PageQuery;
use undertone_api::problem::Code;
use uuid::Uuid;

use super::{
    AuditAction, AuditAuthor, AuditLogFormat, LONGEST_DETAIL, NewAuditEntry, check as examine, export, list, record,
};
use crate::auth::Place;
use crate::error::Error;
use crate::testing::{TestApp, on_both, tamper};

async fn write(app: &TestApp, act: NewAuditEntry<'_>) {
    app.ctx.db.write("record", async |tx| record(&app.ctx, tx, act.clone()).await).await.expect("written");
}

fn act(by: AuditAuthor, what: AuditAction, place: Place) -> NewAuditEntry<'static> {
    NewAuditEntry { by, what, place, subject: Some(("dataset", "a".to_owned())), detail: json!({ "name": "calls" }) }
}

on_both! {
    async fn entries_are_numbered_by_place_and_their_chain_holds(app: &TestApp) {
        let founded = app.founded().await;
        let north = Place::Organization(founded.north.0);
        let before = list(&app.ctx, &founded.north.1.actor(app).await, AuditPlace::Organization(founded.north.0),
            &AuditQuery::default(), &PageQuery::default()).await.expect("listed").items.len() as u64;
        for _ in 0..3 {
            write(app, act(AuditAuthor::System, AuditAction::BudgetSet, north)).await;
            write(app, act(AuditAuthor::System, AuditAction::BackupMade, Place::Server)).await;
        }
        let actor = founded.north.1.actor(app).await;
        let place = AuditPlace::Organization(founded.north.0);
        let checked = examine(&app.ctx, &actor, place).await.expect("checked");
        assert_eq!((checked.entries, checked.broken_at), (before + 3, None));
        let page = PageQuery { cursor: None, limit: Some(2) };
        let first = list(&app.ctx, &actor, place, &AuditQuery::default(), &page).await.expect("listed");
        let numbers: Vec<u64> = first.items.iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, [before + 3, before + 2]);
        assert_eq!(first.items[0].hash, checked.head);
        let page = PageQuery { cursor: first.next, limit: Some(200) };
        let rest = list(&app.ctx, &actor, place, &AuditQuery::default(), &page).await.expect("listed");
        assert_eq!((rest.items.len() as u64, rest.next), (before + 1, None));
    }

    async fn a_failed_operation_leaves_no_entry(app: &TestApp) {
        let operator = app.operator().await.actor(app).await;
        let head = examine(&app.ctx, &operator, AuditPlace::Server).await.expect("checked").head;
        let failed: Result<(), Error> = app.ctx.db.write("fail", async |tx| {
            record(&app.ctx, tx, act(AuditAuthor::System, AuditAction::BackupMade, Place::Server)).await?;
            Err(Error::wrong_state("no"))
        }).await;
        assert!(failed.is_err());
        assert_eq!(examine(&app.ctx, &operator, AuditPlace::Server).await.expect("checked").head, head);
    }

    async fn altered_audit_log_entry_is_refused_or_breaks_the_chain(app: &TestApp) {
        let operator = app.operator().await.actor(app).await;
        for _ in 0..3 {
            write(app, act(AuditAuthor::System, AuditAction::BackupMade, Place::Server)).await;
        }
        let refused = app.ctx.db.write("change", async |tx| {
            Ok(tx.execute_unprepared("UPDATE audit_log SET what = 'backup_restored'").await?)
        }).await;
        assert!(refused.is_err(), "rows are append-only");
        let before = examine(&app.ctx, &operator, AuditPlace::Server).await.expect("checked");
        assert_eq!(before.broken_at, None);
        let last = before.entries;
        let change = format!("UPDATE audit_log SET what = 'backup_restored' WHERE place = 'server' AND number = {last}");
        tamper(&app.ctx, "audit_log", &change).await;
        let after = examine(&app.ctx, &operator, AuditPlace::Server).await.expect("checked");
        assert_eq!(after.broken_at, Some(last));
    }

    async fn each_filter_keeps_what_it_names(app: &TestApp) {
        let founded = app.founded().await;
        let admin = founded.north.1.actor(app).await;
        let (place, id) = (Place::Organization(founded.north.0), AuditPlace::Organization(founded.north.0));
        let member = admin.id();
        app.clock.advance(Duration::hours(1));
        write(app, act(AuditAuthor::Member(member), AuditAction::BudgetSet, place)).await;
        app.clock.advance(Duration::hours(1));
        write(app, NewAuditEntry { subject: Some(("worker", "b".to_owned())), ..act(AuditAuthor::System, AuditAction::WorkerEnrolled, place) }).await;
        let now = app.ctx.now();
        let search = async |query: AuditQuery| {
            let page = list(&app.ctx, &admin, id, &query, &PageQuery::default()).await.expect("listed");
            let since_founded = |entry: &&AuditEntry| entry.at > now - Duration::minutes(90);
            page.items.iter().filter(since_founded).map(|entry| entry.what).collect::<Vec<_>>()
        };
        let all = AuditQuery::default;
        assert_eq!(search(all()).await, [AuditAction::WorkerEnrolled, AuditAction::BudgetSet]);
        assert_eq!(search(AuditQuery { by: Some(member.0), ..all() }).await, [AuditAction::BudgetSet]);
        assert_eq!(search(AuditQuery { hand: Some(ActorKind::System), ..all() }).await, [AuditAction::WorkerEnrolled]);
        assert_eq!(search(AuditQuery { what: Some(AuditAction::BudgetSet), ..all() }).await, [AuditAction::BudgetSet]);
        assert_eq!(search(AuditQuery { subject_kind: Some("worker".to_owned()), ..all() }).await, [AuditAction::WorkerEnrolled]);
        assert_eq!(search(AuditQuery { subject: Some("a".to_owned()), ..all() }).await, [AuditAction::BudgetSet]);
        assert_eq!(search(AuditQuery { since: Some(now), ..all() }).await, [AuditAction::WorkerEnrolled]);
        assert_eq!(search(AuditQuery { until: Some(now), ..all() }).await, [AuditAction::BudgetSet]);
        assert!(search(AuditQuery { by: Some(Uuid::nil()), ..all() }).await.is_empty());
        let strange = AuditQuery { since: Some(now), until: Some(now), ..all() };
        let refused = list(&app.ctx, &admin, id, &strange, &PageQuery::default()).await.expect_err("no span");
        assert_eq!(refused.code(), Code::ValidationFailed);
        let page = PageQuery { cursor: Some("x".to_owned()), limit: None };
        let refused = list(&app.ctx, &admin, id, &all(), &page).await.expect_err("no cursor");
        assert_eq!(refused.code(), Code::ValidationFailed);
    }

    async fn a_log_is_for_its_own_admins_and_auditors(app: &TestApp) {
        let founded = app.founded().await;
        let steward = app.joins(&founded.north.1, founded.north.0, "Steward", &[Role::DataSteward]).await;
        let auditor = app.joins(&founded.north.1, founded.north.0, "Auditor", &[Role::Auditor]).await;
        let read = async |person: &crate::testing::Person, place| {
            let actor = person.actor(app).await;
            list(&app.ctx, &actor, place, &AuditQuery::default(), &PageQuery::default()).await.err().map(|error| error.code())
        };
        let (server, here) = (AuditPlace::Server, AuditPlace::Consortium(founded.consortium));
        let north = AuditPlace::Organization(founded.north.0);
        let codes = [
            read(&founded.operator, server).await,
            read(&founded.operator, here).await,
            read(&founded.north.1, north).await,
            read(&auditor, here).await,
            read(&auditor, north).await,
        ];
        assert_eq!(codes, [None; 5], "may read");
        let codes = [
            read(&founded.north.1, server).await,
            read(&founded.north.1, here).await,
            read(&steward, north).await,
            read(&founded.south.1, north).await,
        ];
        assert_eq!(codes, [Some(Code::Forbidden); 4], "may not read");
    }

    async fn what_is_taken_away_is_whole_and_says_who_took_it(app: &TestApp) {
        let operator = app.operator().await.actor(app).await;
        for _ in 0..3 {
            write(app, act(AuditAuthor::Member(operator.id()), AuditAction::BackupMade, Place::Server)).await;
        }
        let file = export(&app.ctx, &operator, AuditPlace::Server, AuditQuery::default(), AuditLogFormat::Jsonl).await.expect("may");
        let bytes: Vec<Vec<u8>> = file.body.try_collect().await.expect("read");
        let text = String::from_utf8(bytes.concat()).expect("text");
        let entries: Vec<AuditEntry> =
            text.lines().map(|line| serde_json::from_str(line).expect("an entry")).collect();
        assert_eq!(broken_at((0, &origin()), &entries), None, "{text}");
        let last = entries.last().expect("entries");
        assert_eq!((last.what, last.by.name.as_deref()), (AuditAction::AuditLogExported, Some("Operator")));
        let table = export(&app.ctx, &operator, AuditPlace::Server, AuditQuery::default(), AuditLogFormat::Csv).await.expect("may");
        let bytes: Vec<Vec<u8>> = table.body.try_collect().await.expect("read");
        let text = String::from_utf8(bytes.concat()).expect("text");
        assert_eq!(text.lines().count(), entries.len() + 2, "a heading, and the second export");
        assert!(text.starts_with("number,at,hand,by,name,what,"), "{text}");
    }

    async fn a_detail_that_is_too_long_is_left_out(app: &TestApp) {
        let operator = app.operator().await.actor(app).await;
        let detail = json!({ "name": "x".repeat(LONGEST_DETAIL) });
        write(app, NewAuditEntry { detail, ..act(AuditAuthor::System, AuditAction::BackupMade, Place::Server) }).await;
        let page = list(&app.ctx, &operator, AuditPlace::Server, &AuditQuery::default(), &PageQuery::default()).await;
        let entry = page.expect("listed").items.remove(0);
        assert_eq!(entry.detail, json!({ "omitted_bytes": LONGEST_DETAIL + 11 }));
    }
}

#[test]
fn a_name_in_a_table_is_no_formula() {
    let names: BTreeSet<_> = ["=1+1", "@x", "Ada"].map(super::read::harmless).into();
    assert_eq!(names, ["'=1+1", "'@x", "Ada"].map(str::to_owned).into());
}
