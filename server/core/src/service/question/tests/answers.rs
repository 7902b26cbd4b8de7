//! Assignment of questions, and recording of answers.

use time::Duration;
use undertone_api::page::PageQuery;
use undertone_api::problem::Code;
use undertone_api::question::{Answer, NewAnnotation};

use crate::auth::{Operation, Place, policy};
use crate::service::question::{self, QuestionFilter};
use crate::service::world::poll::{QuestionJob, read_answer};
use crate::service::{dataset, job};
use crate::testing::on_both;

on_both! {
    async fn the_most_uncertain_comes_first_and_nobody_is_shown_what_another_reads(app: &TestApp) {
        let poll = QuestionJob::pooled(&app.ctx, 1).await;
        let (one, two) = (poll.annotator(), poll.annotator());
        assert_eq!(poll.next(&one).await, [""; 0], "nothing is asked yet");
        poll.chooses(1, &[poll.id(2, "d"), poll.id(1, "a"), poll.id(1, "b")]).await.unwrap();
        let queue = poll.queue(&one).await;
        assert_eq!((queue.done, queue.left, queue.labels.len(), &*queue.guidelines), (0, 3, 3, "Label what is wanted."));
        assert_eq!(poll.next(&one).await, ["d", "a", "b"]);
        assert_eq!(poll.next(&two).await, [""; 0], "all of it stands before the first");
        assert_eq!(poll.queue(&two).await.left, 3);
    }

    async fn what_was_left_lying_is_shown_to_others(app: &TestApp) {
        let poll = QuestionJob::lasting(&app.ctx, 3600).await;
        let (one, two) = (poll.annotator(), poll.annotator());
        poll.chooses(1, &[poll.id(2, "d"), poll.id(1, "a")]).await.unwrap();
        assert_eq!(poll.next(&one).await, ["d", "a"]);
        app.clock.advance(Duration::minutes(4));
        assert_eq!(poll.next(&two).await, [""; 0]);
        assert_eq!(poll.next(&one).await, ["d", "a"], "who is still there keeps it");
        app.clock.advance(Duration::minutes(4));
        assert_eq!(poll.next(&two).await, [""; 0]);
        app.clock.advance(Duration::minutes(2));
        assert_eq!(poll.next(&two).await, ["d", "a"]);
        assert_eq!(poll.next(&one).await, [""; 0]);
        // The first answer is recorded all the same; the other person's is one too many.
        poll.says(&one, poll.id(2, "d"), "what").await.unwrap();
        assert_eq!(poll.says(&two, poll.id(2, "d"), "what").await.unwrap_err().code(), Code::RoundClosed);
        assert_eq!(poll.next(&two).await, ["a"]);
    }

    async fn a_question_stands_before_as_many_people_as_it_needs_answers_from(app: &TestApp) {
        let poll = QuestionJob::pooled(&app.ctx, 2).await;
        poll.chooses(1, &[poll.id(2, "d")]).await.unwrap();
        let people = [poll.annotator(), poll.annotator(), poll.annotator()];
        for (person, shown) in people.iter().zip([1, 1, 0]) {
            assert_eq!(poll.next(person).await.len(), shown);
        }
        poll.says(&people[0], poll.id(2, "d"), "skip").await.unwrap();
        assert_eq!(poll.next(&people[2]).await, ["d"], "a skip leaves it to others");
        let queue = poll.queue(&people[0]).await;
        assert_eq!((queue.questions.len(), queue.done, queue.left, queue.held), (0, 0, 1, 1), "others have it now");
    }

    async fn a_skipped_question_comes_back_last_and_is_held_for_nobody(app: &TestApp) {
        let poll = QuestionJob::lasting(&app.ctx, 3600).await;
        let (one, two) = (poll.annotator(), poll.annotator());
        poll.chooses(1, &[poll.id(2, "d"), poll.id(1, "a"), poll.id(1, "b")]).await.unwrap();
        assert_eq!(poll.next(&one).await, ["d", "a", "b"]);
        poll.says(&one, poll.id(2, "d"), "skip").await.unwrap();
        assert_eq!(poll.next(&one).await, ["a", "b", "d"]);
        assert_eq!(poll.next(&two).await, ["d"], "who skipped does not hold it");
        let queue = poll.queue(&one).await;
        assert_eq!((queue.questions.len(), queue.done, queue.left, queue.held), (2, 0, 3, 1));
        app.clock.advance(Duration::minutes(6));
        poll.says(&one, poll.id(1, "a"), "what").await.unwrap();
        poll.says(&one, poll.id(1, "b"), "what").await.unwrap();
        assert_eq!(poll.next(&one).await, ["d"], "nothing else is left, so the round does not wait for its deadline");
        poll.says(&one, poll.id(2, "d"), "what").await.unwrap();
        assert_eq!(poll.answers(1).await.unwrap().len(), 3);
    }

    async fn an_answer_counts_once_and_the_lead_has_the_answers_when_all_have_come(app: &TestApp) {
        let poll = QuestionJob::pooled(&app.ctx, 2).await;
        let (a, d) = (poll.id(1, "a"), poll.id(2, "d"));
        poll.chooses(1, &[d, a]).await.unwrap();
        let (one, two) = (poll.annotator(), poll.annotator());
        let first = poll.says(&two, a, "what").await.unwrap();
        assert_eq!((first.annotator, first.undone), (1, false), "numbers are given in the order of first answers");
        assert_eq!(poll.says(&two, a, "what").await.unwrap(), first, "the network repeated it");
        assert_eq!(poll.says(&two, a, "where").await.unwrap_err().code(), Code::AlreadyExists);
        let strange = poll.says(&two, d, "why").await.unwrap_err();
        assert_eq!(strange.code(), Code::ValidationFailed);
        assert_eq!(poll.says(&one, a, "unsure").await.unwrap().annotator, 2);
        assert_eq!(poll.answers(1).await, Err((2, 1)));
        poll.says(&one, d, "skip").await.unwrap();
        poll.says(&one, d, "when").await.expect("after a skip one may still answer");
        assert_eq!(poll.answers(1).await, Err((2, 1)));
        poll.says(&two, d, "when").await.unwrap();
        let answers = poll.answers(1).await.unwrap();
        assert_eq!(answers.iter().map(read_answer).collect::<Vec<_>>(), [(1, "when"), (2, "when"), (1, "what"), (2, "none")]);
        assert_eq!(answers[3].answer, Answer::Unsure);
        assert_eq!((answers[0].question, answers[3].question), (d, a), "in the order of the queue");
        assert_eq!(poll.world.job(poll.job.summary.id).await.summary.rounds_done, 1);
    }

    async fn an_answer_is_taken_back_until_the_lead_has_it(app: &TestApp) {
        let poll = QuestionJob::pooled(&app.ctx, 1).await;
        let (a, d) = (poll.id(1, "a"), poll.id(2, "d"));
        poll.chooses(1, &[d, a]).await.unwrap();
        let (one, two) = (poll.annotator(), poll.annotator());
        poll.says(&one, d, "what").await.unwrap();
        let others = question::take_back(&app.ctx, &two, d).await.unwrap_err();
        assert_eq!(others.code(), Code::NotFound, "the answer is another's");
        let undone = question::take_back(&app.ctx, &one, d).await.unwrap();
        assert!(undone.undone && undone.answer.label() == Some("what"));
        assert_eq!(question::take_back(&app.ctx, &one, d).await.unwrap_err().code(), Code::NotFound, "once");
        assert_eq!(poll.next(&two).await, ["a"], "it stands before who took it back");
        assert_eq!(poll.next(&one).await, ["d"]);
        poll.says(&one, d, "where").await.unwrap();
        poll.says(&two, a, "when").await.unwrap();
        assert_eq!(poll.answers(1).await.unwrap().iter().map(read_answer).collect::<Vec<_>>(), [(1, "where"), (2, "when")]);
        assert_eq!(question::take_back(&app.ctx, &one, d).await.unwrap_err().code(), Code::RoundClosed);
    }

    async fn a_round_closes_at_its_deadline_with_what_there_is(app: &TestApp) {
        let poll = QuestionJob::pooled(&app.ctx, 2).await;
        let (a, d) = (poll.id(1, "a"), poll.id(2, "d"));
        poll.chooses(1, &[d, a]).await.unwrap();
        let (one, two) = (poll.annotator(), poll.annotator());
        poll.says(&one, d, "what").await.unwrap();
        app.clock.advance(Duration::seconds(60));
        assert_eq!(poll.next(&two).await, [""; 0]);
        assert_eq!(poll.says(&two, d, "what").await.unwrap_err().code(), Code::RoundClosed);
        let answers = poll.answers(1).await.unwrap();
        assert_eq!(answers.iter().map(read_answer).collect::<Vec<_>>(), [(1, "what")]);
        assert_eq!(question::take_back(&app.ctx, &one, d).await.unwrap_err().code(), Code::RoundClosed);
        assert_eq!(poll.answers(1).await.unwrap(), answers);
    }

    async fn a_stranger_learns_nothing_and_an_annotator_only_what_to_answer(app: &TestApp) {
        let poll = QuestionJob::pooled(&app.ctx, 1).await;
        let (d, id) = (poll.id(2, "d"), poll.job.summary.id);
        poll.chooses(1, &[d]).await.unwrap();
        let (stranger, annotator) = (poll.stranger(), poll.annotator());
        assert_eq!(poll.says(&stranger, d, "what").await.unwrap_err().code(), Code::NotFound);
        assert_eq!(question::take_back(&app.ctx, &stranger, d).await.unwrap_err().code(), Code::NotFound);
        assert_eq!(question::next(&app.ctx, &stranger, id).await.unwrap_err().code(), Code::NotFound);
        assert_eq!(question::asking(&app.ctx, &stranger, poll.world.consortium).await.unwrap_err().code(), Code::NotFound);
        let nothing = question::annotate(&app.ctx, &annotator, poll.id(2, "x"), &NewAnnotation { answer: Answer::Skip });
        assert_eq!(nothing.await.unwrap_err().code(), Code::NotFound);

        let listed = question::asking(&app.ctx, &annotator, poll.world.consortium).await.unwrap();
        assert_eq!((listed.len(), listed[0].asking.asked, listed[0].asking.questions), (1, 1, 5));
        let filter = QuestionFilter::default();
        let list = question::list(&app.ctx, &annotator, id, &filter, &PageQuery::default()).await.unwrap_err();
        assert_eq!(list.code(), Code::Forbidden, "what others were asked and answered could sway them");
        let format = undertone_api::question::ExportFormat::Jsonl;
        assert_eq!(question::export(&app.ctx, &annotator, id, format).await.err().unwrap().code(), Code::Forbidden);
        assert_eq!(question::import(&app.ctx, &annotator, id, None, "").await.unwrap_err().code(), Code::Forbidden);
        assert_eq!(job::get(&app.ctx, &annotator, id).await.unwrap_err().code(), Code::NotFound);
        let data = dataset::get(&app.ctx, &annotator, poll.world.sites[1].dataset).await.unwrap_err();
        assert_eq!(data.code(), Code::NotFound);
        let organization = annotator.consortia[&poll.world.consortium][0];
        assert!(!policy::allows(&annotator, Operation::ReadOrganization, Place::Organization(organization)));
    }

    async fn agreement_is_told_once_two_people_have_answered_the_same(app: &TestApp) {
        let poll = QuestionJob::pooled(&app.ctx, 2).await;
        let (a, d) = (poll.id(1, "a"), poll.id(2, "d"));
        poll.chooses(1, &[d, a]).await.unwrap();
        let (one, two) = (poll.annotator(), poll.annotator());
        poll.says(&one, d, "what").await.unwrap();
        poll.says(&one, a, "where").await.unwrap();
        assert_eq!(poll.queue(&one).await.agreement, None);
        poll.says(&two, d, "what").await.unwrap();
        poll.says(&two, a, "where").await.unwrap();
        assert_eq!(poll.queue(&one).await.agreement, Some(1.0));
        let figures = &question::asking(&app.ctx, &one, poll.world.consortium).await.unwrap()[0].asking;
        assert_eq!((figures.annotations, figures.annotators, figures.answered, figures.rounds_done), (4, 2, 2, 1));
    }
}
