//! Drafts: incomplete, shared by researchers of one organization, changed by one at a time, proposed once.

use serde_json::json;
use undertone_api::job::{JobState, NewDraft, Spec};
use undertone_api::problem::Code;

use crate::service::job::{draft_create, draft_delete, draft_get, draft_list, draft_propose, draft_update};
use crate::service::version::ExpectedVersion;
use crate::service::world::TestConsortium;
use crate::testing::on_both;

fn empty() -> NewDraft {
    NewDraft { title: String::new(), kind: "dp_sgd".to_owned(), spec: json!({}) }
}

on_both! {
    async fn a_draft_may_be_incomplete_says_what_it_lacks_and_is_proposed_once(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let lead = world.sites[0].steward.clone();
        let draft = draft_create(&app.ctx, &lead, world.consortium, &empty()).await.unwrap();
        assert_eq!((draft.version, draft.violations[0].field.as_str()), (1, "spec"));
        let early = draft_propose(&app.ctx, &lead, draft.id).await.unwrap_err();
        assert_eq!(early.code(), Code::ValidationFailed);

        let untitled = NewDraft::from_spec("", &Spec::DpSgd(world.spec(2))).unwrap();
        let second = draft_update(&app.ctx, &lead, draft.id, &untitled, Some(1), &ExpectedVersion::Anything).await.unwrap();
        assert_eq!(second.violations.iter().map(|lack| lack.field.as_str()).collect::<Vec<_>>(), ["title"]);
        let titled = NewDraft { title: "a second try".to_owned(), ..untitled };
        let ready = draft_update(&app.ctx, &lead, draft.id, &titled, Some(2), &ExpectedVersion::Anything).await.unwrap();
        assert_eq!((ready.version, ready.violations.len()), (3, 0));

        let job = draft_propose(&app.ctx, &lead, draft.id).await.unwrap();
        assert_eq!((job.summary.state, job.summary.title.as_str()), (JobState::Proposed, "a second try"));
        let gone = draft_propose(&app.ctx, &lead, draft.id).await.unwrap_err();
        assert_eq!(gone.code(), Code::NotFound, "it is a job now");
    }

    async fn a_draft_that_is_refused_by_a_budget_stays_a_draft(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 3.0).await;
        let lead = world.sites[0].steward.clone();
        let whole = NewDraft::from_spec("too much", &Spec::DpSgd(world.spec(1000))).unwrap();
        let draft = draft_create(&app.ctx, &lead, world.consortium, &whole).await.unwrap();
        let refused = draft_propose(&app.ctx, &lead, draft.id).await.unwrap_err();
        assert_eq!(refused.code(), Code::BudgetExceeded);
        assert_eq!(draft_get(&app.ctx, &lead, draft.id).await.unwrap(), draft);
    }

    async fn two_who_write_at_once_do_not_overwrite_each_other(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let lead = world.sites[0].steward.clone();
        let draft = draft_create(&app.ctx, &lead, world.consortium, &empty()).await.unwrap();
        let titled = |title: &str| NewDraft { title: title.to_owned(), ..empty() };
        draft_update(&app.ctx, &lead, draft.id, &titled("mine"), Some(1), &ExpectedVersion::Anything).await.unwrap();
        let late = draft_update(&app.ctx, &lead, draft.id, &titled("yours"), Some(1), &ExpectedVersion::Anything).await;
        assert_eq!(late.unwrap_err().code(), Code::PreconditionFailed);
        assert_eq!(draft_get(&app.ctx, &lead, draft.id).await.unwrap().content.title, "mine");
        let wrong = draft_update(&app.ctx, &lead, draft.id, &titled(&"x".repeat(101)), None, &ExpectedVersion::Anything).await;
        assert_eq!(wrong.unwrap_err().code(), Code::ValidationFailed);
    }

    async fn to_others_than_its_organizations_researchers_there_is_no_draft(app: &TestApp) {
        let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let (lead, other) = (world.sites[0].steward.clone(), world.sites[1].steward.clone());
        let draft = draft_create(&app.ctx, &lead, world.consortium, &empty()).await.unwrap();
        assert_eq!(draft_list(&app.ctx, &lead, world.consortium).await.unwrap(), std::slice::from_ref(&draft));
        assert_eq!(draft_list(&app.ctx, &other, world.consortium).await.unwrap(), []);
        assert_eq!(draft_get(&app.ctx, &other, draft.id).await.unwrap_err().code(), Code::NotFound);
        assert_eq!(draft_delete(&app.ctx, &other, draft.id).await.unwrap_err().code(), Code::NotFound);
        draft_delete(&app.ctx, &lead, draft.id).await.unwrap();
        assert_eq!(draft_list(&app.ctx, &lead, world.consortium).await.unwrap(), []);
    }
}
