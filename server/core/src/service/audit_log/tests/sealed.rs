//! Entries of the audit log in the signed log.

use sea_orm::{EntityTrait as _, PaginatorTrait as _};
use serde_json::json;

use super::super::{AT_ONCE, NewAuditEntry, record, seal};
use super::{AuditAction, AuditAuthor, Place, act, write};
use crate::ctx::Ctx;
use crate::model::{audit_pending, audit_seal};
use crate::service::bundle;
use crate::testing::{TestApp, on_both, tamper};
use crate::verify::{Pins, Report, file};

async fn examine_log(ctx: &Ctx) -> Report {
    bundle::examine(&ctx.db, &ctx.signer.verifying_key(), Pins::default(), ctx.now()).await.expect("examined")
}

/// Writes and seals three entries of the server's log.
async fn seal_log(app: &TestApp) {
    app.operator().await;
    for _ in 0..3 {
        write(app, act(AuditAuthor::System, AuditAction::BackupMade, Place::Server)).await;
    }
    assert!(seal(&app.ctx).await.expect("sealed") >= 3);
    assert_eq!(seal(&app.ctx).await.expect("sealed"), 0, "each entry has one place");
}

on_both! {
    async fn sealed_entries_hold_in_the_database_and_in_a_bundle(app: &TestApp) {
        seal_log(app).await;
        let report = examine_log(&app.ctx).await;
        let seals = audit_seal::Entity::find().count(app.ctx.db.read()).await.expect("counted");
        assert!(report.holds() && report.audit_entries == seals && seals >= 3, "{report}");
        let (mut bytes, key) = (Vec::new(), app.ctx.signer.verifying_key());
        let to = |some: &[u8]| { bytes.extend_from_slice(some); Ok(()) };
        assert_eq!(bundle::export(&app.ctx.db, &key, app.ctx.now(), to).await.expect("written"), 0);
        assert_eq!(file::examine(&bytes[..], Pins::default()).expect("read"), report);
        let changed = String::from_utf8(bytes).expect("JSON").replacen("backup_made", "backup_kept", 1);
        assert!(!file::examine(changed.as_bytes(), Pins::default()).expect("read").holds());
    }

    async fn altered_entry_is_found_by_the_examination(app: &TestApp) {
        seal_log(app).await;
        let change = "UPDATE audit_log SET what = 'backup_restored' WHERE what = 'backup_made'";
        tamper(&app.ctx, "audit_log", change).await;
        let report = examine_log(&app.ctx).await;
        let is_reported = report.findings.iter().any(|finding| {
            finding.place.contains("of the audit log of the server") && finding.what.contains("not what was written")
        });
        assert!(is_reported, "{report}");
    }

    async fn dropped_entry_is_found_by_the_examination(app: &TestApp) {
        seal_log(app).await;
        tamper(&app.ctx, "audit_log", "DELETE FROM audit_log WHERE what = 'backup_made'").await;
        let report = examine_log(&app.ctx).await;
        let is_reported = report.findings.iter().any(|finding| {
            finding.place.contains("of the audit log of the server") && finding.what.contains("missing")
        });
        assert!(is_reported, "{report}");
    }

    async fn entry_that_was_kept_out_of_the_log_is_found(app: &TestApp) {
        seal_log(app).await;
        write(app, act(AuditAuthor::System, AuditAction::BackupMade, Place::Server)).await;
        assert!(examine_log(&app.ctx).await.holds(), "it waits for its place");
        tamper(&app.ctx, "audit_pending", "DELETE FROM audit_pending").await;
        let report = examine_log(&app.ctx).await;
        assert!(report.findings.iter().any(|finding| finding.place.starts_with("audit entry")), "{report}");
    }

    async fn more_entries_than_a_batch_are_sealed_at_the_start(app: &TestApp) {
        let ctx = &app.ctx;
        ctx.db.write("record many", async |tx| {
            for number in 0..=AT_ONCE {
                let detail = json!({ "number": number });
                let entry = NewAuditEntry { detail, ..act(AuditAuthor::System, AuditAction::BackupMade, Place::Server) };
                record(ctx, tx, entry).await?;
            }
            Ok(())
        }).await.expect("written");
        drop(app.restarted().await);
        assert_eq!(audit_pending::Entity::find().count(ctx.db.read()).await.expect("counted"), 0);
        let report = examine_log(ctx).await;
        assert!(report.holds() && report.audit_entries == AT_ONCE + 1, "{report}");
    }
}
