#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use futures::{StreamExt as _, TryStreamExt as _};
use sea_orm::EntityTrait as _;
use undertone_api::job::JobState;
use undertone_api::problem::Code;
use undertone_api::signed::{Countersignature, Signed};

use super::{examine, examine_state, export, export_consortium};
use crate::ctx::Ctx;
use crate::db::READERS;
use crate::model::{countersignature, log_head};
use crate::service::finish::{self, PartOutcome};
use crate::service::restoration::state_restoration;
use crate::service::site_key::adopt_keys;
use crate::service::world::TestConsortium;
use crate::testing::{on_both, open_for_tests, tamper};
use crate::verify::{Pins, Report, file};

/// Makes a consortium with every kind of ledger record: limits set and raised, one job refused, one paid for and
/// settled, one open.
async fn run_jobs(ctx: &Ctx) -> TestConsortium {
    let mut world = TestConsortium::new(ctx, 2, 12.0).await;
    let job = world.queued(3).await;
    for site in [1, 2] {
        let lease = world.lease(site).await;
        world.submit(&job, site, &lease, 1, &[1.0]).await.unwrap();
        let crashed = world.sites[site].receipt(&job, 2, 1);
        let gave_up = PartOutcome::GaveUp("enough".to_owned());
        finish::finish(ctx, world.sites[site].worker, &lease, &gave_up, &[crashed]).await.unwrap();
    }
    let (first, second) =
        (world.propose(world.spec(100)).await.unwrap(), world.propose(world.spec(100)).await.unwrap());
    world.approved(first).await;
    assert_eq!(world.approved(second).await.summary.state, JobState::Refused);
    world.set_budget(&world.sites[1], 15.0).await.unwrap();
    world.queued(2).await;
    world
}

async fn examine_database(ctx: &Ctx, pins: Pins) -> Report {
    examine(&ctx.db, &ctx.signer.verifying_key(), pins, ctx.now()).await.unwrap()
}

/// Returns the newest head, as a site stores it.
async fn load_pins(ctx: &Ctx) -> Pins {
    let head = crate::service::log::newest(ctx.db.read()).await.unwrap().unwrap();
    Pins { server_key: None, head: Some(Signed { payload: head.payload, signature: head.signature }) }
}

/// Asserts that the first finding of the examination, and of a bundle of the same database, names `place` and contains
/// `what`.
#[track_caller]
fn says(report: &Report, place: &str, what: &str) {
    let first = report.findings.first().unwrap_or_else(|| panic!("nothing was found of: {place}: {what}"));
    assert!(first.place.contains(place) && first.what.contains(what), "{report}");
}

/// Reads one value from the database.
async fn value(ctx: &Ctx, sql: &str) -> i64 {
    use sea_orm::{ConnectionTrait as _, Statement};
    let statement = Statement::from_string(ctx.db.read().get_database_backend(), sql.to_owned());
    ctx.db.read().query_one_raw(statement).await.unwrap().unwrap().try_get_by_index(0).unwrap()
}

on_both! {
    async fn unread_exports_hold_no_connection_to_the_database(app: &TestApp) {
        let world = Box::pin(run_jobs(&app.ctx)).await;
        let steward = &world.sites[1].steward;
        let first = export_consortium(&app.ctx, steward, world.consortium).await.unwrap();
        let second = export_consortium(&app.ctx, steward, world.consortium).await.unwrap();
        let third = export_consortium(&app.ctx, steward, world.consortium).await;
        assert_eq!(third.err().unwrap().code(), Code::RateLimited);
        // Both have begun to read the database: one that had not would find no connection below.
        let [mut first, mut second] = [first, second].map(|export| Box::pin(export.peekable()));
        assert!(first.as_mut().peek().await.is_some() && second.as_mut().peek().await.is_some());
        let mut snapshots = Vec::new();
        for _ in 0..READERS {
            // Each waits while an export is written, and no longer.
            snapshots.push(app.ctx.db.snapshot().await.unwrap());
        }
        let mut bundles = Vec::new();
        for unread in [first, second] {
            let bytes: Vec<u8> = unread.map_ok(|piece| piece.to_vec()).try_concat().await.unwrap();
            bundles.push(bytes);
        }
        assert!(bundles[0] == bundles[1] && bundles[0].len() > 1000, "both are whole");
    }

    async fn an_untouched_ledger_holds_in_the_database_and_in_a_bundle(app: &TestApp) {
        let world = Box::pin(run_jobs(&app.ctx)).await;
        let report = examine_database(&app.ctx, load_pins(&app.ctx).await).await;
        assert!(report.holds(), "{report}");
        let leaves = value(&app.ctx, "SELECT COUNT(*) FROM log_leaf").await as u64;
        assert_eq!((report.leaves, report.pinned_size, report.receipts, report.accounts), (leaves, Some(leaves), 4, 2));
        assert_eq!(report.entries, value(&app.ctx, "SELECT COUNT(*) FROM ledger_entry").await as u64);

        let mut bytes = Vec::new();
        let key = app.ctx.signer.verifying_key();
        let changed = export(&app.ctx.db, &key, app.ctx.now(), |some| { bytes.extend_from_slice(some); Ok(()) }).await;
        assert_eq!(changed.unwrap(), 0);
        let pins = Pins { server_key: Some(key), ..load_pins(&app.ctx).await };
        let elsewhere = file::examine(&bytes[..], pins).unwrap();
        assert_eq!(elsewhere, report);
        drop(world);
    }

    async fn a_ledger_from_before_the_log_is_in_it_after_the_next_start(app: &TestApp) {
        let world = Box::pin(run_jobs(&app.ctx)).await;
        let leaves = value(&app.ctx, "SELECT COUNT(*) FROM log_leaf").await;
        for table in ["countersignature", "log_head", "log_leaf"] {
            tamper(&app.ctx, table, &format!("DELETE FROM {table}")).await;
        }
        assert!(!examine_database(&app.ctx, Pins::default()).await.holds());
        drop(app.restarted().await);
        let adopted = "SELECT COUNT(*) FROM log_leaf WHERE kind NOT IN ('audit', 'worker_key')";
        assert_eq!(value(&app.ctx, adopted).await, leaves);
        let report = examine_database(&app.ctx, Pins::default()).await;
        assert!(report.holds() && report.receipts == 4, "{report}");
        drop(world);
    }

    async fn a_server_with_another_key_does_not_start_on_the_log(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 12.0).await;
        std::fs::write(app.data_dir().join("signing.key"), "07".repeat(32)).unwrap();
        let started = open_for_tests(app.ctx.config.clone(), &app.clock, 3).await;
        let refused = started.map(|_| ()).unwrap_err();
        let source = std::error::Error::source(&refused).map(ToString::to_string).unwrap_or_default();
        assert!(source.contains("put the old key back"), "{refused}: {source}");
        drop(world);
    }

    async fn an_empty_ledger_holds(app: &TestApp) {
        let report = examine_database(&app.ctx, Pins::default()).await;
        assert!(report.holds() && report.leaves == 0, "{report}");
    }

    async fn an_altered_row_is_named(app: &TestApp) {
        Box::pin(run_jobs(&app.ctx)).await;
        tamper(&app.ctx, "ledger_entry", "UPDATE ledger_entry SET count = 0 WHERE kind = 'settle' AND sequence = 4").await;
        says(&examine_database(&app.ctx, Pins::default()).await, "row 4 of account", "it is not what was written");
    }

    async fn a_row_altered_with_its_hashes_is_named_by_the_head(app: &TestApp) {
        Box::pin(run_jobs(&app.ctx)).await;
        // An attacker can repair the row's hash and its place in the log, but not the server's signatures.
        let zeros = "0".repeat(64);
        tamper(&app.ctx, "log_leaf", &format!("UPDATE log_leaf SET nodes = '{zeros}' WHERE position = 4")).await;
        let report = examine_database(&app.ctx, Pins::default()).await;
        assert!(report.findings.iter().any(|finding| finding.what.contains("it does not cover")), "{report}");
    }

    async fn a_deleted_row_is_named(app: &TestApp) {
        Box::pin(run_jobs(&app.ctx)).await;
        tamper(&app.ctx, "ledger_entry", "DELETE FROM ledger_entry WHERE kind = 'settle' AND sequence = 4").await;
        says(&examine_database(&app.ctx, Pins::default()).await, "row 4 of account", "it is missing");
    }

    async fn a_row_with_its_place_removed_is_named(app: &TestApp) {
        Box::pin(run_jobs(&app.ctx)).await;
        tamper(&app.ctx, "log_leaf", "DELETE FROM log_leaf WHERE position = 5").await;
        says(&examine_database(&app.ctx, Pins::default()).await, "position 5", "some are missing");
    }

    async fn a_row_put_in_from_the_side_is_named(app: &TestApp) {
        Box::pin(run_jobs(&app.ctx)).await;
        tamper(
            &app.ctx,
            "ledger_entry",
            "INSERT INTO ledger_entry SELECT account_id, sequence + 1000, kind, job_id, dataset_id, series, round, attempt, \
             event, count, evaluator, NULL, previous, hash, at, certificate FROM ledger_entry WHERE kind = 'settle'",
        ).await;
        says(&examine_database(&app.ctx, Pins::default()).await, "1004", "it is not in the log");
    }

    async fn an_end_cut_off_below_the_heads_is_noticed(app: &TestApp) {
        Box::pin(run_jobs(&app.ctx)).await;
        let last = value(&app.ctx, "SELECT MAX(size) FROM log_head").await - 1;
        tamper(&app.ctx, "log_leaf", &format!("DELETE FROM log_leaf WHERE position >= {last}")).await;
        says(&examine_database(&app.ctx, Pins::default()).await, &format!("position {last}"), "its end is missing");
    }

    async fn an_older_copy_holds_by_itself_and_is_noticed_by_a_sites_head(app: &TestApp) {
        let ctx = &app.ctx;
        let world = Box::pin(run_jobs(ctx)).await;
        let older = ctx.db.snapshot().await.unwrap();
        let before = log_head::Entity::find().all(&older).await.unwrap().len();
        world.queued(1).await;
        let pins = load_pins(ctx).await;
        let copy = async |pins| {
            let key = ctx.signer.verifying_key();
            examine_state(&older, &key, pins, ctx.now()).await.unwrap()
        };
        let alone = copy(Pins::default()).await;
        assert!(alone.holds() && alone.heads == before as u64, "{alone}");
        says(&copy(pins.clone()).await, &format!("position {}", alone.leaves), "a site keeps a signed head of");
        assert!(examine_database(ctx, pins).await.holds());
    }

    async fn site_head_reveals_a_forked_log(app: &TestApp) {
        Box::pin(run_jobs(&app.ctx)).await;
        let signed = load_pins(&app.ctx).await.head.unwrap();
        let head: undertone_api::signed::LogHead = serde_json::from_str(&signed.payload).unwrap();
        let other = undertone_api::signed::LogHead { root: "00".repeat(32), ..head.clone() };
        let pins = Pins { head: Some(Signed::new(&other, &app.ctx.signer).unwrap()), server_key: None };
        says(&examine_database(&app.ctx, pins).await, &format!("the first {} leaves", head.size), "not what a site saw");
    }

    async fn a_forged_receipt_is_named(app: &TestApp) {
        Box::pin(run_jobs(&app.ctx)).await;
        tamper(&app.ctx, "receipt", "UPDATE receipt SET signature = REPLACE(signature, 'a', 'b') WHERE sequence = 2").await;
        says(&examine_database(&app.ctx, Pins::default()).await, "receipt 2 of worker", "signature");
    }

    async fn a_removed_receipt_is_named(app: &TestApp) {
        Box::pin(run_jobs(&app.ctx)).await;
        tamper(&app.ctx, "countersignature", "DELETE FROM countersignature WHERE sequence = 2").await;
        says(&examine_database(&app.ctx, Pins::default()).await, "row 3 of account", "countersignature, is missing");
    }

    async fn a_swapped_countersignature_is_named(app: &TestApp) {
        Box::pin(run_jobs(&app.ctx)).await;
        let rows = countersignature::Entity::find().all(app.ctx.db.read()).await.unwrap();
        let (one, other) = (&rows[0], &rows[1]);
        let swap = format!(
            "UPDATE countersignature SET payload = '{}', signature = '{}' WHERE position = {}",
            other.payload, other.signature, one.position
        );
        tamper(&app.ctx, "countersignature", &swap).await;
        let report = examine_database(&app.ctx, Pins::default()).await;
        assert!(report.findings.iter().any(|finding| finding.what.contains("is for another receipt")), "{report}");
        // Even a countersignature that the server really signed must name the position of the charge.
        let word: Countersignature = serde_json::from_str(&one.payload).unwrap();
        let moved = Signed::new(&Countersignature { position: word.position + 1, ..word }, &app.ctx.signer).unwrap();
        let change = format!(
            "UPDATE countersignature SET payload = '{}', signature = '{}' WHERE position = {}",
            moved.payload, moved.signature, one.position
        );
        tamper(&app.ctx, "countersignature", &change).await;
        let report = examine_database(&app.ctx, Pins::default()).await;
        assert!(report.findings.iter().any(|finding| finding.what.contains("names position")), "{report}");
    }

    async fn a_wrong_balance_and_a_wrong_reservation_are_named(app: &TestApp) {
        let world = Box::pin(run_jobs(&app.ctx)).await;
        let empty = serde_json::to_string(&undertone_privacy::ledger::Balance::new(None)).unwrap();
        tamper(&app.ctx, "account", &format!("UPDATE account SET balance = '{empty}'")).await;
        says(&examine_database(&app.ctx, Pins::default()).await, "account", "its balance is not what its rows come to");
        drop(world);
        tamper(&app.ctx, "reservation", "UPDATE reservation SET committed = committed - 1 WHERE settled").await;
        let report = examine_database(&app.ctx, Pins::default()).await;
        assert!(report.findings.iter().any(|finding| finding.place.contains("reservation of job")), "{report}");
        assert!(report.findings.iter().any(|finding| finding.what.contains("count of releases")), "{report}");
    }

    async fn a_raised_limit_and_an_account_for_others_are_named(app: &TestApp) {
        Box::pin(run_jobs(&app.ctx)).await;
        tamper(&app.ctx, "budget", "UPDATE budget SET epsilon = 1000.0 WHERE epsilon = 15.0").await;
        says(&examine_database(&app.ctx, Pins::default()).await, "limit", "it is not what was written");
        tamper(&app.ctx, "account", "UPDATE account SET unit = 'speaker'").await;
        says(&examine_database(&app.ctx, Pins::default()).await, "account", "it is not what was written");
    }

    async fn a_head_that_another_key_signed_is_named(app: &TestApp) {
        Box::pin(run_jobs(&app.ctx)).await;
        let heads = log_head::Entity::find().all(app.ctx.db.read()).await.unwrap();
        let head: undertone_api::signed::LogHead = serde_json::from_str(&heads[1].payload).unwrap();
        let strange = Signed::new(&head, &ed25519_dalek::SigningKey::from_bytes(&[3; 32])).unwrap();
        let change = format!("UPDATE log_head SET signature = '{}' WHERE size = {}", strange.signature, heads[1].size);
        tamper(&app.ctx, "log_head", &change).await;
        says(&examine_database(&app.ctx, Pins::default()).await, "the head after position", "signature does not hold");
    }

    async fn every_table_of_record_refuses_to_be_changed(app: &TestApp) {
        Box::pin(run_jobs(&app.ctx)).await;
        // Rows of tables that this consortium did not fill.
        let rows = [
            "INSERT INTO overlap SELECT id, 9, '{}', 'said', id, 'a', CURRENT_TIMESTAMP FROM consortium LIMIT 1",
            "INSERT INTO certificate SELECT id, 'd', 'p', 's', CURRENT_TIMESTAMP FROM job \
             WHERE id NOT IN (SELECT job_id FROM certificate) LIMIT 1",
            "INSERT INTO audit SELECT job_id, dataset_id, 'd', 'p', 's', 'a', 'v', CURRENT_TIMESTAMP FROM participant LIMIT 1",
            "INSERT INTO account_freeze SELECT d.organization_id, d.lineage_id, 9, d.id, j.id, true, 'r', 'b', CURRENT_TIMESTAMP \
             FROM dataset d, job j LIMIT 1",
        ];
        for row in rows {
            app.ctx.db.write("insert", async |tx| {
                use sea_orm::ConnectionTrait as _;
                Ok(tx.execute_unprepared(row).await?)
            }).await.unwrap();
        }
        let ctx = &app.ctx;
        state_restoration(&ctx.db, &ctx.signer, ctx.now(), "a test").await.unwrap();
        adopt_keys(ctx).await.unwrap();
        let tables = [
            ("restoration", "digest"), ("key_event", "event"),
            ("overlap", "statement"), ("certificate", "digest"), ("audit", "verdict"), ("account_freeze", "reason"),
            ("ledger_entry", "count"), ("receipt", "round"), ("budget", "epsilon"), ("decision", "approve"),
            ("log_leaf", "nodes"), ("log_head", "root"), ("countersignature", "receipt"),
        ];
        for (table, column) in tables {
            assert!(value(&app.ctx, &format!("SELECT COUNT(*) FROM {table}")).await > 0, "{table} must have rows to refuse for");
            for change in [format!("DELETE FROM {table}"), format!("UPDATE {table} SET {column} = {column}")] {
                let refused = app.ctx.db.write("tamper", async |tx| {
                    use sea_orm::ConnectionTrait as _;
                    Ok(tx.execute_unprepared(&change).await?)
                });
                let crate::error::Error::Database(error) = refused.await.expect_err("refused by a trigger") else {
                    panic!("{change}: another error");
                };
                assert!(error.to_string().contains(&format!("{table} is append-only")), "{change}: {error}");
            }
        }
    }

    async fn a_bundle_that_was_cut_changed_or_put_together_is_noticed(app: &TestApp) {
        Box::pin(run_jobs(&app.ctx)).await;
        let mut bytes = Vec::new();
        let key = app.ctx.signer.verifying_key();
        export(&app.ctx.db, &key, app.ctx.now(), |some| { bytes.extend_from_slice(some); Ok(()) }).await.unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let judge = |text: &str, pins: Pins| file::examine(text.as_bytes(), pins).unwrap();
        assert!(judge(&text, Pins::default()).holds());

        let prefix = &text[..=text.trim_end().rfind('\n').unwrap()];
        assert!(judge(prefix, Pins::default()).findings.iter().any(|finding| finding.what.contains("the file was cut")));
        let changed = judge(&text.replacen("\\\"count\\\":3", "\\\"count\\\":4", 1), Pins::default());
        says(&changed, "row 1 of account", "signed manifest charges");
        assert!(changed.findings.iter().any(|finding| finding.what.contains("it does not cover")), "{changed}");
        assert!(changed.findings.iter().any(|finding| finding.what.contains("not those that were written")), "{changed}");
        // A complete bundle of another server, signed with another key throughout.
        let other = ed25519_dalek::SigningKey::from_bytes(&[3; 32]).verifying_key();
        let pins = Pins { server_key: Some(other), head: None };
        says(&judge(&text, pins), "the beginning", "another server's ledger");
    }
}
