//! The auditors: they read the disks independently and report violations. They compute sums from the rows, in whole
//! numbers, and take only the price of one event and the size of a budget from the product's mathematics.

pub(super) mod record;
pub(super) mod server;
pub(super) mod site;
mod sums;

use std::collections::BTreeMap;

use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::JobState;

use self::server::ConsortiumState;
use self::site::SiteState;

/// Checks the invariants between a site's ledger and the consortium's. `name` is the site's name in the message.
///
/// # Errors
/// A sentence with the violation.
pub(super) fn check_agreement(
    name: &str,
    site: &SiteState,
    consortium: &ConsortiumState,
    worker: &str,
) -> Result<(), String> {
    // The consortium has a prefix of the site's chain. So it never counts more than the site, and the site never more
    // than the consortium and the receipts in flight.
    let receipts = consortium.receipts.get(worker).map(Vec::as_slice).unwrap_or_default();
    if receipts.len() > site.receipts.len() {
        return Err(format!(
            "the consortium knows {} receipts of {name}, which wrote {}",
            receipts.len(),
            site.receipts.len()
        ));
    }
    for (number, (there, here)) in receipts.iter().zip(&site.receipts).enumerate() {
        if *there != here.digest {
            return Err(format!("receipt {} of {name} is another one at the consortium", number + 1));
        }
    }
    let mut in_flight: BTreeMap<(JobId, DatasetId), u64> = BTreeMap::new();
    for receipt in &site.receipts[receipts.len()..] {
        *in_flight.entry((receipt.job, receipt.dataset)).or_default() += 1;
    }
    for (place, here) in &site.parts {
        let Some(there) = consortium.parts.get(place) else {
            return Err(format!("{name} reserved for a job that reserved nothing at the consortium"));
        };
        // The import of an older copy's missing receipts reserves exactly the paid releases.
        let imported = site.restored && here.settled && here.reserved == here.committed;
        if here.event != there.event || (here.reserved != there.reserved && !imported) {
            return Err(format!("{name} and the consortium reserved different things for one part"));
        }
        let flying = in_flight.get(place).copied().unwrap_or(0);
        if here.committed != there.committed + flying {
            return Err(format!(
                "{name} committed {}, the consortium {} and {flying} are in flight",
                here.committed, there.committed
            ));
        }
        // An older copy from before a part's settlement still holds the returned releases; it counts more, and nothing
        // can be released by it.
        let holds = !here.settled && !site.withheld.contains(place) && !site.restored;
        if there.settled && (flying > 0 || holds) {
            return Err(format!("the consortium gave back what {name} still holds or has spent"));
        }
    }
    for (place, there) in &consortium.parts {
        if there.worker == worker && !site.parts.contains_key(place) && there.committed > 0 {
            return Err(format!("the consortium committed for a part of which {name} knows nothing"));
        }
    }
    Ok(())
}

/// Checks the final invariants, with all processes running, all messages delivered and all jobs ended: both ledgers
/// agree, and no reservation is left.
///
/// # Errors
/// A sentence with the violation.
pub(super) fn check_final_state(
    name: &str,
    site: &SiteState,
    consortium: &ConsortiumState,
    worker: &str,
) -> Result<(), String> {
    if let Some((_, state)) = consortium.jobs.iter().find(|(_, state)| !state.is_over()) {
        return Err(format!("a job is {} for ever", state.label()));
    }
    let receipts = consortium.receipts.get(worker).map_or(0, Vec::len);
    if receipts != site.receipts.len() {
        return Err(format!("{} receipts of {name} never reach the consortium", site.receipts.len() - receipts));
    }
    let open = |(place, part): &(&(JobId, DatasetId), &sums::ReservationState)| {
        !part.settled && !site.withheld.contains(place)
    };
    if let Some((place, _)) = site.parts.iter().find(open) {
        return Err(format!("{name} holds a reservation for ever, of a job that is {}", word(consortium, place)));
    }
    // A site whose older copy does not contain a job never reports its end.
    let reservation = consortium.parts.iter().find(|(_, part)| part.worker == worker && !part.settled);
    if let Some((place, _)) = reservation.filter(|_| !site.restored) {
        return Err(format!(
            "the consortium holds a reservation of {name} for ever, of a job that is {}",
            word(consortium, place)
        ));
    }
    Ok(())
}

fn word(consortium: &ConsortiumState, place: &(JobId, DatasetId)) -> &'static str {
    consortium.jobs.get(&place.0).copied().map_or("unknown", JobState::label)
}
