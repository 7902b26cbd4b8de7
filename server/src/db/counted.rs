//! For tests: with how many statements was read. What a page asks must not grow with what there is to show.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sea_orm::DatabaseConnection;

use super::Db;

/// Statements that were sent through the reading connections since the start.
#[derive(Clone, Debug, Default)]
pub(super) struct Statements(Arc<AtomicUsize>);

impl Statements {
    /// Counts those of a connection from now on.
    pub(super) fn of(mut reader: DatabaseConnection) -> (DatabaseConnection, Self) {
        let statements = Self::default();
        let count = Arc::clone(&statements.0);
        reader.set_metric_callback(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        (reader, statements)
    }
}

impl Db {
    /// Statements that were read with so far, by whomever.
    pub(crate) fn statements(&self) -> usize {
        self.statements.0.load(Ordering::Relaxed)
    }
}
