#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::collections::BTreeSet;

use undertone_api::audit_log::AuditAction;
use undertone_api::dataset::Visibility;
use undertone_api::id::JobId;
use undertone_api::problem::Code;
use undertone_api::signed::Certificate;
use undertone_certificate::{CertificateVerdict, TrustedInputs};

use super::files::{describe_model_files, is_readable};
use super::privacy::state_epsilon;
use super::{DossierFacts, EgressDossier, FiveSafes, OutputSubject, ProofResult, ProofSource, assemble_at_terminal};
use crate::ctx::Ctx;
use crate::service::world::TestConsortium;
use crate::service::world::finished::{MODEL, continued, finished, verification_keys};
use crate::service::{audit_log, certificate};
use crate::testing::{on_both, tamper};

/// Assembles the dossier of a finished job with the keys and the model of its consortium.
async fn assembled(world: &mut TestConsortium) -> EgressDossier {
    let job = finished(world, 2).await;
    let trusted = verification_keys(world);
    assemble_at_terminal(&world.ctx, job.summary.id, trusted).await.unwrap()
}

/// Returns the proofs of approvals in a new dossier, without those of the chains.
async fn list_approvals(ctx: &Ctx, job: JobId) -> Vec<(ProofResult, String)> {
    let dossier = assemble_at_terminal(ctx, job, TrustedInputs::default()).await.unwrap();
    let proofs = dossier.items.into_iter().find(|item| item.id == "approvals").unwrap().proofs;
    let own = proofs.into_iter().filter(|proof| !proof.text.contains("the chain "));
    own.map(|proof| (proof.result, proof.text)).collect()
}

/// Returns facts with a certificate alone.
fn new_facts(certificate: Certificate) -> DossierFacts {
    let approved_manifest = certificate.job.manifest.clone();
    DossierFacts { certificate, approved_manifest, verdict: CertificateVerdict::default(), logs: Vec::new() }
}

#[test]
fn text_formats_are_readable() {
    for name in ["report.json", "pool.jsonl", "labels.jsonl", "histogram.tsv", "notes.txt", "rounds.csv", "card.md"] {
        assert!(is_readable(name), "{name}");
    }
    for name in ["model.safetensors", "numbers.parquet", "json"] {
        assert!(!is_readable(name), "{name}");
    }
}

on_both! {
    async fn each_private_dataset_has_its_own_approval(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = finished(&mut world, 1).await;
        let proofs = list_approvals(&app.ctx, job.summary.id).await;
        assert_eq!(proofs.len(), 2, "one for each private dataset: {proofs:?}");
        assert!(proofs.iter().all(|(result, text)| *result == ProofResult::Holds && text.contains("approved a job")), "{proofs:?}");

        let other = "00".repeat(32);
        let change = format!("UPDATE audit_log SET detail = REPLACE(detail, '{}', '{other}') WHERE what = 'job_approved'", job.manifest);
        tamper(&app.ctx, "audit_log", &change).await;
        let proofs = list_approvals(&app.ctx, job.summary.id).await;
        let is_unchecked = |(result, text): &(ProofResult, String)| *result == ProofResult::Unchecked && text.contains(&other);
        assert!(proofs.len() == 2 && proofs.iter().all(is_unchecked), "{proofs:?}");
    }

    async fn continued_job_states_the_cost_of_its_initial_model(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        finished(&mut world, 1).await;
        app.clock.advance(time::Duration::HOUR);
        let job = continued(&mut world, MODEL, b"a later model").await;
        let mut certificate = certificate::get(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
        let cost = |certificate: &Certificate| state_epsilon(&new_facts(certificate.clone())).answer.join("\n");
        let text = cost(&certificate);
        assert!(text.contains("with the jobs of the initial model: ε = ") && text.contains(", summed over 2 jobs."), "{text}");
        // A job of public data alone costs what its initial model cost.
        for party in &mut certificate.parties {
            (party.charged, party.visibility, party.consent) = (None, Visibility::Public, None);
        }
        certificate.together.clear();
        let text = cost(&certificate);
        assert!(text.contains("with the jobs of the initial model: ε = ") && !text.contains("Nothing beyond public data"), "{text}");
        certificate.initial_model = None;
        assert!(cost(&certificate).starts_with("Nothing beyond public data"));
    }

    async fn exact_releases_and_texts_are_stated(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = finished(&mut world, 1).await;
        let mut certificate = certificate::get(&app.ctx, &world.sites[1].steward, job.summary.id).await.unwrap();
        let charged = certificate.parties[1].charged.as_mut().unwrap();
        charged.releases.in_the_clear = 3;
        charged.insider = charged.renyi;
        for (kind, phrase) in [
            ("dp_sgd", "The stated ε covers the content"),
            ("active_learning", "texts have no noise"),
            ("transcription", "external recognizers, which hear clear speech"),
        ] {
            kind.clone_into(&mut certificate.job.kind);
            let facts = new_facts(certificate.clone());
            let text = describe_model_files(&facts).answer.join("\n");
            assert!(text.contains("model.safetensors cannot be read") && text.contains(phrase), "{kind}: {text}");
            assert!(text.contains("3 releases were exact"), "{kind}: {text}");
            let text = state_epsilon(&facts).answer.join("\n");
            assert!(text.contains("3 releases were exact") && text.contains("the other sites collude: ε = "), "{kind}: {text}");
        }
    }

    async fn each_item_has_answer_proof_and_limit(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let dossier = assembled(&mut world).await;
        assert_eq!(dossier.list_defects(), [""; 0]);
        let ids: BTreeSet<&str> = dossier.items.iter().map(|item| item.id).collect();
        assert_eq!(ids.len(), dossier.items.len(), "an id names one question");
        let safes: BTreeSet<FiveSafes> = dossier.items.iter().map(|item| item.safe).collect();
        assert_eq!(safes, BTreeSet::from(FiveSafes::ALL));
        let subjects: Vec<OutputSubject> = dossier.items.iter().filter_map(|item| item.subject).collect();
        assert_eq!(BTreeSet::from_iter(subjects.clone()), BTreeSet::from(OutputSubject::ALL));
        assert_eq!(subjects.len(), OutputSubject::ALL.len(), "a subject has one question");
        let sources: BTreeSet<ProofSource> =
            dossier.items.iter().flat_map(|item| &item.proofs).map(|proof| proof.source).collect();
        assert_eq!(sources.len(), 4, "certificate, ledger, audit log and audit");
        // Of each item at least one proof was made here, with the keys and the model at hand.
        for item in &dossier.items {
            let has_proof = item.proofs.iter().any(|proof| proof.result == ProofResult::Holds);
            assert!(has_proof || item.id == "automated-checks", "{}: {:?}", item.id, item.proofs);
        }
    }

    async fn missing_part_of_an_item_is_a_defect(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let dossier = assembled(&mut world).await;
        type Change = fn(&mut EgressDossier);
        let changes: [(Change, &str); 4] = [
            (|dossier| dossier.items[0].answer.clear(), "purpose: it lacks an answer"),
            (|dossier| dossier.items[0].proofs.clear(), "purpose: it lacks a proof"),
            (|dossier| dossier.items[0].not_covered.clear(), "purpose: it lacks its limits"),
            (|dossier| dossier.items.retain(|item| item.safe != FiveSafes::Settings), "Safe settings: there is no question"),
        ];
        for (change, defect) in changes {
            let mut changed = dossier.clone();
            change(&mut changed);
            assert_eq!(changed.list_defects(), [defect]);
        }
    }

    async fn foreign_key_and_other_model_fail_their_proofs(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = finished(&mut world, 1).await;
        let trusted = TrustedInputs {
            site_keys: vec!["00".repeat(32)],
            model: Some((1, "00".repeat(32))),
            ..TrustedInputs::default()
        };
        let dossier = assemble_at_terminal(&app.ctx, job.summary.id, trusted).await.unwrap();
        let failed: BTreeSet<&str> = dossier
            .items
            .iter()
            .filter(|item| item.proofs.iter().any(|proof| proof.result == ProofResult::Fails))
            .map(|item| item.id)
            .collect();
        assert_eq!(failed, BTreeSet::from(["outputs", "setting", "uncheckable-outputs"]));
        assert_eq!(dossier.list_defects().len(), 3);
    }

    async fn changed_audit_log_fails_its_proofs(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = finished(&mut world, 1).await;
        let change = format!("UPDATE audit_log SET by_hand = 'system' WHERE what = 'job_proposed' AND subject_id = '{}'", job.summary.id);
        tamper(&app.ctx, "audit_log", &change).await;
        let dossier = assemble_at_terminal(&app.ctx, job.summary.id, TrustedInputs::default()).await.unwrap();
        let defects = dossier.list_defects();
        assert!(defects.iter().any(|defect| defect.starts_with("purpose: ") && defect.contains(", entry ")), "{defects:?}");
        assert!(defects.iter().any(|defect| defect.starts_with("approvals: ") && defect.contains("the chain breaks at entry ")), "{defects:?}");
    }

    async fn dossier_without_a_certificate_is_refused(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let waiting = world.queued(1).await;
        let trusted = TrustedInputs::default;
        let refused = assemble_at_terminal(&app.ctx, waiting.summary.id, trusted()).await.unwrap_err();
        assert_eq!(refused.into_problem().code, Code::WrongState);
        let unknown = assemble_at_terminal(&app.ctx, JobId(uuid::Uuid::nil()), trusted()).await.unwrap_err();
        assert_eq!(unknown.into_problem().code, Code::NotFound);
        assert_eq!(audit_log::count(&app.ctx.db, AuditAction::CertificateTaken).await, 0);
    }

    async fn dossier_is_an_entry_of_the_audit_log(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        assembled(&mut world).await;
        assert_eq!(audit_log::count(&app.ctx.db, AuditAction::CertificateTaken).await, 1);
    }
}
