//! Questions of a running job: the site's own pool, and at the lead the pools, the choice and the answers.

use std::collections::BTreeSet;

use undertone_api::id::{DatasetId, QuestionId};
use undertone_api::job::log::SiteEvent;
use undertone_api::problem::Code;

use super::{CallFailure, SiteExchange, WAIT};
use crate::daemon::witness;
use crate::fault;
use crate::gateway::{AcceptedSubmission, Download, QuestionPools};
use crate::queries::gate::OutgoingPool;
use crate::queries::released::Released;
use crate::run::{AnswerLine, RunError};

impl SiteExchange {
    /// Stores and pays for a pool as [`Questions::send_pool`](crate::run::Questions::send_pool) does, and stops before
    /// it is sent.
    #[cfg(test)]
    pub(in crate::daemon) fn pay_unsent_pool(
        &mut self,
        series: &str,
        round: u32,
        pool: &OutgoingPool,
    ) -> Result<(), RunError> {
        self.session.pay_pool(&self.site, series, round, pool)
    }

    /// Stores a pool, waits until it may leave, pays for it, and sends it.
    pub(super) fn pay_and_send_pool(&mut self, series: &str, round: u32, pool: &OutgoingPool) -> Result<(), RunError> {
        if self.is_paced(series) {
            self.session.store_pool(series, round, pool)?;
            self.wait_for_tick(series, round)?;
        } else {
            self.session.pay_pool(&self.site, series, round, pool)?;
        }
        self.send_stored_pool(series, round)
    }

    /// Sends the stored pool.
    pub(super) fn send_stored_pool(&self, series: &str, round: u32) -> Result<(), RunError> {
        self.countersign(series, round)?;
        let submission = self.session.submission(&self.site, series, round)?;
        fault::point(fault::BEFORE_SEND);
        let gateway = &self.site.gateway;
        let parcel = &submission.parcel;
        let receipts = &submission.receipts;
        let answer = self.repeat_call("ask", |token| async move {
            gateway.submit_pool(&token, series, round, parcel, receipts).await
        });
        fault::point(fault::AFTER_SEND);
        let job = self.session.examined().manifest.job;
        let countersignatures = match answer {
            Ok(AcceptedSubmission { is_repeated, countersignatures }) => {
                tracing::info!(job.id = %job, series, questions = parcel.length, repeated = is_repeated, "the worker has sent a pool");
                self.log.record_round(series, |series| SiteEvent::Sent { series, round, repeated: is_repeated });
                countersignatures
            }
            Err(CallFailure::Refused(error)) if error.code() == Some(Code::RoundClosed) => {
                tracing::warn!(job.id = %job, series, "the job continued without this pool; the pool stays paid");
                self.log.record_round(series, |series| SiteEvent::Missed { series, round });
                Vec::new()
            }
            Err(failure) => return Err(failure.into()),
        };
        self.session.mark_received(&self.site, series, round, &submission)?;
        self.handle.block_on(witness::store_countersignatures(&self.site, &submission.receipts, &countersignatures));
        Ok(())
    }

    /// Returns all pools of the job; checks that each comes from an asking participant.
    pub(super) fn collect_pools(&self) -> Result<Vec<Released>, RunError> {
        self.check_public("a choice of questions")?;
        let gateway = &self.site.gateway;
        let download = &Download::default();
        loop {
            let answer =
                self.repeat_call("asked", |token| async move { gateway.fetch_pools(&token, WAIT, download).await })?;
            if let Some(pools) = answer {
                return self.read_pools(pools);
            }
        }
    }

    fn read_pools(&self, QuestionPools { pools, missing }: QuestionPools) -> Result<Vec<Released>, RunError> {
        let manifest = &self.session.examined().manifest;
        let mut pending: BTreeSet<DatasetId> =
            manifest.spec.questions().into_iter().flat_map(|questions| questions.asking).collect();
        for dataset in missing {
            tracing::warn!(job.id = %manifest.job, dataset.id = %dataset, "a pool is missing; the job continues without it");
        }
        let mut all = Vec::new();
        for (dataset, bytes) in pools {
            if !pending.remove(&dataset) {
                return Err(RunError::failed(format!(
                    "the server sent a pool of dataset {dataset} twice, or the dataset asks nothing"
                )));
            }
            all.extend(Released::pool(manifest.job, dataset, &bytes).map_err(RunError::failed)?);
        }
        Ok(all)
    }

    /// Sends the choice of questions to the annotators.
    pub(super) fn send_choice(&self, round: u32, choice: &[(QuestionId, f64)]) -> Result<(), RunError> {
        self.check_public("a choice of questions")?;
        let gateway = &self.site.gateway;
        Ok(self.repeat_call("choose", |token| async move { gateway.choose(&token, round, choice).await })?)
    }

    /// Returns the answers of a round once it is closed.
    pub(super) fn collect_answers(&self, round: u32) -> Result<Vec<AnswerLine>, RunError> {
        let gateway = &self.site.gateway;
        loop {
            let answer =
                self.repeat_call("answers", |token| async move { gateway.fetch_answers(&token, round, WAIT).await })?;
            if let Some(answers) = answer {
                return Ok(answers);
            }
        }
    }
}
