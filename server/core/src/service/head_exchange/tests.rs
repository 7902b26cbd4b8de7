#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use time::Duration;
use undertone_api::id::WorkerId;
use undertone_api::log::peers::PeerError;
use undertone_api::member::{Role, RoleGrant, RoleScope};
use undertone_api::problem::Code;
use undertone_api::retirement::StatedReason;
use undertone_api::signed::{HeadObservation, LedgerPosition, LedgerSighting, LogHead, Signed};

use super::{HandedPositions, exchange_heads, store_positions};
use crate::ctx::Ctx;
use crate::service::world::TestConsortium;
use crate::service::{log, retirement};
use crate::testing::{on_both, tamper};

/// Observes the log's newest head as the site of `index` and returns its signed observation.
async fn observe(world: &TestConsortium, index: usize) -> (LogHead, Signed) {
    let ctx = &world.ctx;
    let newest = log::newest(ctx.db.read()).await.unwrap().unwrap();
    let head = Signed { payload: newest.payload, signature: newest.signature };
    let opened: LogHead = head.open(&ctx.signer.verifying_key()).unwrap();
    let site = &world.sites[index];
    let observation = HeadObservation { worker: site.worker, head, observed_at: ctx.now() };
    (opened, Signed::new(&observation, &site.key).unwrap())
}

fn reason() -> StatedReason {
    StatedReason { reason: "the machine was stolen".to_owned() }
}

async fn exchange(ctx: &Ctx, world: &TestConsortium, index: usize, signed: &Signed) -> Vec<super::PeerHead> {
    exchange_heads(ctx, world.sites[index].worker, signed).await.unwrap()
}

on_both! {
    async fn peers_of_one_history_agree(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 20.0).await;
        let (_, first) = observe(&world, 1).await;
        assert!(exchange(&app.ctx, &world, 1, &first).await.is_empty(), "the first site has no peer yet");
        world.queued(6).await;
        app.clock.advance(Duration::minutes(10));
        let (own, second) = observe(&world, 2).await;
        let peers = exchange(&app.ctx, &world, 2, &second).await;
        let [peer] = &*peers else { panic!("one peer: {peers:?}") };
        assert_eq!(peer.worker, world.sites[1].worker);
        let server = app.ctx.signer.verifying_key();
        let known = world.sites[1].key.verifying_key();
        let verified = peer.verify(&server, &own, Some(&known)).unwrap();
        assert!(verified.head.size < own.size, "the peer observed a smaller log");
        // In the other direction the peer's head is the larger one.
        let peers = exchange(&app.ctx, &world, 1, &first).await;
        let own: LogHead = first.open::<HeadObservation>(&known).unwrap().head.open(&server).unwrap();
        peers[0].verify(&server, &own, Some(&world.sites[2].key.verifying_key())).unwrap();
    }

    async fn stored_observation_is_the_newest(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 20.0).await;
        let (_, old) = observe(&world, 1).await;
        world.queued(6).await;
        let (newer, signed) = observe(&world, 1).await;
        exchange(&app.ctx, &world, 1, &signed).await;
        // A repeated, older observation does not replace it.
        exchange(&app.ctx, &world, 1, &old).await;
        let (own, second) = observe(&world, 2).await;
        let peers = exchange(&app.ctx, &world, 2, &second).await;
        let verified = peers[0].verify(&app.ctx.signer.verifying_key(), &own, None).unwrap();
        assert_eq!(verified.head.size, newer.size);
    }

    async fn observation_with_a_foreign_signature_is_refused(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 20.0).await;
        let (_, other) = observe(&world, 2).await;
        let refused = exchange_heads(&app.ctx, world.sites[1].worker, &other).await.unwrap_err();
        assert_eq!(refused.code(), Code::BadSignature);
        // A head that this server did not sign.
        let site = &world.sites[1];
        let (head, _) = observe(&world, 1).await;
        let head = Signed::new(&head, &site.key).unwrap();
        let observation = HeadObservation { worker: site.worker, head, observed_at: app.ctx.now() };
        let forged = Signed::new(&observation, &site.key).unwrap();
        let refused = exchange_heads(&app.ctx, site.worker, &forged).await.unwrap_err();
        assert_eq!(refused.code(), Code::BadSignature);
    }

    async fn sites_of_another_consortium_are_no_peers(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 20.0).await;
        let other = TestConsortium::new(&app.ctx, 1, 20.0).await;
        let (_, theirs) = observe(&other, 1).await;
        exchange(&app.ctx, &other, 1, &theirs).await;
        let (_, ours) = observe(&world, 1).await;
        assert!(exchange(&app.ctx, &world, 1, &ours).await.is_empty());
    }

    async fn retired_worker_has_no_peers_and_is_nobodys(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 20.0).await;
        let (_, first) = observe(&world, 1).await;
        exchange(&app.ctx, &world, 1, &first).await;
        let site = &world.sites[1];
        let organization = site.steward.organizations()[0];
        retirement::retire_worker(&app.ctx, &site.steward, organization, site.worker, &reason()).await.unwrap();
        let (_, second) = observe(&world, 2).await;
        assert!(exchange(&app.ctx, &world, 2, &second).await.is_empty(), "its head is not relayed");
        let refused = exchange_heads(&app.ctx, site.worker, &first).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound, "it receives no head");
    }

    async fn retired_organization_neither_receives_heads_nor_is_relayed(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 20.0).await;
        let signed = [observe(&world, 0).await.1, observe(&world, 1).await.1, observe(&world, 2).await.1];
        for (index, own) in signed.iter().enumerate() {
            exchange(&app.ctx, &world, index, own).await;
        }
        let mut admin = world.sites[0].steward.clone();
        admin.member.grants = vec![RoleGrant { scope: RoleScope::Consortium(world.consortium), role: Role::ConsortiumAdmin }];
        let expelled = world.sites[1].steward.organizations()[0];
        let retired = retirement::retire_organization(&app.ctx, &admin, world.consortium, expelled, &reason()).await;
        retired.unwrap();
        assert!(exchange(&app.ctx, &world, 1, &signed[1]).await.is_empty(), "it receives no head");
        let peers = exchange(&app.ctx, &world, 2, &signed[2]).await;
        let workers: Vec<_> = peers.iter().map(|peer| peer.worker).collect();
        assert_eq!(workers, [world.sites[0].worker], "its head is not relayed");
        retirement::restore_organization(&app.ctx, &admin, world.consortium, expelled, &reason()).await.unwrap();
        assert_eq!(exchange(&app.ctx, &world, 1, &signed[1]).await.len(), 2, "it is a peer again");
    }

    async fn position_goes_to_peers_and_a_sighting_to_its_subject(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 20.0).await;
        let ctx = &app.ctx;
        let now = ctx.now();
        let worker = |index: usize| world.sites[index].worker;
        let position_of = |index: usize, receipts: u64| {
            let position = LedgerPosition { worker: worker(index), receipts, digest: "ab".repeat(32), at: now };
            Signed::new(&position, &world.sites[index].key).unwrap()
        };
        let handed = |position: &Signed| HandedPositions { position: Some(position.clone()), sightings: Vec::new() };
        let newest = position_of(1, 5);
        store_positions(ctx, worker(1), &handed(&newest)).await.unwrap();
        // A ledger that was put back to an older copy does not replace it.
        store_positions(ctx, worker(1), &handed(&position_of(1, 3))).await.unwrap();
        let sighting =
            LedgerSighting { observer: worker(2), subject: worker(1), position: newest.clone(), observed_at: now };
        let sighting = Signed::new(&sighting, &world.sites[2].key).unwrap();
        let sightings = HandedPositions { position: None, sightings: vec![sighting.clone()] };
        store_positions(ctx, worker(2), &sightings).await.unwrap();

        let (_, first) = observe(&world, 1).await;
        exchange(ctx, &world, 1, &first).await;
        let (_, second) = observe(&world, 2).await;
        let to_second = exchange(ctx, &world, 2, &second).await;
        assert_eq!((&to_second[0].position, &to_second[0].sighting), (&Some(newest), &None));
        let to_first = exchange(ctx, &world, 1, &first).await;
        assert_eq!((&to_first[0].position, &to_first[0].sighting), (&None, &Some(sighting)));
    }

    async fn position_of_another_worker_is_refused(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 20.0).await;
        let (site, other) = (&world.sites[1], &world.sites[2]);
        let position = LedgerPosition { worker: other.worker, receipts: 5, digest: String::new(), at: app.ctx.now() };
        for key in [&site.key, &other.key] {
            let signed = Signed::new(&position, key).unwrap();
            let handed = HandedPositions { position: Some(signed), sightings: Vec::new() };
            let refused = store_positions(&app.ctx, site.worker, &handed).await.unwrap_err();
            assert_eq!(refused.code(), Code::BadSignature);
        }
    }

    async fn forked_history_is_detected_by_a_peer(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 20.0).await;
        // The first site receives the log; then the server rewrites an entry and continues for the second site.
        world.queued(6).await;
        let (_, first) = observe(&world, 1).await;
        exchange(&app.ctx, &world, 1, &first).await;
        rewrite_history(&app.ctx).await;
        let (own, second) = observe(&world, 2).await;
        let peers = exchange(&app.ctx, &world, 2, &second).await;
        let server = app.ctx.signer.verifying_key();
        let refused = peers[0].verify(&server, &own, Some(&world.sites[1].key.verifying_key())).unwrap_err();
        assert!(matches!(refused, PeerError::Forked { worker, .. } if worker == world.sites[1].worker), "{refused}");
    }

    async fn unknown_worker_is_refused(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 20.0).await;
        let (_, signed) = observe(&world, 1).await;
        let refused = exchange_heads(&app.ctx, WorkerId(uuid::Uuid::nil()), &signed).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound);
    }
}

/// Rebuilds the log from other leaves and signs its head, as a dishonest server would for another site.
async fn rewrite_history(ctx: &Ctx) {
    let newest = log::newest(ctx.db.read()).await.unwrap().unwrap();
    let mut frontier = undertone_api::log::Frontier::default();
    for position in 0..newest.size {
        let nodes = frontier.push(undertone_api::log::leaf_hash(format!("rewritten {position}").as_bytes()));
        let nodes = hex::encode(nodes.concat());
        tamper(ctx, "log_leaf", &format!("UPDATE log_leaf SET nodes = '{nodes}' WHERE position = {position}")).await;
    }
    let head = LogHead { root: hex::encode(frontier.root()), ..serde_json::from_str(&newest.payload).unwrap() };
    let signed = Signed::new(&head, &ctx.signer).unwrap();
    let statement = format!(
        "UPDATE log_head SET root = '{}', payload = '{}', signature = '{}' WHERE size = {}",
        head.root, signed.payload, signed.signature, head.size
    );
    tamper(ctx, "log_head", &statement).await;
}
