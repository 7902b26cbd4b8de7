//! The wait of a stopping worker for its parts.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::daemon::{SHUTDOWN, wait_for_tasks};

#[tokio::test(start_paused = true)]
async fn runs_have_their_time_to_stop_and_no_more() {
    let instant = Duration::from_millis(1);
    for (duration, is_in_time) in [(SHUTDOWN.saturating_sub(instant), true), (SHUTDOWN + 2 * instant, false)] {
        let mut parts = JoinSet::new();
        let start = Instant::now();
        parts.spawn(tokio::time::sleep(Duration::ZERO));
        parts.spawn(tokio::time::sleep(duration));
        assert_eq!(wait_for_tasks(&mut parts).await, is_in_time, "a run that needs {duration:?}");
        assert!(start.elapsed() <= SHUTDOWN + instant, "{:?}", start.elapsed());
    }
    assert!(wait_for_tasks(&mut JoinSet::new()).await, "nothing to wait for");
}
