//! Sounds of a running job for external recognizers, and the reports about them.

use std::sync::Arc;

use futures::future::join_all;
use undertone_api::job::transcription;
use undertone_api::job::{Report, Spec};

use super::SiteExchange;
use crate::run::{RunContext as _, RunError, TranscriptionSite};
use crate::speech::transcribe::outbound::{DeliveryResult, OutboundError, SealedSounds, deliver};
use crate::speech::transcribe::provider::line::ProviderLine;

impl SiteExchange {
    /// Returns this site's transcription settings.
    pub(super) fn transcription_settings(&self) -> TranscriptionSite {
        TranscriptionSite {
            settings: self.site.transcription.clone(),
            site: self.site.folder.root().to_owned(),
            results: self.site.folder.transcripts(self.session.examined().manifest.job),
            environment: |name| std::env::var_os(name),
            clock: Arc::clone(&self.site.clock),
        }
    }

    /// Pays for a batch, unless it is paid, has the server countersign the payment, then sends the remaining sounds
    /// until the lease ends.
    pub(super) fn pay_and_dispatch(
        &self,
        series: &str,
        round: u32,
        batch: &Arc<SealedSounds>,
        lines: &[ProviderLine],
    ) -> Result<Vec<Result<DeliveryResult, OutboundError>>, RunError> {
        self.enter_round(series, round);
        if self.is_stopped() {
            return Err(RunError::Stopped(self.lease.reason().into()));
        }
        // Later times follow from the sounds and from the providers' answers.
        if !self.has_dispatched.replace(true) {
            self.wait_for_tick(series, round)?;
        }
        self.site.ledger.check_quiet().map_err(RunError::refused)?;
        self.session.pay_batch(&self.site, series, round, batch)?;
        self.countersign(series, round)?;
        let departure = self.session.permit_departure(&self.site, series, round, batch)?;
        let stop = &self.lease.stop;
        let parts = lines.iter().zip(0_u32..).map(|(line, provider)| deliver(batch, provider, line, stop, &departure));
        let results = self.handle.block_on(join_all(parts));
        if self.is_stopped() { Err(RunError::Stopped(self.lease.reason().into())) } else { Ok(results) }
    }

    /// Returns whether a report follows from the manifest alone. Then it uses no recording, and may leave for any data.
    pub(super) fn follows_from_manifest(&self, report: &Report) -> bool {
        match (report, &self.session.examined().manifest.spec) {
            (Report::Transcription(report), Spec::Transcription(spec)) => {
                transcription::Report::from_plan(spec).is_ok_and(|planned_report| planned_report == *report)
            }
            _ => false,
        }
    }
}
