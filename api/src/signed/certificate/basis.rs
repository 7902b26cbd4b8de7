//! The basis of a certificate's figures: the compared data, and the assumed public facts.

use serde::{Deserialize, Serialize};
use undertone_privacy::{Adjacency, PrivacyUnit};

use super::UnitSampling;
use crate::id::DatasetId;
use crate::job::transcription::window::{ONE_WORD, SPAN};
use crate::job::{Charge, Spec};

/// Returns the neighbouring relation in plain words. Certificates contain the sentence and are checked against it by
/// [`is_relation`], which must accept every earlier wording.
pub fn relation(adjacency: Adjacency, unit: PrivacyUnit) -> String {
    let one = match unit {
        PrivacyUnit::Record => "record",
        PrivacyUnit::Speaker => "speaker",
        PrivacyUnit::User => "user",
        PrivacyUnit::Words => {
            let counts = format!(
                "Compared are counts of pieces by word that differ by as many as a job states, added and removed together. One word \
                 of up to {SPAN} seconds, inserted, removed or exchanged, changes at most {ONE_WORD} of them"
            );
            return match adjacency {
                Adjacency::ZeroOut => {
                    format!("{counts}; how many recordings there are, and about how long they are, is public.")
                }
                Adjacency::AddRemove | Adjacency::ReplaceOne => format!("{counts}."),
            };
        }
    };
    match adjacency {
        Adjacency::AddRemove => format!("Compared are the data with and without any one {one}: one added or removed."),
        Adjacency::ZeroOut => format!(
            "Compared are the data with any one {one}’s part and with that part emptied; how many {one}s there are is public."
        ),
        Adjacency::ReplaceOne => format!("Compared are the data with any one {one} and with another in its place."),
    }
}

/// A fact about a dataset that no ε of the certificate covers: it was declared or published exactly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "fact", rename_all = "snake_case")]
pub enum PublicFact {
    /// n, the number of the dataset's units, used in every division: a size class.
    Units {
        /// n.
        count: u64,
    },
    /// The sizes from the dataset's registration: records, people, length, each as a class.
    Sizes,
    /// The number of classes that the job's model or its annotators distinguish, as the job declares it.
    Classes {
        /// Classes.
        count: u64,
    },
    /// q·n, the expected number of units in a batch. The actual units and their number are secret.
    ExpectedBatch {
        /// Units.
        units: f64,
    },
    /// The most releases that the manifest plans, including those in reserve.
    PlannedReleases {
        /// Releases.
        count: u64,
    },
    /// The participation of the dataset, the rounds in which a release of it arrived, and a failure of its part. The
    /// reason of a failure on private data is withheld; its occurrence is not.
    Participation,
}

impl PublicFact {
    /// Returns the public facts of a charged dataset of `units` units under a job's spec.
    pub fn list_facts(spec: &Spec, dataset: DatasetId, charge: &Charge, units: u64) -> Vec<Self> {
        let classes = match spec {
            Spec::DpSgd(spec) => spec.model.classes.map(u64::from),
            Spec::ActiveLearning(spec) => Some(spec.labels.len() as u64),
            Spec::Transcription(_) | Spec::Evaluation(_) | Spec::Analytics(_) => None,
        };
        // Only training has a batch; samples of logs and of recordings are drawn by the row, and an evaluation reads its
        // whole test set.
        let is_training = matches!(spec, Spec::DpSgd(_));
        let batch = match UnitSampling::from_event(&charge.event) {
            UnitSampling::Poisson { rate } if is_training && spec.clip(dataset).is_some() => Some(rate * units as f64),
            UnitSampling::Poisson { .. } | UnitSampling::Everything => None,
        };
        let mut facts = vec![Self::Units { count: units }, Self::Sizes];
        facts.extend(classes.map(|count| Self::Classes { count }));
        facts.extend(batch.map(|units| Self::ExpectedBatch { units }));
        facts.extend([Self::PlannedReleases { count: charge.releases }, Self::Participation]);
        facts
    }
}

/// Returns whether `sentence` states the neighbouring relation, in the wording of any version.
pub fn is_relation(sentence: &str, adjacency: Adjacency, unit: PrivacyUnit) -> bool {
    let counts = "Compared are counts of pieces by word that differ by as many as a job states, added and removed together. What \
                  is said in 1.5 seconds of a recording changes at most 6 of them, compared with anything else in these seconds";
    // Until recordings were cut at rests, they were cut on a grid.
    let is_grid = unit == PrivacyUnit::Words
        && sentence.strip_prefix(counts).is_some_and(|rest| match adjacency {
            Adjacency::ZeroOut => rest == "; how many recordings there are, and how long they are, is public.",
            Adjacency::AddRemove | Adjacency::ReplaceOne => rest == ".",
        });
    is_grid || sentence == relation(adjacency, unit)
}

#[cfg(test)]
mod tests {
    use undertone_privacy::{Adjacency, PrivacyUnit};

    use super::{is_relation, relation};

    /// Stored certificates contain exactly these sentences.
    #[test]
    fn relations_have_exact_sentences() {
        let speaker = |adjacency| relation(adjacency, PrivacyUnit::Speaker);
        assert_eq!(
            speaker(Adjacency::ZeroOut),
            "Compared are the data with any one speaker’s part and with that part emptied; how many speakers there are is public."
        );
        assert_eq!(
            speaker(Adjacency::AddRemove),
            "Compared are the data with and without any one speaker: one added or removed."
        );
        assert_eq!(
            speaker(Adjacency::ReplaceOne),
            "Compared are the data with any one speaker and with another in its place."
        );
        assert_eq!(
            relation(Adjacency::ZeroOut, PrivacyUnit::Words),
            "Compared are counts of pieces by word that differ by as many as a job states, added and removed together. One word of \
             up to 1.2 seconds, inserted, removed or exchanged, changes at most 10 of them; how many recordings there are, and \
             about how long they are, is public."
        );
    }

    #[test]
    fn earlier_sentence_of_words_is_accepted() {
        let earlier = "Compared are counts of pieces by word that differ by as many as a job states, added and removed together. What \
                       is said in 1.5 seconds of a recording changes at most 6 of them, compared with anything else in these \
                       seconds; how many recordings there are, and how long they are, is public.";
        assert!(is_relation(earlier, Adjacency::ZeroOut, PrivacyUnit::Words));
        assert!(is_relation(&relation(Adjacency::ZeroOut, PrivacyUnit::Words), Adjacency::ZeroOut, PrivacyUnit::Words));
        assert!(!is_relation(earlier, Adjacency::ReplaceOne, PrivacyUnit::Words));
        assert!(!is_relation(earlier, Adjacency::ZeroOut, PrivacyUnit::Record));
        assert!(!is_relation(&earlier.replace('6', "5"), Adjacency::ZeroOut, PrivacyUnit::Words));
    }

    #[test]
    fn zero_out_states_that_sizes_are_public() {
        for unit in [PrivacyUnit::Record, PrivacyUnit::Speaker, PrivacyUnit::User, PrivacyUnit::Words] {
            assert!(relation(Adjacency::ZeroOut, unit).contains("public"), "{unit:?}");
            assert!(!relation(Adjacency::AddRemove, unit).contains("public"), "{unit:?}");
        }
    }
}
