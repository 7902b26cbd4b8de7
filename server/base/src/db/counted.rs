//! Counts the reading statements, for tests: the number of a page's statements must not grow with the number of shown
//! objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sea_orm::DatabaseConnection;

use super::Db;

/// The number of statements through the reading connections since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Statements(Arc<AtomicUsize>);

impl Statements {
    /// Counts the statements of a connection from now on.
    pub(super) fn start_count(mut reader: DatabaseConnection) -> (DatabaseConnection, Self) {
        let statements = Self::default();
        let count = Arc::clone(&statements.0);
        reader.set_metric_callback(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        (reader, statements)
    }
}

impl Db {
    /// Returns the number of reading statements so far, of all callers.
    pub fn statements(&self) -> usize {
        self.statements.0.load(Ordering::Relaxed)
    }
}
