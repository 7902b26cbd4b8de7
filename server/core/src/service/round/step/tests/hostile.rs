//! Messages that the server refuses, and sums that it cannot use.

use undertone_api::problem::Code;
use undertone_secure_aggregation::message::SealedShares;

use super::group::TestGroup;
use crate::service::round::{MaskedInput, MaskedMessage, average};
use crate::testing::on_both;

on_both! {
    async fn second_messages_are_refused(app: &TestApp) {
        let mut group = TestGroup::new(&app.ctx, 3, 2, 0, 1).await;
        group.advertise(&[0, 1, 2]).await;
        let mut other = group.shares(0);
        group.share(&[0, 1, 2]).await;
        other[0].ciphertext[0] ^= 1;
        let refused = group.step(0, &MaskedMessage::Share(other)).await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists);
        let bytes = group.masked_vector(0, &group.vector(0));
        assert!(!group.submit_bytes(0, &bytes).await.unwrap());
        assert!(group.submit_paid(0, &bytes, vec![]).await.unwrap(), "the same one again");
        let mut changed = bytes.clone();
        changed[0] ^= 1;
        let spent = group.world.account(1).await.spent;
        assert_eq!(group.submit_paid(0, &changed, vec![]).await.unwrap_err().code(), Code::AlreadyExists);
        assert_eq!(group.world.account(1).await.spent, spent);
    }

    async fn false_and_early_messages_are_refused(app: &TestApp) {
        let mut group = TestGroup::new(&app.ctx, 3, 2, 0, 1).await;
        let bytes = vec![0; group.group.bytes() as usize];
        let early = group.submit_bytes(0, &bytes).await.unwrap_err();
        assert_eq!(early.code(), Code::NotReady, "nothing is shared yet");
        let code = |result: Result<Option<MaskedInput>, crate::error::Error>| result.unwrap_err().code();
        let foreign = MaskedMessage::Advertise(group.advertisement(1));
        assert_eq!(code(group.step(0, &foreign).await), Code::ValidationFailed, "of another site");
        let mut unsigned = group.advertisement(0);
        unsigned.commitment[0] ^= 1;
        assert_eq!(code(group.step(0, &MaskedMessage::Advertise(unsigned)).await), Code::ValidationFailed);
        group.advertise(&[0, 1, 2]).await;
        let few = MaskedMessage::Share(group.shares(0)[1..].to_vec());
        assert_eq!(code(group.step(0, &few).await), Code::ValidationFailed, "for one site only");
        let many = vec![SealedShares { from: 0, to: 1, ciphertext: vec![0; 80] }; 51];
        let refused = group.step(0, &MaskedMessage::Share(many)).await.unwrap_err().into_problem();
        assert_eq!(refused.code, Code::ValidationFailed);
        assert!(refused.violations[0].message.contains("at most 50 shares, not 51"), "{refused:?}");
        let lead = group.lead_lease().to_owned();
        let stranger = group.step_with(0, &lead, &MaskedMessage::Survivors).await;
        assert_eq!(code(stranger), Code::LeaseLost);
        group.share(&[0, 1, 2]).await;
        let short = group.submit_bytes(0, &bytes[1..]).await.unwrap_err().into_problem();
        assert_eq!((short.code, &*short.violations[0].field), (Code::ValidationFailed, "length"));
    }

    async fn late_site_is_left_out(app: &TestApp) {
        let mut group = TestGroup::new(&app.ctx, 3, 2, 0, 1).await;
        group.send_advertisements(&[0, 1]).await;
        app.clock.advance(time::Duration::seconds(31));
        group.advertise(&[0, 1]).await;
        let late = group.step(2, &MaskedMessage::Advertise(group.advertisement(2))).await.unwrap_err();
        assert_eq!(late.code(), Code::RoundClosed);
        group.share(&[0, 1]).await;
        let bytes = vec![0; group.group.bytes() as usize];
        assert_eq!(group.submit_bytes(2, &bytes).await.unwrap_err().code(), Code::RoundClosed);
        assert!(group.world.account(3).await.spent > 0.0, "a receipt that came is counted");
    }

    async fn sum_with_false_shares_is_not_used(app: &TestApp) {
        let mut group = TestGroup::new(&app.ctx, 3, 2, 0, 1).await;
        group.submit_plain().await;
        group.advertise(&[0, 1, 2]).await;
        group.share(&[0, 1, 2]).await;
        group.submit(&[0, 1, 2]).await;
        group.sign(&[0, 1, 2]).await;
        let mut reveal = group.revealed(0).await;
        reveal.seeds[1].share[0] ^= 1;
        group.step(0, &MaskedMessage::Reveal(reveal)).await.unwrap();
        let last = MaskedMessage::Reveal(group.revealed(1).await);
        let spoiled = group.step(1, &last).await.unwrap_err();
        assert_eq!(spoiled.code(), Code::WrongState);
        let worker = group.world.sites[0].worker;
        let read = average(&app.ctx, worker, group.lead_lease(), "private", group.round(), 0).await;
        let problem = read.unwrap_err().into_problem();
        assert_eq!(problem.code, Code::WrongState);
        assert!(problem.detail.contains("do not restore"));
    }

    async fn sum_beyond_the_norm_of_honest_sites_is_not_used(app: &TestApp) {
        let mut group = TestGroup::new(&app.ctx, 3, 2, 0, 1).await;
        group.submit_plain().await;
        group.advertise(&[0, 1, 2]).await;
        group.share(&[0, 1, 2]).await;
        group.send_vectors(&[0, 1]).await;
        let most = vec![(1 << (group.group.bits - 2)) - 1; group.group.length as usize];
        let bytes = group.masked_vector(2, &most);
        group.submit_bytes(2, &bytes).await.unwrap();
        group.sign(&[0, 1, 2]).await;
        group.step(0, &MaskedMessage::Reveal(group.revealed(0).await)).await.unwrap();
        let last = MaskedMessage::Reveal(group.revealed(1).await);
        let problem = group.step(1, &last).await.unwrap_err().into_problem();
        assert_eq!(problem.code, Code::WrongState);
        assert!(problem.detail.contains("L2 norm"));
    }
}
