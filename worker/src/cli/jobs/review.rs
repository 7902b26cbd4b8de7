//! The review that an owner reads before answering, made at the site like the dashboard's review page: the cost under
//! the site's own ledger, and the disclosures. Its sources are the signed manifest and the site's policy. The manifest
//! shows the visibility of others' data by their charges.

use std::io::Write;

use time::OffsetDateTime;
use undertone_api::dataset::{Dataset, DatasetContent, SizeClass, Visibility};
use undertone_api::job::{Charge, Disclosure, DisclosureForm, disclosures};
use undertone_api::plan::epsilon_alone;
use undertone_api::signed::{Manifest, ManifestParticipant};
use undertone_privacy::Event;
use undertone_privacy::ledger::{Balance, LedgerError};

use super::super::CommandFailure;
use super::super::table::{format_table, round_down, round_up};
use crate::site::books::{AccountKey, LedgerBooks};
use crate::site::policy::{LifetimeLimit, UnitLimits};

/// Writes the cost of a charge for every other unit of the dataset that has a limit: each limit bounds all jobs.
pub(super) fn write_other_units(
    books: &LedgerBooks,
    manifest: &Manifest,
    party: &ManifestParticipant,
    charge: &Charge,
    limits: &UnitLimits,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let accounts = books.accounts.iter().filter(|(key, _)| key.lineage == party.lineage && key.unit != charge.unit);
    let limits_of_accounts = accounts.filter_map(|(key, book)| {
        let budget = book.account.balance().budget()?;
        Some((key.unit, LifetimeLimit::from_budget(budget)))
    });
    let more: Vec<_> =
        limits_of_accounts.filter(|(unit, _)| !limits.others.iter().any(|(known, _)| known == unit)).collect();
    for (unit, limit) in limits.others.iter().chain(&more) {
        writeln!(out, "The job is also charged to the limit for each {}.", format!("{unit:?}").to_lowercase())?;
        match charge.for_unit(*unit) {
            Ok(charge) => {
                write_cost(books, manifest, party, &charge, *limit, out)?;
            }
            Err(error) => writeln!(out, "This site would refuse the job: {}.", charge.explain_refusal(*unit, error))?,
        }
    }
    Ok(())
}

/// Writes the cost of a charge under the site's own limit, alone and together with earlier charges. Returns ε of the
/// charge alone, if it is finite.
pub(super) fn write_cost(
    books: &LedgerBooks,
    manifest: &Manifest,
    party: &ManifestParticipant,
    charge: &Charge,
    limit: LifetimeLimit,
    out: &mut dyn Write,
) -> Result<Option<f64>, CommandFailure> {
    let key = AccountKey::new(party.lineage, charge.unit, charge.adjacency);
    let book = books.accounts.get(&key);
    let mut balance = book.map_or_else(|| Balance::new(None), |book| book.account.balance().clone());
    // An existing account keeps the orders of its budget.
    balance.set_budget(limit.budget(balance.budget().map(undertone_privacy::ledger::Budget::grid))?)?;
    let epsilon = round_up(limit.epsilon.get());
    let delta = limit.delta.get();
    let alone = epsilon_alone(charge, limit.delta);
    let own = alone.map_or_else(|| "without a finite epsilon".to_owned(), |own| format!("epsilon {}", round_up(own)));
    writeln!(out, "This job alone: {own} at delta {delta:e}.")?;
    let before = balance.summary();
    writeln!(
        out,
        "This site's own ledger has spent and reserved epsilon {} of {epsilon} at delta {delta:e} for life.",
        round_up(before.committed_epsilon)
    )?;
    if book.is_some_and(|book| book.jobs.contains_key(&manifest.job)) {
        writeln!(out, "This includes the reservation of this job.")?;
        return Ok(alone);
    }
    let cost = balance.job_cost(&charge.event, charge.releases, charge.adjacency)?;
    let id = undertone_privacy::ledger::ReservationId(manifest.job.0.as_u128());
    match balance.reserve_job(id, &cost, charge.releases) {
        Ok(_) => {
            let after = balance.summary();
            let total = round_up(after.committed_epsilon);
            let remainder = round_down(after.left_epsilon);
            writeln!(out, "With this job it would be epsilon {total} of {epsilon}; {remainder} would remain.")?;
            if let Some(certificate) = cost.certificate(charge.releases) {
                let (mu, side) = (round_up(certificate.mu()), certificate.side_delta());
                writeln!(
                    out,
                    "The account has the filter gaussian: the first release spends the job as a whole, mu {mu} and delta {side:.2e}."
                )?;
            }
        }
        Err(LedgerError::Refused(_)) => writeln!(out, "This job exceeds the limit: this site would refuse it.")?,
        Err(error) => return Err(error.into()),
    }
    Ok(alone)
}

/// Writes the disclosures about a dataset of this site, for each observer.
pub(super) fn write_disclosures(
    manifest: &Manifest,
    party: &ManifestParticipant,
    visibility: Visibility,
    epsilon: Option<f64>,
    out: &mut dyn Write,
) -> Result<(), CommandFailure> {
    let own = describe_dataset(party, visibility);
    let others = manifest.participants.iter().filter(|other| other.dataset != party.dataset);
    let mut all: Vec<Dataset> =
        others.map(|other| describe_dataset(other, implied_visibility(other.charge.as_ref()))).collect();
    all.push(own.clone());
    let rows: Vec<_> = disclosures(&manifest.spec, &own, &all)
        .into_iter()
        .map(|row| {
            let bound = describe_bound(&row, epsilon);
            let times = if row.times == 1 { "once".to_owned() } else { format!("{} times", row.times) };
            vec![row.observer.label().to_owned(), row.form.label().to_owned(), times, bound, row.what]
        })
        .collect();
    write!(out, "\nDisclosures\n{}", format_table(&["OBSERVER", "FORM", "TIMES", "BOUND", "INFORMATION"], &rows))?;
    writeln!(
        out,
        "One charge covers all protected data and everything computed from them: the epsilon of the rows is the \
         same epsilon, not a sum. Recordings and logs stay at the site, except for the information in this table."
    )?;
    Ok(())
}

/// Returns the bound of a disclosure in words.
fn describe_bound(row: &Disclosure, epsilon: Option<f64>) -> String {
    match (row.form, epsilon) {
        (DisclosureForm::Fact, _) => "-".to_owned(),
        (DisclosureForm::Exact, _) => "none".to_owned(),
        (_, Some(epsilon)) => format!("epsilon {} in all", round_up(epsilon)),
        (_, None) => "as charged".to_owned(),
    }
}

/// Returns the visibility of others' data that a manifest implies: data without a charge are public, data charged as a
/// release in the clear are open.
fn implied_visibility(charge: Option<&Charge>) -> Visibility {
    match charge {
        None => Visibility::Public,
        Some(charge) if charge.event == Event::NonPrivate => Visibility::Open,
        Some(_) => Visibility::Private,
    }
}

/// Returns the description of a participant that the list of disclosures needs: its identity and its visibility.
fn describe_dataset(party: &ManifestParticipant, visibility: Visibility) -> Dataset {
    Dataset {
        id: party.dataset,
        lineage: party.lineage,
        organization: party.organization,
        organization_name: party.organization_name.clone(),
        worker: party.worker,
        name: party.dataset_name.clone(),
        visibility,
        content: DatasetContent::Speech,
        inputs: 0,
        classes: 0,
        records: SizeClass(party.units),
        speakers: SizeClass(party.units),
        test_records: 0,
        seconds: None,
        users: Some(SizeClass(party.units)),
        table: None,
        units: undertone_api::dataset::usual_units(),
        approval: None,
        accounts: Vec::new(),
        created_at: OffsetDateTime::UNIX_EPOCH,
    }
}
