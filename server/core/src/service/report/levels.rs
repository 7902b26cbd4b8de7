//! ε at record and at speaker level, computed once for the same releases: it takes a convolution, and pages are loaded
//! often.

use undertone_api::dataset::{Dataset, SizeClass};
use undertone_api::report::{DatasetReleases, PrivacyLevel};
use undertone_api::signed::certificate::PartyCharges;
use undertone_privacy::Delta;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::fairness::WorkOwner;

/// Returns both levels of a part's charge; none without a budget, which determines δ.
pub(super) async fn compute_levels(
    ctx: &Ctx,
    owner: WorkOwner,
    charged: &PartyCharges,
    facts: Option<&Dataset>,
) -> Result<Vec<PrivacyLevel>, Error> {
    let Some(delta) = charged.account.delta else { return Ok(Vec::new()) };
    let delta = Delta::new(delta).map_err(|error| Error::internal("reading an account's delta", error))?;
    let (records, speakers) = facts.map_or((super::UNKNOWN, SizeClass(1)), |facts| (facts.records, facts.speakers));
    let (unit, adjacency) = (charged.unit, charged.adjacency);
    let (event, count) = (charged.mechanism.event.clone(), charged.releases.counted);
    let priced = event.clone();
    let compute = ctx.compute().run(owner, "working out a level", move || {
        PrivacyLevel::compute_levels(&DatasetReleases {
            unit,
            adjacency,
            event: &priced,
            count,
            delta,
            records,
            speakers,
        })
    });
    let key = (unit, adjacency, event, count, delta, records, speakers);
    ctx.compute().levels.get_or_compute(&key, compute).await
}
