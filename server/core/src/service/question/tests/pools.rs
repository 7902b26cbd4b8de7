//! Pools and the choices from them.

use time::Duration;
use undertone_api::job::PauseRequest;
use undertone_api::page::PageQuery;
use undertone_api::problem::Code;
use undertone_api::question::QuestionState;
use undertone_proto::question::{MAX_SIZE, id};

use crate::service::finish::Outcome;
use crate::service::job;
use crate::service::question::{self, PoolHeader, QuestionChoice, QuestionFilter};
use crate::service::world::poll::{QuestionJob, pool};
use crate::testing::on_both;

/// Returns the number of pools in the object store.
fn count_files(app: &crate::testing::TestApp, poll: &QuestionJob) -> usize {
    let folder = app.data_dir().join("objects/pools").join(poll.job.summary.id.to_string());
    std::fs::read_dir(folder).into_iter().flatten().count()
}

/// Returns lines as a dishonest site would send them.
fn frame(lines: &str) -> Vec<u8> {
    zstd::encode_all(lines.as_bytes(), 1).unwrap()
}

on_both! {
    async fn a_pool_that_nobody_paid_for_is_refused_and_leaves_nothing(app: &TestApp) {
        let mut poll = QuestionJob::new(&app.ctx, 1).await;
        let unpaid = poll.sends(1, &pool(&["a"]), vec![]).await.unwrap_err();
        assert_eq!(unpaid.code(), Code::BadSignature);
        let foreign = poll.receipt(2);
        let stolen = poll.sends(1, &pool(&["a"]), vec![foreign]).await.unwrap_err();
        assert_eq!(stolen.code(), Code::BadSignature);
        let cheap = poll.world.sites[1].receipt(&poll.job, 1, 1);
        let other = poll.sends(1, &pool(&["a"]), vec![cheap]).await.unwrap_err();
        assert_eq!(other.code(), Code::BadSignature, "a receipt for a release that the manifest does not foresee");
        assert_eq!(poll.world.account(1).await.spent, 0.0);
        assert_eq!((count_files(app, &poll), poll.pools().await), (0, None));
    }

    async fn a_pool_that_comes_twice_counts_once_and_another_is_refused(app: &TestApp) {
        let mut poll = QuestionJob::new(&app.ctx, 1).await;
        let receipt = poll.receipt(1);
        let first = poll.sends(1, &pool(&["a", "b"]), vec![receipt.clone()]).await.unwrap();
        assert!(!first.repeated && first.countersignatures.len() == 1);
        let spent = poll.world.account(1).await.spent;
        assert!(spent > 0.0);
        for receipts in [vec![receipt], vec![]] {
            let again = poll.sends(1, &pool(&["b", "a"]), receipts.clone()).await.unwrap();
            assert!(again.repeated && again.countersignatures.len() == receipts.len());
        }
        let other = poll.sends(1, &pool(&["a", "c"]), vec![]).await.unwrap_err();
        assert_eq!(other.code(), Code::AlreadyExists);
        let second = poll.receipt(1);
        let twice = poll.sends(1, &pool(&["a", "c"]), vec![second]).await.unwrap_err();
        assert_ne!(twice.code(), Code::AlreadyExists, "nothing is reserved for a second sample");
        assert_eq!(poll.world.account(1).await.spent, spent);
        assert_eq!(count_files(app, &poll), 1);
        assert_eq!(poll.world.job(poll.job.summary.id).await.participants[1].releases, 1);
    }

    async fn what_is_no_pool_is_refused_at_the_door(app: &TestApp) {
        let mut poll = QuestionJob::new(&app.ctx, 1).await;
        let receipt = poll.receipt(1);
        for (lines, code) in [
            ("{\"text\":\"b\"}\n{\"text\":\"a\"}\n".to_owned(), Code::ValidationFailed),
            ("{\"text\":\"a\",\"user\":\"u\"}\n".to_owned(), Code::ValidationFailed),
            (format!("{{\"text\":\"{}\"}}\n", "x".repeat(2001)), Code::ValidationFailed),
            ("a row of a log\n".to_owned(), Code::ValidationFailed),
        ] {
            let refused = poll.sends(1, &frame(&lines), vec![receipt.clone()]).await.unwrap_err();
            assert_eq!(refused.code(), code, "{lines}");
            assert!(!refused.into_problem().detail.contains("a row of a log"), "what stood there is told to nobody");
        }
        assert_eq!(count_files(app, &poll), 0);
        let header = |series: &str, round, size| PoolHeader {
            lease: poll.leases[1].clone(), series: series.to_owned(), round, receipts: vec![], size, digest: "0".repeat(64),
        };
        let worker = poll.world.sites[1].worker;
        for (header, code) in [
            (header("pool", 1, MAX_SIZE + 1), Code::TooLarge),
            (header("private", 1, 10), Code::ValidationFailed),
            (header("pool", 2, 10), Code::ValidationFailed),
        ] {
            assert_eq!(question::begin(&app.ctx, worker, header).await.err().unwrap().code(), code);
        }
        let lead = PoolHeader { lease: poll.leases[0].clone(), ..header("pool", 1, 10) };
        let lead = question::begin(&app.ctx, poll.world.sites[0].worker, lead).await.err().unwrap();
        assert_eq!(lead.code(), Code::ValidationFailed, "the lead of this job asks nothing");
        assert_eq!(poll.world.account(1).await.spent, 0.0);
    }

    async fn the_lead_has_the_pools_when_none_is_awaited_and_nobody_else_has_them(app: &TestApp) {
        let mut poll = QuestionJob::new(&app.ctx, 1).await;
        poll.asks(2, &["b", "d"]).await.unwrap();
        assert_eq!(poll.pools().await, None);
        let progress = job::progress(&app.ctx, &poll.world.sites[0].steward, poll.job.summary.id).await.unwrap();
        assert!(progress.now.starts_with("waits for the questions of party 1"), "{}", progress.now);
        let curious = question::wait_for_pools(&app.ctx, poll.world.sites[1].worker, &poll.leases[1], 0).await.unwrap_err();
        assert_eq!(curious.code(), Code::Forbidden);
        poll.asks(1, &["a", "b", "c"]).await.unwrap();
        let pools = poll.pools().await.unwrap();
        let counts: Vec<_> = pools.pools.iter().map(|pool| (pool.dataset, pool.questions)).collect();
        assert_eq!(counts, [(poll.world.sites[1].dataset, 3), (poll.world.sites[2].dataset, 2)]);
        assert_eq!(pools.missing, []);
        assert_eq!(poll.pools().await, Some(pools));
    }

    async fn after_the_deadline_the_lead_goes_on_without_and_a_late_pool_stays_paid(app: &TestApp) {
        let mut poll = QuestionJob::new(&app.ctx, 1).await;
        app.clock.advance(Duration::seconds(61));
        assert_eq!(poll.pools().await, None, "with no pool at all there is nothing to do");
        poll.asks(2, &[]).await.unwrap();
        let pools = poll.pools().await.unwrap();
        assert_eq!((pools.pools.len(), pools.pools[0].questions), (1, 0), "a pool may be empty");
        assert_eq!(pools.missing, [poll.world.sites[1].dataset]);
        let late = poll.asks(1, &["a"]).await.unwrap_err();
        assert_eq!(late.code(), Code::RoundClosed);
        assert!(poll.world.account(1).await.spent > 0.0, "what was paid is counted");
        assert_eq!(poll.pools().await, Some(pools));
        assert_eq!(count_files(app, &poll), 1);
    }

    async fn pause_before_the_start_moves_no_deadline_of_pools(app: &TestApp) {
        let (world, job) = QuestionJob::queued(&app.ctx, 1, 60).await;
        let lead = world.sites[0].steward.clone();
        let pause = PauseRequest { reason: "a look at the labels".to_owned() };
        job::pause(&app.ctx, &lead, job.summary.id, &pause).await.unwrap();
        app.clock.advance(Duration::hours(1));
        job::resume(&app.ctx, &lead, job.summary.id).await.unwrap();
        let mut poll = QuestionJob::started(world, job).await;
        poll.asks(2, &["b"]).await.unwrap();
        app.clock.advance(Duration::seconds(59));
        assert_eq!(poll.pools().await, None, "the deadline is 60 seconds after the start");
        app.clock.advance(Duration::seconds(2));
        assert_eq!(poll.pools().await.unwrap().missing, [poll.world.sites[1].dataset]);
    }

    async fn pause_after_the_start_moves_the_deadline_of_pools(app: &TestApp) {
        let mut poll = QuestionJob::new(&app.ctx, 1).await;
        poll.asks(2, &["b"]).await.unwrap();
        let (lead, id) = (poll.world.sites[0].steward.clone(), poll.job.summary.id);
        let pause = PauseRequest { reason: "a look at the labels".to_owned() };
        job::pause(&app.ctx, &lead, id, &pause).await.unwrap();
        app.clock.advance(Duration::hours(1));
        job::resume(&app.ctx, &lead, id).await.unwrap();
        poll.leases[0] = poll.world.lease(0).await;
        app.clock.advance(Duration::seconds(59));
        assert_eq!(poll.pools().await, None, "the pause does not count");
        app.clock.advance(Duration::seconds(2));
        assert_eq!(poll.pools().await.unwrap().missing, [poll.world.sites[1].dataset]);
    }

    async fn a_site_that_gave_up_is_not_waited_for(app: &TestApp) {
        let mut poll = QuestionJob::new(&app.ctx, 1).await;
        poll.end(1, Outcome::GaveUp("the log is damaged".to_owned())).await;
        assert_eq!(poll.pools().await, None);
        poll.asks(2, &["b"]).await.unwrap();
        assert_eq!(poll.pools().await.unwrap().missing, [poll.world.sites[1].dataset]);
    }

    async fn only_questions_of_the_job_s_pools_are_asked_each_once(app: &TestApp) {
        let mut poll = QuestionJob::new(&app.ctx, 1).await;
        poll.asks(1, &["a", "b", "c"]).await.unwrap();
        let early = poll.chooses(1, &[poll.id(1, "a")]).await.unwrap_err();
        assert_eq!(early.code(), Code::NotReady, "the pools are open");
        poll.asks(2, &["b", "d"]).await.unwrap();
        poll.pools().await.unwrap();

        let other = QuestionJob::pooled(&app.ctx, 1).await;
        let strangers = [poll.id(2, "a"), other.id(1, "a"), id(poll.job.summary.id, poll.world.sites[0].dataset, "a")];
        for stranger in strangers {
            let refused = poll.chooses(1, &[poll.id(1, "a"), stranger]).await.unwrap_err().into_problem();
            let fields: Vec<_> = refused.violations.iter().map(|violation| violation.field.as_str()).collect();
            assert_eq!((refused.code, fields), (Code::ValidationFailed, vec!["chosen.1.question"]));
        }
        let [a, b, c, d] = [poll.id(1, "a"), poll.id(1, "b"), poll.id(1, "c"), poll.id(2, "d")];
        for chosen in [vec![], vec![a, b, c, d], vec![a, a]] {
            assert_eq!(poll.chooses(1, &chosen).await.unwrap_err().code(), Code::ValidationFailed);
        }
        assert_eq!(poll.chooses(4, &[a]).await.unwrap_err().code(), Code::ValidationFailed);
        assert_eq!(poll.chooses(2, &[a]).await.unwrap_err().code(), Code::NotReady, "round 1 was not asked");
        let worker = poll.world.sites[1].worker;
        let choice = [QuestionChoice { question: a, uncertainty: 0.5 }];
        let site = question::choose(&app.ctx, worker, &poll.leases[1], 1, &choice).await.unwrap_err();
        assert_eq!(site.code(), Code::Forbidden);

        assert!(!poll.chooses(1, &[a, b]).await.unwrap());
        assert!(poll.chooses(1, &[b, a]).await.unwrap(), "the network repeated it");
        assert_eq!(poll.chooses(1, &[a, c]).await.unwrap_err().code(), Code::AlreadyExists);
        assert_eq!(poll.chooses(2, &[c]).await.unwrap_err().code(), Code::NotReady, "round 1 is open");
        app.clock.advance(Duration::seconds(60));
        assert_eq!(poll.answers(1).await, Ok(vec![]));
        assert_eq!(poll.chooses(2, &[c, a]).await.unwrap_err().code(), Code::ValidationFailed, "asked before");
        assert!(!poll.chooses(2, &[c]).await.unwrap());
    }

    async fn questions_are_listed_by_state_page_by_page(app: &TestApp) {
        let poll = QuestionJob::pooled(&app.ctx, 1).await;
        poll.chooses(1, &[poll.id(2, "d"), poll.id(1, "a")]).await.unwrap();
        poll.says(&poll.annotator(), poll.id(1, "a"), "what").await.unwrap();
        let reader = &poll.world.sites[1].steward;
        let all = async |state, round| {
            let (mut texts, mut cursor) = (Vec::new(), None);
            loop {
                let page = PageQuery { cursor, limit: Some(1) };
                let filter = QuestionFilter { state, round, dataset: None };
                let page = question::list(&app.ctx, reader, poll.job.summary.id, &filter, &page).await.unwrap();
                texts.extend(page.items.into_iter().map(|question| question.text));
                cursor = page.next;
                if cursor.is_none() {
                    return texts.concat();
                }
            }
        };
        assert_eq!(all(None, None).await, "da");
        assert_eq!(all(None, Some(2)).await, "");
        assert_eq!(all(Some(QuestionState::Waiting), None).await, "bcb");
        assert_eq!(all(Some(QuestionState::Answered), None).await, "a");
        assert_eq!(all(Some(QuestionState::Asked), None).await, "d");
        app.clock.advance(Duration::seconds(60));
        poll.answers(1).await.unwrap();
        assert_eq!(all(Some(QuestionState::Asked), None).await, "");
        assert_eq!(all(Some(QuestionState::Closed), None).await, "d");
    }
}
