#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use undertone_api::job::Job;
use undertone_api::job::log::{Fault, LogEvent, LogLevel, LogQuery, MOST_EVENTS, MOST_LINES, Phase, SiteEvent};
use undertone_api::problem::Code;

use super::{Said, append, export, last, list, note};
use crate::service::world::TestConsortium;
use crate::testing::{TestApp, on_both};

fn said(sequence: u64, at_unix: i64, event: SiteEvent) -> Said {
    Said { sequence, at_unix, event }
}

const BEGUN: SiteEvent = SiteEvent::Phase { phase: Phase::Begun };

async fn at_work(app: &TestApp) -> (TestConsortium, Job, String) {
    let world = TestConsortium::new(&app.ctx, 2, 50.0).await;
    let job = world.queued(2).await;
    let lease = world.lease(1).await;
    app.clock.advance(time::Duration::seconds(10));
    (world, job, lease)
}

on_both! {
    async fn what_a_site_says_stands_in_the_log_once_in_order_and_in_words(app: &TestApp) {
        let (world, job, lease) = at_work(app).await;
        let now = app.ctx.now().unix_timestamp();
        let events = [said(7, now - 5, BEGUN), said(8, now, SiteEvent::Sent { series: 0, round: 1, repeated: false })];
        append(&app.ctx, world.sites[1].worker, &lease, now, &events).await.unwrap();
        // A retransmission.
        append(&app.ctx, world.sites[1].worker, &lease, now, &events).await.unwrap();
        let only = LogQuery { dataset: Some(world.sites[1].dataset), ..LogQuery::default() };
        let page = list(&app.ctx, &world.sites[2].steward, job.summary.id, &only).await.unwrap();
        let own: Vec<_> = page.items.iter().filter(|line| matches!(line.event, LogEvent::Site { .. })).collect();
        assert_eq!(own.iter().map(|line| &*line.text).collect::<Vec<_>>(), ["sent its vector of round 1, private", "began its part"]);
        assert_eq!((app.ctx.now() - own[1].at).whole_seconds(), 5);
        assert_eq!(own[0].series_name.as_deref(), Some("private"));
        let whole = export(&app.ctx, &world.sites[2].steward, job.summary.id).await.unwrap();
        assert!(whole.lines().count() >= 2 && whole.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    }

    async fn a_log_takes_no_strangers_no_other_rounds_and_no_more_than_a_message_holds(app: &TestApp) {
        let (world, _, lease) = at_work(app).await;
        let now = app.ctx.now().unix_timestamp();
        let worker = world.sites[1].worker;
        let code = async |worker, lease: &str, events: &[Said]| append(&app.ctx, worker, lease, now, events).await.err().map(|error| error.code());
        assert_eq!(code(world.sites[2].worker, &lease, &[said(1, now, BEGUN)]).await, Some(Code::LeaseLost));
        for (series, round) in [(1, 1), (0, 0), (0, 3)] {
            let event = SiteEvent::Received { series, round };
            assert_eq!(code(worker, &lease, &[said(1, now, event)]).await, Some(Code::ValidationFailed), "{series} {round}");
        }
        let many: Vec<_> = (1..).map(|number| said(number, now, BEGUN)).take(MOST_EVENTS + 1).collect();
        assert_eq!(code(worker, &lease, &many).await, Some(Code::ValidationFailed));
        assert_eq!(code(worker, &lease, &[]).await, Some(Code::ValidationFailed));
        assert_eq!(code(worker, &lease, &many[..MOST_EVENTS]).await, None);
    }

    async fn a_talkative_site_loses_its_own_oldest_lines_and_nobody_elses(app: &TestApp) {
        let (world, job, lease) = at_work(app).await;
        let (id, now) = (job.summary.id, app.ctx.now().unix_timestamp());
        let other = world.sites[2].dataset;
        app.ctx.db.write("test", async |tx| note(&app.ctx, tx, id.0, Some(other.0), LogEvent::Leased { times: 1 }).await).await.unwrap();
        let events: Vec<_> = (1..).map(|number| said(number, now, BEGUN)).take(MOST_LINES as usize + 30).collect();
        for batch in events.chunks(MOST_EVENTS) {
            append(&app.ctx, world.sites[1].worker, &lease, now, batch).await.unwrap();
        }
        let whole = export(&app.ctx, &world.sites[0].steward, id).await.unwrap();
        let of = |dataset| whole.lines().filter(|line| line.contains(&format!("\"dataset\":\"{dataset}\""))).count();
        assert_eq!((of(world.sites[1].dataset), of(other)), (MOST_LINES as usize, 1));
    }

    async fn what_is_written_at_once_at_two_replicas_is_numbered_in_one_row_and_stands_once(app: &TestApp) {
        let (world, job, lease) = at_work(app).await;
        let leases = [(1, lease), (2, world.lease(2).await)];
        let (id, now, other) = (job.summary.id, app.ctx.now().unix_timestamp(), app.restarted().await);
        let replicas = [app.ctx.clone(), other.clone()];
        let noted = replicas.clone().map(|ctx| tokio::spawn(async move {
            for times in 1..=10 {
                ctx.db.write("test", async |tx| note(&ctx, tx, id.0, None, LogEvent::Leased { times }).await).await.unwrap();
            }
        }));
        for sequence in 1..=10 {
            // Retransmissions, also to another replica.
            let mut saying = Vec::new();
            for (site, lease) in &leases {
                for ctx in replicas.clone() {
                    let (worker, lease) = (world.sites[*site].worker, lease.clone());
                    let events = [said(sequence, now, BEGUN)];
                    saying.push(tokio::spawn(async move { append(&ctx, worker, &lease, now, &events).await }));
                }
            }
            for one in saying {
                one.await.unwrap().unwrap();
            }
        }
        for one in noted {
            one.await.unwrap();
        }
        let whole = export(&app.ctx, &world.sites[0].steward, id).await.unwrap();
        let lines: Vec<serde_json::Value> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let numbers: Vec<_> = lines.iter().map(|line| line["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=lines.len() as u64).collect::<Vec<_>>());
        for (site, _) in &leases {
            let dataset = world.sites[*site].dataset.to_string();
            let own = lines.iter().filter(|line| line["dataset"] == *dataset && line["text"] == "began its part").count();
            assert_eq!(own, 10, "{whole}");
        }
        assert_eq!(lines.iter().filter(|line| line["dataset"].is_null() && line["text"].as_str().unwrap().contains("10")).count(), 2);
        other.shutdown.cancel();
        other.db.clone().close().await.unwrap();
    }

    async fn lines_are_found_by_how_much_they_matter_and_page_by_page(app: &TestApp) {
        let (world, job, lease) = at_work(app).await;
        let now = app.ctx.now().unix_timestamp();
        let fault = SiteEvent::Fault { fault: Fault::DiskFull };
        append(&app.ctx, world.sites[1].worker, &lease, now, &[said(1, now, BEGUN), said(2, now, fault)]).await.unwrap();
        let reader = &world.sites[2].steward;
        let errors = LogQuery { level: Some(LogLevel::Error), ..LogQuery::default() };
        let found = list(&app.ctx, reader, job.summary.id, &errors).await.unwrap();
        assert_eq!(found.items.iter().map(|line| &*line.text).collect::<Vec<_>>(), ["stopped because the site's disk is full"]);
        let one = LogQuery { limit: Some(1), ..LogQuery::default() };
        let first = list(&app.ctx, reader, job.summary.id, &one).await.unwrap();
        let second = LogQuery { cursor: first.next.clone(), ..one };
        let second = list(&app.ctx, reader, job.summary.id, &second).await.unwrap();
        assert!(first.items[0].number > second.items[0].number);
        let strange = LogQuery { cursor: Some("x".to_owned()), ..LogQuery::default() };
        assert_eq!(list(&app.ctx, reader, job.summary.id, &strange).await.unwrap_err().code(), Code::ValidationFailed);
        let known = last(app.ctx.db.read(), job.summary.id.0).await.unwrap()[&world.sites[1].dataset.0];
        assert_eq!((known.event, known.skew_seconds), (fault, 0));
        let stranger = TestConsortium::new(&app.ctx, 1, 1.0).await.sites.remove(1).steward;
        assert_eq!(list(&app.ctx, &stranger, job.summary.id, &LogQuery::default()).await.unwrap_err().code(), Code::NotFound);
    }

    async fn a_site_cannot_put_its_words_before_the_job_or_after_now(app: &TestApp) {
        let (world, job, lease) = at_work(app).await;
        let now = app.ctx.now().unix_timestamp();
        let events = [said(1, i64::MIN, BEGUN), said(2, i64::MAX, BEGUN)];
        append(&app.ctx, world.sites[1].worker, &lease, now + 3600, &events).await.unwrap();
        let page = list(&app.ctx, &world.sites[1].steward, job.summary.id, &LogQuery::default()).await.unwrap();
        let moments: Vec<_> = page.items.iter().take(2).map(|line| line.at).collect();
        assert_eq!(moments, [app.ctx.now(), job.summary.created_at]);
        let known = last(app.ctx.db.read(), job.summary.id.0).await.unwrap()[&world.sites[1].dataset.0];
        assert_eq!(known.skew_seconds, 3600);
    }
}
