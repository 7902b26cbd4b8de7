//! People who answer questions over REST as any client could: they take the queue in its order, and answer by a rule.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use undertone_api::id::JobId;
use undertone_api::question::{Annotation, AnnotationQueue, Answer, NewAnnotation, Question};

use crate::client::{Called, TestClient};

/// The wait before the next request for an empty queue.
const PAUSE: Duration = Duration::from_millis(200);

/// An annotator at work; stops when dropped.
#[derive(Debug)]
pub struct TestAnnotator {
    working: JoinHandle<Called<()>>,
    answered: Arc<AtomicU64>,
}

impl TestAnnotator {
    /// Answers the questions of a job in a task, as long as the server provides any.
    pub fn start(client: TestClient, job: JobId, rule: impl Fn(&Question) -> Answer + Send + 'static) -> Self {
        let answer_count = Arc::new(AtomicU64::new(0));
        let working = tokio::spawn(work(client, job, rule, Arc::clone(&answer_count)));
        Self { working, answered: answer_count }
    }

    /// Returns the number of accepted answers so far.
    pub fn answer_count(&self) -> u64 {
        self.answered.load(Ordering::SeqCst)
    }
}

impl Drop for TestAnnotator {
    fn drop(&mut self) {
        self.working.abort();
    }
}

/// Answers until a call is rejected for a reason other than a round that closed meanwhile.
async fn work(
    client: TestClient,
    job: JobId,
    rule: impl Fn(&Question) -> Answer + Send,
    answer_count: Arc<AtomicU64>,
) -> Called<()> {
    loop {
        let queue: AnnotationQueue = client.get(&format!("/jobs/{job}/questions/next")).await?;
        if queue.questions.is_empty() {
            tokio::time::sleep(PAUSE).await;
        }
        for question in &queue.questions {
            let answer = NewAnnotation { answer: rule(question) };
            let path = format!("/questions/{}/annotations", question.id);
            let outcome: Called<Annotation> = client.post(&path, &answer).await;
            match outcome {
                Ok(_) => {
                    answer_count.fetch_add(1, Ordering::SeqCst);
                }
                // Another annotator or the deadline closed the question.
                Err(error) if error.problem().is_some_and(|problem| problem.code.http_status() == 409) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
