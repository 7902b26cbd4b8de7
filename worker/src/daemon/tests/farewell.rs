//! The wait of a stopping worker for its parts.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::daemon::{FAREWELL, ended};

#[tokio::test(start_paused = true)]
async fn runs_have_their_time_to_stop_and_no_more() {
    let instant = Duration::from_millis(1);
    for (needs, in_time) in [(FAREWELL.saturating_sub(instant), true), (FAREWELL + 2 * instant, false)] {
        let (mut parts, began) = (JoinSet::new(), Instant::now());
        parts.spawn(tokio::time::sleep(Duration::ZERO));
        parts.spawn(tokio::time::sleep(needs));
        assert_eq!(ended(&mut parts).await, in_time, "a run that needs {needs:?}");
        assert!(began.elapsed() <= FAREWELL + instant, "{:?}", began.elapsed());
    }
    assert!(ended(&mut JoinSet::new()).await, "nothing to wait for");
}
