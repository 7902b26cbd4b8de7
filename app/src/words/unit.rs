//! Words for the privacy units.

use undertone_privacy::PrivacyUnit;

/// Returns the protected unit, in the singular.
pub const fn unit(unit: PrivacyUnit) -> &'static str {
    match unit {
        PrivacyUnit::Record => "record",
        PrivacyUnit::Speaker => "speaker",
        PrivacyUnit::User => "user",
        PrivacyUnit::Words => "words",
    }
}

/// Returns the subject of a budget, a price or a limit, to follow "for".
pub const fn each(unit: PrivacyUnit) -> &'static str {
    match unit {
        PrivacyUnit::Record => "each record",
        PrivacyUnit::Speaker => "each speaker",
        PrivacyUnit::User => "each user",
        PrivacyUnit::Words => "counts of pieces by word",
    }
}

/// Returns the subject of a promise, to follow "about" and "for".
pub const fn any_one(unit: PrivacyUnit) -> &'static str {
    match unit {
        PrivacyUnit::Record => "any one record",
        PrivacyUnit::Speaker => "any one speaker",
        PrivacyUnit::User => "any one user",
        PrivacyUnit::Words => "as many counts of pieces by word as a job states",
    }
}

/// Returns the noun that an account's ε counts, in a gauge.
pub const fn gauge_noun(unit: PrivacyUnit) -> &'static str {
    match unit {
        PrivacyUnit::Record | PrivacyUnit::Speaker | PrivacyUnit::User => self::unit(unit),
        PrivacyUnit::Words => "counts of pieces by word",
    }
}

/// Returns the measurement that belongs beside a guarantee's ε; `None` if no attack is known to circumvent it.
pub const fn unit_measurement(unit: PrivacyUnit) -> Option<&'static str> {
    match unit {
        PrivacyUnit::Record | PrivacyUnit::Speaker | PrivacyUnit::User => None,
        PrivacyUnit::Words => Some(DUMMY_DETECTION),
    }
}

/// The accuracy of an attack that distinguishes true pieces from dummies, which no ε of counts covers: `make bench
/// NAME=transcription`.
pub const DUMMY_DETECTION: &str = "ε holds for a reader of counts only. A recognizer hears sounds: an attack that knew \
                              the speech engine distinguished its dummies from true pieces in 92 to 98 of 100 cases \
                              (72 by guessing), and then knows the true counts. It distinguished dummies cut from \
                              recordings of people in 52 to 84 of 100 cases (58 to 60 by guessing). This was \
                              measured when dummies were still made after the true pieces; the site’s own report \
                              has the figure for each job.";

/// Describes the meaning of a guarantee for a unit.
pub const fn unit_meaning(unit: PrivacyUnit) -> &'static str {
    match unit {
        PrivacyUnit::Record => {
            "Protects each recording separately, in jobs of every privacy unit. There is no guarantee for a person with several recordings."
        }
        PrivacyUnit::Speaker => "Protects all recordings of one speaker together.",
        PrivacyUnit::User => "Protects every row of one user, as identified by the owner's user column.",
        PrivacyUnit::Words => {
            "Protects counts of pieces by word of a vocabulary, as many counts as each job states, from a reader of counts only. One spoken word changes at most 10 counts. Recognizers hear the pieces that leave in clear speech. There is no guarantee for what they hear, for a whole recording or for a person."
        }
    }
}
