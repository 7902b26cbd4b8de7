//! The charges of a job to accounts of other units than the one that it protects.
//!
//! The manifest states one charge for each dataset, for the protected unit. The charges to the other accounts of the
//! same lineage follow from it alone, so the server and the site compute the same costs to the bit.

use undertone_privacy::transfer::{TransferError, event_at};
use undertone_privacy::{Event, PrivacyUnit};

use super::Charge;

impl Charge {
    /// Returns the charge to the account of `unit` for the same releases.
    ///
    /// # Errors
    /// [`TransferError`] if the releases have no price for that unit: while it has a limit, the job is refused.
    pub fn for_unit(&self, unit: PrivacyUnit) -> Result<Self, TransferError> {
        let event = event_at(&self.event, self.unit, unit)?;
        Ok(Self { unit, event, ..self.clone() })
    }

    /// Returns whether the charge is for exact results, which are outside every limit.
    pub fn is_in_the_clear(&self) -> bool {
        self.event == Event::NonPrivate
    }

    /// Explains why a job with this charge is refused while `unit` has a limit, and the remedy.
    pub fn explain_refusal(&self, unit: PrivacyUnit, error: TransferError) -> String {
        let own = word(self.unit);
        let limited = word(unit);
        let remedy = match error {
            TransferError::Coarser { .. } => format!("propose the job with the unit `{limited}`"),
            TransferError::Unrelated { .. } => {
                format!("use data whose lineage has no limit for the unit `{limited}`")
            }
        };
        format!(
            "the job protects the unit `{own}`, and the data have a lifetime limit for the unit `{limited}`, which bounds what all \
             jobs release: {error}; {remedy}"
        )
    }
}

/// Returns the unit's word in specs and policies.
const fn word(unit: PrivacyUnit) -> &'static str {
    match unit {
        PrivacyUnit::Record => "record",
        PrivacyUnit::Speaker => "speaker",
        PrivacyUnit::User => "user",
        PrivacyUnit::Words => "words",
    }
}

#[cfg(test)]
mod tests {
    use undertone_privacy::{Adjacency, Epsilon, Event, PrivacyUnit};

    use super::Charge;

    #[test]
    fn a_refusal_names_the_unit_the_limit_and_the_remedy() {
        let event = Event::Pure { epsilon: Epsilon::new(1.0).expect("in range") };
        let charge = Charge { unit: PrivacyUnit::Record, adjacency: Adjacency::AddRemove, event, releases: 3 };
        let error = charge.for_unit(PrivacyUnit::Speaker).expect_err("a speaker may have any number of records");
        let text = charge.explain_refusal(PrivacyUnit::Speaker, error);
        for part in
            ["the unit `record`", "lifetime limit for the unit `speaker`", "propose the job with the unit `speaker`"]
        {
            assert!(text.contains(part), "{text}");
        }
        let words = Charge { unit: PrivacyUnit::Words, ..charge };
        let error = words.for_unit(PrivacyUnit::Record).expect_err("nothing is known");
        assert!(words.explain_refusal(PrivacyUnit::Record, error).contains("no limit for the unit `record`"));
    }

    #[test]
    fn a_finer_account_is_charged_as_many_substitutions() {
        let event = Event::Pure { epsilon: Epsilon::new(1.0).expect("in range") };
        let charge = Charge { unit: PrivacyUnit::Speaker, adjacency: Adjacency::AddRemove, event, releases: 3 };
        let record = charge.for_unit(PrivacyUnit::Record).expect("it has a price");
        assert_eq!((record.unit, record.adjacency, record.releases), (PrivacyUnit::Record, charge.adjacency, 3));
        assert_eq!(record.event, Event::Substituted { of: Box::new(charge.event.clone()) });
        assert_eq!(charge.for_unit(PrivacyUnit::Speaker), Ok(charge));
    }
}
