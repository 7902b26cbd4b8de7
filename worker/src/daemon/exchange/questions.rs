//! Questions of a running job: a pool on its way out, and at the lead the pools, the choice and the answers.

use std::collections::BTreeSet;

use undertone_api::id::{DatasetId, QuestionId};
use undertone_api::job::log::SiteEvent;
use undertone_api::problem::Code;

use super::{SiteExchange, Unanswered, WAIT};
use crate::daemon::witness;
use crate::fault;
use crate::gateway::{Download, Pools, Submitted};
use crate::queries::gate::OutgoingPool;
use crate::queries::released::Released;
use crate::run::{AnswerLine, RunError};

impl SiteExchange {
    /// Stores and pays for a pool as [`Questions::send_pool`](crate::run::Questions::send_pool) does, and stops before
    /// it is sent.
    #[cfg(test)]
    pub(in crate::daemon) fn pay_pool_only(
        &mut self,
        series: &str,
        round: u32,
        pool: &OutgoingPool,
    ) -> Result<(), RunError> {
        self.errand.pay_pool(&self.site, series, round, pool)
    }

    /// Stores a pool, waits until it may leave, pays for it, and sends it.
    pub(super) fn pay_and_pose(&mut self, series: &str, round: u32, pool: &OutgoingPool) -> Result<(), RunError> {
        if self.is_paced(series) {
            self.errand.store_pool(series, round, pool)?;
            self.wait_for_tick(series, round)?;
        } else {
            self.errand.pay_pool(&self.site, series, round, pool)?;
        }
        self.pose(series, round)
    }

    /// Sends the stored pool.
    pub(super) fn pose(&self, series: &str, round: u32) -> Result<(), RunError> {
        self.countersign(series, round)?;
        let letter = self.errand.letter(&self.site, series, round)?;
        fault::point(fault::BEFORE_SEND);
        let (gateway, parcel, receipts) = (&self.site.gateway, &letter.parcel, &letter.receipts);
        let sent = self
            .until_answered("ask", |token| async move { gateway.ask(&token, series, round, parcel, receipts).await });
        fault::point(fault::AFTER_SEND);
        let job = self.errand.examined().manifest.job;
        let countersignatures = match sent {
            Ok(Submitted { repeated, countersignatures }) => {
                tracing::info!(job.id = %job, series, questions = parcel.length, repeated, "pool sent");
                self.log.round(series, |series| SiteEvent::Sent { series, round, repeated });
                countersignatures
            }
            Err(Unanswered::No(error)) if error.code() == Some(Code::RoundClosed) => {
                tracing::warn!(job.id = %job, series, "the job went on without this pool; it stays paid");
                self.log.round(series, |series| SiteEvent::Missed { series, round });
                Vec::new()
            }
            Err(unanswered) => return Err(unanswered.into()),
        };
        self.errand.arrived(&self.site, series, round, &letter)?;
        self.handle.block_on(witness::after(&self.site, &letter.receipts, &countersignatures));
        Ok(())
    }

    /// Returns all pools of the job, each checked to come from an asking participant.
    pub(super) fn all_pools(&self) -> Result<Vec<Released>, RunError> {
        self.must_be_public("a choice of questions")?;
        let (gateway, download) = (&self.site.gateway, &Download::default());
        loop {
            let answer =
                self.until_answered("asked", |token| async move { gateway.asked(&token, WAIT, download).await })?;
            if let Some(pools) = answer {
                return self.read(pools);
            }
        }
    }

    fn read(&self, Pools { pools, missing }: Pools) -> Result<Vec<Released>, RunError> {
        let manifest = &self.errand.examined().manifest;
        let mut awaited: BTreeSet<DatasetId> =
            manifest.spec.questions().into_iter().flat_map(|questions| questions.asking).collect();
        for dataset in missing {
            tracing::warn!(job.id = %manifest.job, dataset.id = %dataset, "a pool did not come; the job goes on without it");
        }
        let mut all = Vec::new();
        for (dataset, bytes) in pools {
            if !awaited.remove(&dataset) {
                return Err(RunError::failed(format!(
                    "the server gives a pool of dataset {dataset}, which asks nothing, or twice"
                )));
            }
            all.extend(Released::pool(manifest.job, dataset, &bytes).map_err(RunError::failed)?);
        }
        Ok(all)
    }

    /// Sends chosen questions to the annotators.
    pub(super) fn put_questions(&self, round: u32, chosen: &[(QuestionId, f64)]) -> Result<(), RunError> {
        self.must_be_public("a choice of questions")?;
        let gateway = &self.site.gateway;
        Ok(self.until_answered("choose", |token| async move { gateway.choose(&token, round, chosen).await })?)
    }

    /// Returns the answers of a round once it is closed.
    pub(super) fn all_answers(&self, round: u32) -> Result<Vec<AnswerLine>, RunError> {
        let gateway = &self.site.gateway;
        loop {
            let answer =
                self.until_answered("answers", |token| async move { gateway.answers(&token, round, WAIT).await })?;
            if let Some(answers) = answer {
                return Ok(answers);
            }
        }
    }
}
