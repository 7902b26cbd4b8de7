//! Sounds of a running job for external recognizers, and the reports about them.

use std::sync::Arc;

use futures::future::join_all;
use undertone_api::job::transcription;
use undertone_api::job::{Report, Spec};

use super::SiteExchange;
use crate::run::{Exchange as _, RunError, Transcribing};
use crate::speech::transcribe::outbound::{DeliveryResult, OutboundError, SealedSounds, deliver};
use crate::speech::transcribe::provider::line::ProviderLine;

impl SiteExchange {
    /// Returns this site's transcription settings.
    pub(super) fn transcription_settings(&self) -> Transcribing {
        Transcribing {
            settings: self.site.transcription.clone(),
            site: self.site.folder.root().to_owned(),
            results: self.site.folder.transcripts(self.errand.examined().manifest.job),
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
        if self.stopped() {
            return Err(RunError::Stopped(self.lease.reason()));
        }
        // Later times follow from the sounds and from the providers' answers.
        if !self.has_dispatched.replace(true) {
            self.wait_for_tick(series, round)?;
        }
        self.site.ledger.check_quiet().map_err(|error| RunError::Refused(error.to_string()))?;
        self.errand.pay_batch(&self.site, series, round, batch)?;
        self.countersign(series, round)?;
        let departure = self.errand.permit_departure(&self.site, series, round, batch)?;
        let stop = &self.lease.stop;
        let parts = lines.iter().zip(0_u32..).map(|(line, provider)| deliver(batch, provider, line, stop, &departure));
        let results = self.handle.block_on(join_all(parts));
        if self.stopped() { Err(RunError::Stopped(self.lease.reason())) } else { Ok(results) }
    }

    /// Returns whether a report follows from the manifest alone. Then it uses no recording, and may leave for any data.
    pub(super) fn follows_from_manifest(&self, report: &Report) -> bool {
        match (report, &self.errand.examined().manifest.spec) {
            (Report::Transcription(report), Spec::Transcription(spec)) => {
                transcription::Report::from_plan(spec).is_ok_and(|planned_report| planned_report == *report)
            }
            _ => false,
        }
    }
}
