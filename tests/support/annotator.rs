//! People who answer questions over REST, as anybody's client may: they take the queue as it is given, and answer by a rule.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use undertone_api::id::JobId;
use undertone_api::question::{Annotation, Answer, NewAnnotation, Question, Queue};

use crate::client::{Called, Client};

/// How long to wait before the next look at an empty queue.
const PAUSE: Duration = Duration::from_millis(200);

/// Somebody at work; they stop when dropped.
#[derive(Debug)]
pub struct Annotator {
    working: JoinHandle<Called<()>>,
    answered: Arc<AtomicU64>,
}

impl Annotator {
    /// Has somebody answer the questions of a job, as long as the server gives them any.
    pub fn at_work(client: Client, job: JobId, rule: impl Fn(&Question) -> Answer + Send + 'static) -> Self {
        let answered = Arc::new(AtomicU64::new(0));
        let working = tokio::spawn(work(client, job, rule, Arc::clone(&answered)));
        Self { working, answered }
    }

    /// How many answers were taken so far.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::SeqCst)
    }
}

impl Drop for Annotator {
    fn drop(&mut self) {
        self.working.abort();
    }
}

/// Answers until a call is refused for another reason than that the round closed meanwhile.
async fn work(
    client: Client,
    job: JobId,
    rule: impl Fn(&Question) -> Answer + Send,
    answered: Arc<AtomicU64>,
) -> Called<()> {
    loop {
        let queue: Queue = client.get(&format!("/jobs/{job}/questions/next")).await?;
        if queue.questions.is_empty() {
            tokio::time::sleep(PAUSE).await;
        }
        for question in &queue.questions {
            let answer = NewAnnotation { answer: rule(question) };
            let path = format!("/questions/{}/annotations", question.id);
            let said: Called<Annotation> = client.post(&path, &answer).await;
            match said {
                Ok(_) => {
                    answered.fetch_add(1, Ordering::SeqCst);
                }
                // Somebody else closed the question, or the deadline did.
                Err(error) if error.problem().is_some_and(|problem| problem.code.http_status() == 409) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
