#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use sea_orm::{ActiveModelTrait as _, IntoActiveModel as _};
use undertone_api::account::FactorCode;
use undertone_api::approval_key::NewApprovalKey;
use undertone_api::member::Role;
use undertone_api::notification::{NotificationKind, NotificationQuery, NotificationSwitches};
use undertone_api::problem::Code;
use undertone_api::signed::ApprovalKey;

use super::credential::{CredentialChange, announce, notices_after};
use super::{list, look, read, read_all, set_switches, switches, unread};
use crate::auth::Actor;
use crate::auth::provider::Identity;
use crate::model::role::ScopeKind;
use crate::model::{member, role, worker};
use crate::service::world::TestConsortium;
use crate::service::{approval_key, factor, oidc};
use crate::testing::{TestApp, code, on_both};

/// Stores the stewards of a world as members with their roles, as if they had accepted links.
async fn people(app: &TestApp, world: &TestConsortium) {
    for site in &world.sites {
        let (id, name) = (site.steward.id().0, site.steward.member.name.clone());
        let organization = site.steward.organizations()[0];
        app.ctx
            .db
            .write("test", async |tx| {
                let row = member::Model {
                    id,
                    name: name.clone(),
                    email: format!("{id}@example.org"),
                    password_hash: String::new(),
                    operator: false,
                    created_at: app.ctx.now(),
                    retired_at: None,
                    address_confirmed_at: None,
                };
                row.into_active_model().insert(tx).await?;
                for role in [Role::DataSteward, Role::OrganizationAdmin] {
                    let row = role::Model {
                        member_id: id,
                        scope: ScopeKind::Organization.into(),
                        scope_id: organization.0,
                        role: role.into(),
                    };
                    row.into_active_model().insert(tx).await?;
                }
                Ok(())
            })
            .await
            .unwrap();
    }
}

/// Switches a second factor on, makes new recovery codes, links an identity and unlinks it.
async fn change_credentials(app: &TestApp, steward: &Actor) {
    let ctx = &app.ctx;
    let offer = factor::offer(ctx, steward).await.unwrap();
    factor::confirm(ctx, steward, &FactorCode { code: code(&offer.secret, app) }).await.unwrap();
    app.clock.advance(time::Duration::minutes(1));
    factor::renew_codes(ctx, steward, &FactorCode { code: code(&offer.secret, app) }).await.unwrap();
    let identity =
        Identity { issuer: "https://login.example".to_owned(), subject: "a".to_owned(), email: None, name: None };
    oidc::link(ctx, steward, &identity).await.unwrap().unwrap();
    let linked = oidc::list(ctx, steward).await.unwrap();
    oidc::unlink(ctx, steward, linked[0].id).await.unwrap();
}

async fn list_texts(app: &TestApp, actor: &Actor) -> Vec<(NotificationKind, String)> {
    let page = list(&app.ctx, actor, &NotificationQuery::default()).await.unwrap();
    page.items.into_iter().map(|one| (one.kind, one.text)).collect()
}

on_both! {
    async fn a_steward_is_told_what_waits_for_them_and_the_proposer_how_it_ended(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        people(app, &world).await;
        let job = world.propose(world.spec(2)).await.unwrap();
        let (proposer, first, second) = (&world.sites[0].steward, &world.sites[1].steward, &world.sites[2].steward);
        assert_eq!(list_texts(app, first).await, [(NotificationKind::JobWaits, "“a job” waits for your decision about speech.".to_owned())]);
        assert_eq!(list_texts(app, proposer).await, [], "nobody waits for an answer about public data");
        app.clock.advance(time::Duration::seconds(1));
        let refuse = undertone_api::job::RefuseRequest { reason: "too many rounds".to_owned() };
        crate::service::approval::refuse(&app.ctx, second, job.summary.id, world.sites[2].dataset, &refuse).await.unwrap();
        let ended = list_texts(app, proposer).await;
        assert_eq!(ended.len(), 1);
        assert!(ended[0].0 == NotificationKind::JobRefused && ended[0].1.contains("too many rounds"), "{ended:?}");
        assert_eq!(list_texts(app, first).await[0].0, NotificationKind::JobRefused, "the newest comes first");
    }

    async fn who_reads_marks_and_switches_does_so_for_themselves_only(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        people(app, &world).await;
        let (first, second) = (&world.sites[1].steward, &world.sites[2].steward);
        let off = NotificationSwitches { off: vec![NotificationKind::JobWaits, NotificationKind::JobWaits] };
        let set = set_switches(&app.ctx, second, &off).await.unwrap();
        assert_eq!(set.off, [NotificationKind::JobWaits]);
        assert_eq!(switches(&app.ctx, first).await.unwrap().off, []);
        world.propose(world.spec(2)).await.unwrap();
        world.propose(world.spec(3)).await.unwrap();
        assert_eq!((unread(&app.ctx, first).await.unwrap(), unread(&app.ctx, second).await.unwrap()), (2, 0));
        let id = list(&app.ctx, first, &NotificationQuery::default()).await.unwrap().items[0].id;
        assert_eq!(read(&app.ctx, second, id).await.unwrap_err().code(), Code::NotFound);
        let once = read(&app.ctx, first, id).await.unwrap().read_at;
        app.clock.advance(time::Duration::minutes(1));
        assert_eq!((once.is_some(), read(&app.ctx, first, id).await.unwrap().read_at), (true, once));
        let new = NotificationQuery { unread: Some(true), ..NotificationQuery::default() };
        assert_eq!(list(&app.ctx, first, &new).await.unwrap().items.len(), 1);
        assert_eq!(read_all(&app.ctx, first).await.unwrap(), 1);
        assert_eq!(unread(&app.ctx, first).await.unwrap(), 0);
    }

    async fn a_list_has_pages_and_kinds(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        people(app, &world).await;
        for rounds in 1..=3 {
            world.propose(world.spec(rounds)).await.unwrap();
        }
        let steward = &world.sites[1].steward;
        let first = NotificationQuery { limit: Some(2), kind: Some(NotificationKind::JobWaits), ..NotificationQuery::default() };
        let page = list(&app.ctx, steward, &first).await.unwrap();
        assert_eq!(page.items.len(), 2);
        let rest = list(&app.ctx, steward, &NotificationQuery { cursor: page.next, ..first }).await.unwrap();
        assert_eq!((rest.items.len(), rest.next), (1, None));
        let other = NotificationQuery { kind: Some(NotificationKind::BudgetLow), ..NotificationQuery::default() };
        assert_eq!(list(&app.ctx, steward, &other).await.unwrap().items, []);
        let strange = NotificationQuery { cursor: Some("x".to_owned()), ..NotificationQuery::default() };
        assert_eq!(list(&app.ctx, steward, &strange).await.unwrap_err().code(), Code::ValidationFailed);
    }

    async fn a_silence_is_told_once_and_the_next_one_again(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        people(app, &world).await;
        world.queued(2).await;
        world.lease(1).await;
        let set_last_seen = async |at| {
            let (id, ctx) = (world.sites[1].worker, &app.ctx);
            let row = crate::service::offer::mark_seen(ctx, id).await.unwrap();
            let row = worker::Model { last_seen_at: Some(at), ..row };
            ctx.db.write("test", async |tx| Ok(row.clone().into_active_model().reset_all().update(tx).await?)).await.unwrap();
        };
        let silences = async || list_texts(app, &world.sites[1].steward).await.iter().filter(|(kind, _)| *kind == NotificationKind::WorkerSilent).count();
        set_last_seen(app.ctx.now()).await;
        look(&app.ctx).await.unwrap();
        assert_eq!(silences().await, 0);
        app.clock.advance(time::Duration::minutes(3));
        look(&app.ctx).await.unwrap();
        look(&app.ctx).await.unwrap();
        assert_eq!(silences().await, 1);
        set_last_seen(app.ctx.now()).await;
        app.clock.advance(time::Duration::minutes(3));
        look(&app.ctx).await.unwrap();
        assert_eq!(silences().await, 2);
    }

    async fn a_budget_that_is_nearly_used_is_told_to_its_steward(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 5.0).await;
        people(app, &world).await;
        // The highest number of rounds that fits leaves less than a tenth.
        let mut rounds = 1;
        while rounds < 4096 && world.propose(world.spec(rounds * 2)).await.is_ok() {
            rounds *= 2;
        }
        let (mut least, mut most) = (rounds, rounds * 2);
        while most - least > 1 {
            let middle = u32::midpoint(least, most);
            if world.propose(world.spec(middle)).await.is_ok() { least = middle } else { most = middle }
        }
        let low = async || list_texts(app, &world.sites[1].steward).await.into_iter().find(|(kind, _)| *kind == NotificationKind::BudgetLow);
        assert_eq!(low().await, None, "a proposal reserves nothing");
        let job = world.propose(world.spec(least)).await.unwrap();
        world.approved(job).await;
        let (_, text) = low().await.expect("its steward is told");
        assert!(text.contains("of the budget of speech for each record is left"), "{text}");
    }

    async fn who_has_left_a_consortium_is_shown_nothing_of_it(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        people(app, &world).await;
        world.propose(world.spec(1)).await.unwrap();
        let steward = world.sites[1].steward.clone();
        assert_eq!(unread(&app.ctx, &steward).await.unwrap(), 1);
        let outsider = Actor { consortia: std::collections::BTreeMap::new(), ..steward };
        assert_eq!(unread(&app.ctx, &outsider).await.unwrap(), 0);
        assert_eq!(list(&app.ctx, &outsider, &NotificationQuery::default()).await.unwrap().items, []);
    }

    async fn who_invited_is_told_who_came(app: &TestApp) {
        let founded = app.founded().await;
        let (organization, admin) = &founded.north;
        app.joins(admin, *organization, "Anna", &[Role::Researcher]).await;
        let actor = admin.actor(app).await;
        let notices = list_texts(app, &actor).await;
        assert_eq!(notices, [(NotificationKind::InvitationAccepted, "Anna accepted your invitation for for a test.".to_owned())]);
        assert_eq!(list_texts(app, &founded.operator.actor(app).await).await.len(), 2, "of both organizations");
    }

    async fn changed_credentials_are_told_to_member_admins_and_sites_and_cannot_be_switched_off(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        people(app, &world).await;
        let (first, second) = (&world.sites[1], &world.sites[2]);
        // An admin of the organization, not the steward.
        let admin = app.ctx.id::<undertone_api::id::MemberId>();
        let organization = first.steward.organizations()[0];
        app.ctx
            .db
            .write("test", async |tx| {
                let row = member::Model {
                    id: admin.0,
                    name: "the admin".to_owned(),
                    email: "admin@example.org".to_owned(),
                    password_hash: String::new(),
                    operator: false,
                    created_at: app.ctx.now(),
                    retired_at: None,
                    address_confirmed_at: None,
                };
                row.into_active_model().insert(tx).await?;
                let row = role::Model {
                    member_id: admin.0,
                    scope: ScopeKind::Organization.into(),
                    scope_id: organization.0,
                    role: Role::OrganizationAdmin.into(),
                };
                row.into_active_model().insert(tx).await?;
                Ok(())
            })
            .await
            .unwrap();
        let mut its_admin = first.steward.clone();
        its_admin.member.id = admin;
        for who in [&first.steward, &its_admin] {
            let off = NotificationSwitches { off: vec![NotificationKind::CredentialsChanged] };
            assert_eq!(set_switches(&app.ctx, who, &off).await.unwrap().off, [], "it stays on");
        }
        let change = CredentialChange::PasswordReset { clears_second_factor: true };
        app.ctx.db.write("test", async |tx| announce(&app.ctx, tx, first.steward.id(), change).await).await.unwrap();
        for who in [&first.steward, &its_admin] {
            let notices = list_texts(app, who).await;
            assert!(notices.len() == 1 && notices[0].0 == NotificationKind::CredentialsChanged, "{notices:?}");
            assert!(notices[0].1.contains("was reset by an operator's link, and the second factor"), "{notices:?}");
        }
        assert_eq!(list_texts(app, &second.steward).await, []);
        let notices = notices_after(&app.ctx, first.worker, "").await.unwrap();
        assert_eq!(notices.len(), 1, "its site is told");
        let last = notices[0].id.to_string();
        assert_eq!(notices_after(&app.ctx, first.worker, &last).await.unwrap(), [], "once");
        assert_eq!(notices_after(&app.ctx, second.worker, "").await.unwrap(), [], "no other site is");
        assert_eq!(notices_after(&app.ctx, first.worker, "x").await.unwrap_err().code(), Code::ValidationFailed);
        change_credentials(app, &first.steward).await;
        let announced =
            ["was switched on", "New recovery codes", "linked an identity at https", "unlinked the identity at https"];
        for who in [&first.steward, &its_admin] {
            let notices = list_texts(app, who).await;
            for words in announced {
                let is_there = |(kind, text): &(NotificationKind, String)| {
                    *kind == NotificationKind::CredentialsChanged && text.contains(words)
                };
                assert_eq!(notices.iter().filter(|one| is_there(one)).count(), 1, "{words}: {notices:?}");
            }
        }
        assert_eq!(notices_after(&app.ctx, first.worker, &last).await.unwrap().len(), announced.len());
    }

    async fn site_misses_no_notice_of_one_millisecond(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        people(app, &world).await;
        let site = &world.sites[1];
        let mut last = String::new();
        for keys_revoked in 0..8 {
            let change = CredentialChange::PasswordChanged { keys_revoked };
            app.ctx.db.write("test", async |tx| announce(&app.ctx, tx, site.steward.id(), change).await).await.unwrap();
            let notices = notices_after(&app.ctx, site.worker, &last).await.unwrap();
            assert_eq!(notices.len(), 1, "{keys_revoked}");
            assert!(notices[0].text.ends_with(&format!("revoked: {keys_revoked}.")), "{notices:?}");
            last = notices[0].id.to_string();
        }
    }

    async fn notice_after_one_of_a_faster_clock_is_not_missed(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        people(app, &world).await;
        let site = &world.sites[1];
        let change = CredentialChange::RecoveryCodeUsed;
        app.clock.advance(time::Duration::minutes(1));
        app.ctx.db.write("test", async |tx| announce(&app.ctx, tx, site.steward.id(), change).await).await.unwrap();
        let last = notices_after(&app.ctx, site.worker, "").await.unwrap()[0].id.to_string();
        app.clock.advance(time::Duration::minutes(-1));
        app.ctx.db.write("test", async |tx| announce(&app.ctx, tx, site.steward.id(), change).await).await.unwrap();
        assert_eq!(notices_after(&app.ctx, site.worker, &last).await.unwrap().len(), 1);
    }

    async fn an_approval_key_is_listed_announced_and_removed(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 1, 50.0).await;
        people(app, &world).await;
        let site = &world.sites[1];
        let public_key = hex::encode(ed25519_dalek::SigningKey::from_bytes(&[1; 32]).verifying_key().to_bytes());
        let new = NewApprovalKey { label: "the safe".to_owned(), key: ApprovalKey::Ed25519 { public_key } };
        let listed = approval_key::create(&app.ctx, &site.steward, &new).await.unwrap();
        assert_eq!(ApprovalKey::parse_line(&listed.line).unwrap().fingerprint(), listed.fingerprint);
        assert_eq!(approval_key::list(&app.ctx, &site.steward).await.unwrap(), std::slice::from_ref(&listed));
        let again = approval_key::create(&app.ctx, &site.steward, &new).await.unwrap_err();
        assert_eq!(again.code(), Code::ValidationFailed);
        let other = approval_key::remove(&app.ctx, &world.sites[0].steward, listed.id).await.unwrap_err();
        assert_eq!(other.code(), Code::NotFound, "somebody else's");
        approval_key::remove(&app.ctx, &site.steward, listed.id).await.unwrap();
        assert_eq!(approval_key::list(&app.ctx, &site.steward).await.unwrap(), []);
        let notices = notices_after(&app.ctx, site.worker, "").await.unwrap();
        assert_eq!(notices.len(), 2, "added and removed");
        assert!(notices.iter().all(|notice| notice.text.contains(listed.fingerprint.as_str())), "{notices:?}");
    }

    async fn security_notices_are_not_muted(app: &TestApp) {
        let founded = app.founded().await;
        let by = founded.north.1.actor(app).await;
        let security = [
            NotificationKind::AccountChanged,
            NotificationKind::CredentialsChanged,
            NotificationKind::AccessRetired,
            NotificationKind::SignInNew,
            NotificationKind::SecondFactorFailed,
            NotificationKind::SiteKeyRotated,
        ];
        let off = NotificationSwitches { off: NotificationKind::ALL.to_vec() };
        let set = super::set_switches(&app.ctx, &by, &off).await.unwrap();
        assert_eq!(set.off.len(), NotificationKind::ALL.len() - security.len());
        assert!(security.iter().all(|kind| !set.off.contains(kind)), "{set:?}");
    }
}
