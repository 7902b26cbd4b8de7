//! Wakes those who wait for something to change, in this process. Another replica's changes are found by looking again
//! after a while, so nothing depends on it but speed.

use std::time::Duration;

use tokio::sync::watch;

/// A bell that everybody who waits hears.
#[derive(Clone)]
pub struct Wake(watch::Sender<()>);

/// Somebody who waits; hears every bell since it was made.
pub struct Waiter(watch::Receiver<()>);

impl Wake {
    /// A bell that nobody hears yet.
    pub fn new() -> Self {
        Self(watch::Sender::new(()))
    }

    /// Something has changed.
    pub fn ring(&self) {
        self.0.send_replace(());
    }

    /// Begins to listen. Make it before looking, so that no change falls in between.
    pub fn listen(&self) -> Waiter {
        Waiter(self.0.subscribe())
    }
}

impl Default for Wake {
    fn default() -> Self {
        Self::new()
    }
}

impl Waiter {
    /// Returns at the next change, or after `at_most`.
    pub async fn wait(&mut self, at_most: Duration) {
        // A bell that is gone never rings again: then the time passes.
        if let Ok(Err(_)) = tokio::time::timeout(at_most, self.0.changed()).await {
            tokio::time::sleep(at_most).await;
        }
    }
}
