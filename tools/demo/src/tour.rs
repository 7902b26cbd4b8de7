//! The guided tour of the demo's jobs.

use undertone_api::id::{ConsortiumId, JobId};
use undertone_server::{TourStop, offer_tour};

/// The jobs of the demo.
pub(super) struct DemoJobs {
    pub(super) training: JobId,
    pub(super) asking: JobId,
    pub(super) described: JobId,
    /// `None` where the machine has no recognizers.
    pub(super) transcription: Option<JobId>,
}

/// Offers the tour in the dashboard of this process.
pub(super) fn offer(consortium: ConsortiumId, jobs: &DemoJobs) {
    offer_tour(consortium, list_stops(jobs));
}

fn list_stops(jobs: &DemoJobs) -> Vec<TourStop> {
    let mut stops = vec![
        TourStop::Certificate(jobs.training),
        TourStop::Questions(jobs.asking),
        TourStop::Statistics(jobs.described),
    ];
    stops.extend(jobs.transcription.map(TourStop::Transcription));
    stops.extend([TourStop::Model(jobs.training), TourStop::Ledger]);
    stops
}

#[cfg(test)]
mod tests {
    use undertone_api::id::JobId;
    use undertone_server::TourStop;

    use super::{DemoJobs, list_stops};

    #[test]
    fn tour_without_recognizers_has_no_transcription() {
        let job = |number: u128| JobId(uuid::Uuid::from_u128(number));
        let jobs = |transcription| DemoJobs { training: job(1), asking: job(2), described: job(3), transcription };
        let all = list_stops(&jobs(Some(job(4))));
        assert_eq!(all.len(), 6);
        assert!(all.contains(&TourStop::Transcription(job(4))));
        let rest: Vec<TourStop> = all.into_iter().filter(|stop| *stop != TourStop::Transcription(job(4))).collect();
        assert_eq!(list_stops(&jobs(None)), rest);
    }
}
