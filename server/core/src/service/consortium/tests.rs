use sea_orm::ConnectionTrait as _;
use undertone_api::consortium::{NewConsortium, NewOverlap};
use undertone_api::id::ConsortiumId;
use undertone_api::member::Role;
use undertone_api::problem::Code;
use undertone_privacy::ledger::Overlap;
use uuid::Uuid;

use super::{attest, create, get, history, list};
use crate::service::{member, organization};
use crate::testing::on_both;

fn new(name: &str) -> NewConsortium {
    NewConsortium { name: name.to_owned(), description: String::new(), organization: None, organization_name: None }
}

on_both! {
    async fn only_the_operator_founds(app: &TestApp) {
        let founded = app.founded().await;
        let refused = create(&app.ctx, &founded.north.1.actor(app).await, &new("Mine")).await;
        assert_eq!(refused.expect_err("no").code(), Code::Forbidden);
    }

    async fn a_founder_with_data_of_their_own_gets_an_organization(app: &TestApp) {
        let operator = app.operator().await;
        let mut new = new("Speech");
        new.organization_name = Some("Centre".to_owned());
        let consortium = create(&app.ctx, &operator.actor(app).await, &new).await.expect("founded");
        let actor = operator.actor(app).await;
        assert_eq!(consortium.organizations, actor.organizations());
        assert!(actor.roles_in(consortium.organizations[0]).any(|role| role == Role::DataSteward));
        assert!(actor.roles_over(consortium.id).any(|role| role == Role::ConsortiumAdmin));
    }

    async fn a_name_is_taken_once(app: &TestApp) {
        let founded = app.founded().await;
        let duplicate = create(&app.ctx, &founded.operator.actor(app).await, &new(" Speech ")).await;
        assert_eq!(duplicate.expect_err("taken").code(), Code::AlreadyExists);
    }

    async fn a_stranger_does_not_learn_that_it_exists(app: &TestApp) {
        let founded = app.founded().await;
        let operator = founded.operator.actor(app).await;
        let other = create(&app.ctx, &operator, &new("Other")).await.expect("founded").id;
        let (_, stranger) = app.organization(&founded.operator, other, "East").await;
        let actor = stranger.actor(app).await;
        let theirs = get(&app.ctx, &actor, founded.consortium).await.expect_err("hidden").into_problem();
        let nothing = get(&app.ctx, &actor, ConsortiumId(Uuid::from_u128(1))).await.expect_err("none").into_problem();
        assert_eq!(theirs, nothing, "what is hidden looks like what is not");
        assert_eq!(theirs.code, Code::NotFound);
        let consortia = list(&app.ctx, &actor).await.expect("listed");
        assert_eq!(consortia.iter().map(|one| one.id).collect::<Vec<_>>(), [other]);
        assert_eq!(organization::list(&app.ctx, &actor).await.expect("listed").len(), 1);
    }

    async fn peers_see_each_others_organization_but_not_who_works_there(app: &TestApp) {
        let founded = app.founded().await;
        let actor = founded.south.1.actor(app).await;
        let north = organization::get(&app.ctx, &actor, founded.north.0).await.expect("seen");
        assert_eq!((north.name.as_str(), north.members), ("North", 1));
        let members = member::list(&app.ctx, &actor, founded.north.0).await;
        assert_eq!(members.expect_err("no").code(), Code::Forbidden);
    }

    async fn email_addresses_are_for_admins_and_oneself(app: &TestApp) {
        let founded = app.founded().await;
        let (north, admin) = &founded.north;
        let auditor = app.joins(admin, *north, "Auditor", &[Role::Auditor]).await;
        let members = member::list(&app.ctx, &auditor.actor(app).await, *north).await.expect("listed");
        let emails: Vec<&str> = members.iter().map(|member| member.email.as_str()).collect();
        assert_eq!(emails, ["auditor@example.org", ""]);
        let members = member::list(&app.ctx, &admin.actor(app).await, *north).await.expect("listed");
        assert!(members.iter().all(|member| !member.email.is_empty()));
    }

    async fn an_organization_joins_by_its_own_admin_only(app: &TestApp) {
        let founded = app.founded().await;
        let mut new = new("Second");
        new.organization = Some(founded.north.0);
        let refused = create(&app.ctx, &founded.operator.actor(app).await, &new).await;
        assert_eq!(refused.expect_err("not theirs").into_problem().violations[0].field, "organization");
    }

    async fn overlap_is_unlimited_until_an_admin_attests_a_rule(app: &TestApp) {
        let founded = app.founded().await;
        let (admin, consortium) = (founded.operator.actor(app).await, founded.consortium);
        let before = get(&app.ctx, &admin, consortium).await.expect("seen").overlap;
        assert_eq!((before.overlap, before.attested_by), (Overlap::default(), None));
        let disjoint = NewOverlap { overlap: Overlap::Disjoint, statement: " Different countries. ".to_owned() };
        attest(&app.ctx, &admin, consortium, &disjoint).await.expect("declared");
        app.clock.advance(time::Duration::minutes(3));
        let two = NewOverlap { overlap: Overlap::Overlapping { at_most: Some(2) }, statement: "Referred once.".to_owned() };
        attest(&app.ctx, &admin, consortium, &two).await.expect("declared");
        let now = get(&app.ctx, &founded.south.1.actor(app).await, consortium).await.expect("seen").overlap;
        assert_eq!((now.overlap, now.attested_by.as_deref()), (two.overlap, Some("Operator")));
        assert_eq!(now.attested_at, Some(app.ctx.now()));
        let reasons: Vec<_> = history(&app.ctx, &founded.north.1.actor(app).await, consortium).await.expect("read")
            .into_iter().map(|rule| rule.statement).collect();
        assert_eq!(reasons, ["Referred once.", "Different countries."], "what was said before stays said");
    }

    async fn overlap_rule_needs_consortium_admin_and_grounds(app: &TestApp) {
        let founded = app.founded().await;
        let new = NewOverlap { overlap: Overlap::Disjoint, statement: "Different countries.".to_owned() };
        let refused = attest(&app.ctx, &founded.north.1.actor(app).await, founded.consortium, &new).await;
        assert_eq!(refused.expect_err("no").code(), Code::Forbidden);
        let bare = NewOverlap { statement: "yes".to_owned(), ..new };
        let refused = attest(&app.ctx, &founded.operator.actor(app).await, founded.consortium, &bare).await;
        assert_eq!(refused.expect_err("why").into_problem().violations[0].field, "statement");
        assert!(history(&app.ctx, &founded.operator.actor(app).await, founded.consortium).await.expect("read").is_empty());
    }

    async fn a_declaration_cannot_be_taken_out_of_the_history(app: &TestApp) {
        let founded = app.founded().await;
        let new = NewOverlap { overlap: Overlap::Disjoint, statement: "Different countries.".to_owned() };
        attest(&app.ctx, &founded.operator.actor(app).await, founded.consortium, &new).await.expect("declared");
        for change in ["DELETE FROM overlap", "UPDATE overlap SET statement = ''"] {
            let refused = app.ctx.db.write("tamper", async |tx| Ok(tx.execute_unprepared(change).await?)).await;
            let crate::error::Error::Database(error) = refused.expect_err("refused by a trigger") else { panic!("another") };
            assert!(error.to_string().contains("append-only"), "{change}: {error}");
        }
    }
}
