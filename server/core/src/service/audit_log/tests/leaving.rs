//! Entries about downloaded documents, and about the server's own certificate.

use undertone_api::audit_log::{AuditEntry, AuditPlace, AuditQuery};
use undertone_api::page::PageQuery;

use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::service::audit_log::{AuditAction, list, note_certificate};
use crate::service::world::TestConsortium;
use crate::service::{job_log, report};
use crate::testing::on_both;

async fn entries(ctx: &Ctx, actor: &Actor, place: AuditPlace, what: AuditAction) -> Vec<AuditEntry> {
    let query = AuditQuery { what: Some(what), ..AuditQuery::default() };
    list(ctx, actor, place, &query, &PageQuery::default()).await.expect("may read").items
}

on_both! {
    async fn documents_of_a_job_that_leave_are_entries(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        let job = world.queued(1).await.summary.id;
        let actor = &world.sites[0].steward;
        job_log::export(&app.ctx, actor, job).await.expect("may read");
        report::take(&app.ctx, actor, job).await.expect("may read");
        let place = AuditPlace::Consortium(world.consortium);
        for what in [AuditAction::LogsTaken, AuditAction::ReportTaken] {
            let taken = entries(&app.ctx, actor, place, what).await;
            assert_eq!(taken.len(), 1, "{what:?}");
            assert_eq!(taken[0].subject.as_ref().map(|subject| subject.id.clone()), Some(job.to_string()));
        }
    }

    async fn each_certificate_of_the_server_is_one_entry(app: &TestApp) {
        let operator = app.operator().await.actor(app).await;
        for fingerprint in ["ab", "ab", "cd", "ab"] {
            note_certificate(&app.ctx, fingerprint).await.expect("noted");
        }
        let noted = entries(&app.ctx, &operator, AuditPlace::Server, AuditAction::CertificateRenewed).await;
        let shown: Vec<_> = noted.iter().rev().map(|entry| entry.detail["fingerprint"].as_str().expect("a text")).collect();
        assert_eq!(shown, ["ab", "cd", "ab"]);
    }
}
