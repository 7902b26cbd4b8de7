//! The state of workers since the last restoration, for views.

use std::collections::HashMap;

use sea_orm::{ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _};
use undertone_api::worker::{ReconciliationState, Worker, WriteOff};
use uuid::Uuid;

use super::newest;
use crate::error::Error;
use crate::model::{reconciliation, worker, write_off};

/// The states of workers for their views.
#[derive(Debug, Default)]
pub struct WorkerStates {
    reconciliations: HashMap<Uuid, ReconciliationState>,
    write_offs: HashMap<Uuid, WriteOff>,
}

impl WorkerStates {
    /// Loads the states of workers.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn load(connection: &impl ConnectionTrait, rows: &[worker::Model]) -> Result<Self, Error> {
        let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
        let written_off = write_off::Entity::find()
            .filter(write_off::Column::WorkerId.is_in(ids.iter().copied()))
            .filter(write_off::Column::ReturnedAt.is_null());
        let written_off = written_off.all(connection).await?.into_iter();
        let mut states = Self {
            write_offs: written_off
                .map(|row| (row.worker_id, WriteOff { at: row.written_off_at, reason: row.reason }))
                .collect(),
            ..Self::default()
        };
        let Some(restoration) = newest(connection).await? else { return Ok(states) };
        let progress = reconciliation::Entity::find()
            .filter(reconciliation::Column::Restoration.eq(restoration.position))
            .filter(reconciliation::Column::WorkerId.is_in(ids));
        let mut progress: HashMap<Uuid, reconciliation::Model> =
            progress.all(connection).await?.into_iter().map(|row| (row.worker_id, row)).collect();
        for row in rows.iter().filter(|row| row.created_at <= restoration.at) {
            let (receipts, finished_at) =
                progress.remove(&row.id).map_or((0, None), |row| (row.receipts as u64, row.finished_at));
            let state = ReconciliationState { restored_at: restoration.at, receipts, finished_at };
            states.reconciliations.insert(row.id, state);
        }
        Ok(states)
    }

    /// Adds the state of a worker to its view.
    pub fn apply(&mut self, view: &mut Worker) {
        view.reconciliation = self.reconciliations.remove(&view.id.0);
        view.write_off = self.write_offs.remove(&view.id.0);
    }
}
