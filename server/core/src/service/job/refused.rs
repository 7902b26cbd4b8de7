//! The reasons for which budgets refuse a job, in sentences that name a remedy.

use undertone_api::budget::{BudgetRefusal, ExceededPart};
use undertone_api::dataset::Dataset;
use undertone_privacy::PrivacyUnit;

/// Returns refusals as sentences.
pub(crate) fn in_words(refusals: &[BudgetRefusal], datasets: &[Dataset]) -> String {
    // A budget for its own unit would not help a job that another limit refuses.
    let in_vain = |refusal: &BudgetRefusal| {
        let unpriced = |other: &BudgetRefusal| other.dataset == refusal.dataset && other.reason.is_some();
        refusal.limit <= 0.0 && refusals.iter().any(unpriced)
    };
    let causes = refusals.iter().filter(|refusal| !in_vain(refusal));
    causes.map(|refusal| sentence(refusal, datasets)).collect::<Vec<_>>().join("; ")
}

fn sentence(refusal: &BudgetRefusal, datasets: &[Dataset]) -> String {
    let name = &refusal.dataset_name;
    if let Some(reason) = &refusal.reason {
        return format!("`{name}`: {reason}");
    }
    if refusal.limit <= 0.0 {
        return without_budget(refusal, datasets);
    }
    if let (Some(ExceededPart::SideDelta), Some(side)) = (refusal.exceeded, &refusal.side_delta) {
        return format!(
            "`{name}` has no room in the part of δ for releases with a δ of their own: {}, {} such releases still fit; ask for \
             a smaller δ",
            side.phrase(),
            refusal.releases_that_fit
        );
    }
    if refusal.exceeded == Some(ExceededPart::InfiniteLoss) {
        return format!("`{name}` would release something without noise, which no ε admits: add noise");
    }
    let would_be = refusal.would_be.map_or_else(|| "infinity".to_owned(), |epsilon| format!("{epsilon:.4}"));
    format!(
        "`{name}` would come to ε {would_be} of {} at δ {:e}: {:.4} is spent or reserved, {} such releases still fit",
        refusal.limit, refusal.delta, refusal.spent, refusal.releases_that_fit
    )
}

/// Returns the sentence for a missing budget. A budget for one unit does not apply to another: speakers are not
/// records.
fn without_budget(refusal: &BudgetRefusal, datasets: &[Dataset]) -> String {
    let (name, unit) = (&refusal.dataset_name, plural(refusal.unit));
    let dataset = datasets.iter().find(|dataset| dataset.id == refusal.dataset);
    let limited =
        dataset.into_iter().flat_map(|dataset| &dataset.accounts).filter(|account| account.epsilon.get() > 0.0);
    let others: Vec<&str> = limited.map(|account| plural(account.unit)).collect();
    if others.is_empty() {
        return format!("`{name}` has no budget for {unit}: its steward can set one");
    }
    let others = others.join(" and ");
    format!(
        "`{name}` has no budget for {unit}, only one for {others}, which cannot stand for it: propose a job that protects \
         {others}, or ask its steward to set a budget for {unit}"
    )
}

const fn plural(unit: PrivacyUnit) -> &'static str {
    match unit {
        PrivacyUnit::Record => "records",
        PrivacyUnit::Speaker => "speakers",
        PrivacyUnit::User => "users",
        PrivacyUnit::Words => "words",
    }
}
