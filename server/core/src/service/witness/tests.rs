#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::collections::BTreeMap;

use undertone_api::job::Job;
use undertone_api::log::witness::{MOST_RECEIPTS, VerifiedAnswer, WitnessAnswer, WitnessError};
use undertone_api::problem::Code;
use undertone_api::signed::{LogHead, Receipt, Signed};

use super::witness;
use crate::ctx::Ctx;
use crate::service::finish::{self, Outcome};
use crate::service::receipt::countersign;
use crate::service::world::TestConsortium;
use crate::testing::{on_both, tamper};

/// A site that stores its receipts and the last known head of the log.
struct WitnessSite {
    world: TestConsortium,
    job: Job,
    lease: String,
    receipts: BTreeMap<u64, (String, Receipt)>,
    kept: Option<Signed>,
}

impl WitnessSite {
    async fn new(ctx: &Ctx) -> Self {
        let world = TestConsortium::new(ctx, 2, 20.0).await;
        let job = world.queued(6).await;
        let lease = world.lease(1).await;
        Self { world, job, lease, receipts: BTreeMap::new(), kept: None }
    }

    fn sign(&mut self, round: u32) -> Signed {
        let site = &mut self.world.sites[1];
        let signed = site.receipt(&self.job, round, 1);
        let receipt = signed.open(&site.key.verifying_key()).unwrap();
        self.receipts.insert(site.sequence, (signed.digest(), receipt));
        signed
    }

    /// Pays for a round and submits the vector.
    async fn pay(&mut self, round: u32) {
        let receipt = self.sign(round);
        self.world.submit_with(1, &self.lease, round, &[1.0], vec![receipt]).await.unwrap();
    }

    async fn ask(&self) -> WitnessAnswer {
        let numbers: Vec<u64> = self.receipts.keys().copied().collect();
        witness(&self.world.ctx, self.world.sites[1].worker, self.kept.as_ref(), &numbers, None).await.unwrap()
    }

    fn judge(&self, answer: &WitnessAnswer) -> Result<VerifiedAnswer, WitnessError> {
        let key = self.world.ctx.signer.verifying_key();
        let head: Option<LogHead> = self.kept.as_ref().map(|signed| signed.open(&key).unwrap());
        answer.check(&key, head.as_ref(), &self.receipts)
    }

    /// Requests a proof, verifies it, and stores the head.
    async fn keep(&mut self) -> VerifiedAnswer {
        let answer = self.ask().await;
        let witnessed = self.judge(&answer).unwrap();
        self.kept = answer.head;
        witnessed
    }
}

on_both! {
    async fn a_site_is_proved_that_its_receipts_are_charged_and_that_the_log_only_grew(app: &TestApp) {
        let mut site = WitnessSite::new(&app.ctx).await;
        let before = site.keep().await.head.unwrap();
        site.pay(1).await;
        let witnessed = site.keep().await;
        let after = witnessed.head.unwrap();
        assert_eq!((after.size, witnessed.receipts.len()), (before.size + 1, 1));
        assert_eq!(witnessed.receipts[&1].position, before.size);
        // Other sites' entries in between; a receipt that never arrived has no proof.
        site.world.queued(2).await;
        site.sign(2);
        let witnessed = site.keep().await;
        assert_eq!(witnessed.receipts.keys().copied().collect::<Vec<_>>(), [1]);
        assert!(witnessed.head.unwrap().size > after.size);
    }

    async fn receipts_are_countersigned_when_they_come_and_again_when_they_are_repeated(app: &TestApp) {
        let mut site = WitnessSite::new(&app.ctx).await;
        let (first, second) = (site.sign(1), site.sign(1));
        let gave_up = Outcome::GaveUp("enough".to_owned());
        let worker = site.world.sites[1].worker;
        let signatures = finish::finish(&app.ctx, worker, &site.lease, &gave_up, &[first.clone(), second.clone()]).await.unwrap();
        let again = finish::finish(&app.ctx, worker, &site.lease, &gave_up, &[first, second]).await.unwrap();
        assert_eq!(signatures, again);
        let proved = site.keep().await;
        for (number, signed) in (1..).zip(&signatures) {
            let (digest, receipt) = &site.receipts[&number];
            let key = app.ctx.signer.verifying_key();
            let countersignature = undertone_api::log::witness::countersigned(signed, &key, digest, receipt).unwrap();
            assert_eq!(proved.receipts[&number], countersignature);
        }
        assert_eq!(signatures.len(), 2);
    }

    async fn receipt_is_countersigned_before_its_vector_comes(app: &TestApp) {
        let mut site = WitnessSite::new(&app.ctx).await;
        let receipt = site.sign(1);
        let worker = site.world.sites[1].worker;
        let signatures = countersign(&app.ctx, worker, &site.lease, std::slice::from_ref(&receipt)).await.unwrap();
        assert_eq!(signatures, countersign(&app.ctx, worker, &site.lease, std::slice::from_ref(&receipt)).await.unwrap());
        let (digest, document) = &site.receipts[&1];
        let key = app.ctx.signer.verifying_key();
        assert!(undertone_api::log::witness::countersigned(&signatures[0], &key, digest, document).is_ok());
        // The vector comes later with the same receipt, which is charged once.
        site.world.submit_with(1, &site.lease, 1, &[1.0], vec![receipt]).await.unwrap();
        assert_eq!(site.keep().await.receipts.len(), 1);
        // Another receipt of the same number is a fork, and another site's lease is invalid.
        let other = { site.world.sites[1].sequence = 0; site.world.sites[1].receipt(&site.job, 2, 1) };
        let refused = countersign(&app.ctx, worker, &site.lease, &[other]).await.unwrap_err();
        assert_eq!(refused.code(), Code::BadSignature);
        let refused = countersign(&app.ctx, worker, "another", &[]).await.unwrap_err();
        assert_eq!(refused.code(), Code::LeaseLost);
    }

    async fn a_log_whose_end_was_cut_off_is_noticed(app: &TestApp) {
        let mut site = WitnessSite::new(&app.ctx).await;
        site.pay(1).await;
        let size = site.keep().await.head.unwrap().size;
        let last = size - 1;
        tamper(&app.ctx, "countersignature", "DELETE FROM countersignature").await;
        tamper(&app.ctx, "log_leaf", &format!("DELETE FROM log_leaf WHERE position = {last}")).await;
        tamper(&app.ctx, "log_head", &format!("DELETE FROM log_head WHERE size = {size}")).await;
        let answer = site.ask().await;
        assert_eq!(site.judge(&answer), Err(WitnessError::Shorter { known: size, now: last }));
    }

    async fn an_altered_entry_and_a_forked_log_are_noticed(app: &TestApp) {
        let mut site = WitnessSite::new(&app.ctx).await;
        site.pay(1).await;
        site.keep().await;
        tamper(&app.ctx, "ledger_entry", "UPDATE ledger_entry SET round = 2 WHERE kind = 'commit'").await;
        let answer = site.ask().await;
        assert_eq!(site.judge(&answer), Err(WitnessError::Missing(1)));
        // An attacker with the server's key can rewrite the log, but cannot make it continue the known head.
        TestConsortium::new(&app.ctx, 1, 3.0).await;
        let head: LogHead = site.kept.as_ref().unwrap().open(&app.ctx.signer.verifying_key()).unwrap();
        let forged = LogHead { root: "00".repeat(32), ..head.clone() };
        site.kept = Some(Signed::new(&forged, &app.ctx.signer).unwrap());
        site.receipts.clear();
        let answer = site.ask().await;
        let now = answer.head.as_ref().unwrap().open::<LogHead>(&app.ctx.signer.verifying_key()).unwrap().size;
        assert_eq!(site.judge(&answer), Err(WitnessError::Forked { known: head.size, now }));
    }

    async fn nothing_is_signed_on_top_of_hashes_that_were_changed(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 3.0).await;
        let zeros = "0".repeat(64);
        tamper(&app.ctx, "log_leaf", &format!("UPDATE log_leaf SET nodes = '{zeros}{zeros}{zeros}'")).await;
        let refused = world.set_budget(&world.sites[1], 4.0).await.expect_err("the log is broken");
        assert_eq!(refused.code(), Code::Internal);
    }

    async fn a_question_is_bounded_and_a_strangers_head_is_refused(app: &TestApp) {
        let site = WitnessSite::new(&app.ctx).await;
        let worker = site.world.sites[1].worker;
        let many: Vec<u64> = (1..=MOST_RECEIPTS as u64).collect();
        assert!(witness(&app.ctx, worker, None, &many, None).await.is_ok());
        let more: Vec<u64> = (1..=MOST_RECEIPTS as u64 + 1).collect();
        assert_eq!(witness(&app.ctx, worker, None, &more, None).await.unwrap_err().code(), Code::ValidationFailed);
        let stranger = ed25519_dalek::SigningKey::from_bytes(&[3; 32]);
        let head: LogHead = site.ask().await.head.unwrap().open(&app.ctx.signer.verifying_key()).unwrap();
        let strange = Signed::new(&head, &stranger).unwrap();
        assert_eq!(witness(&app.ctx, worker, Some(&strange), &[], None).await.unwrap_err().code(), Code::BadSignature);
    }

    async fn a_site_never_learns_of_anothers_receipts(app: &TestApp) {
        let mut site = WitnessSite::new(&app.ctx).await;
        site.pay(1).await;
        let other = site.world.sites[2].worker;
        assert!(witness(&app.ctx, other, None, &[1], None).await.unwrap().receipts.is_empty());
    }
}
