//! What becomes of a row. Decided by the options and by that row alone: nothing here may look at another.

use sha2::{Digest, Sha256};

use super::Options;
use crate::queries::dataset::user::Users;
use crate::queries::dataset::{RowRef, Subset};
use crate::queries::log::{Field, LARGEST_COUNT, Raw, Reason};
use crate::queries::normalize::Normalizer;

/// What becomes of a row.
pub(super) enum Verdict<'a> {
    Keep(RowRef<'a>, Subset, bool),
    /// Of a subset that was not asked for.
    Outside,
    Bad(Reason),
}

/// What becomes of a row: by the options and by that row alone.
pub(super) fn judge<'a>(
    options: &Options,
    normalizer: &'a mut Normalizer,
    users: Option<&Users>,
    last: &mut (String, u128),
    raw: &'a Raw,
    label: Option<u16>,
) -> Verdict<'a> {
    let Some(original) = raw.get(Field::Text) else { return Verdict::Bad(Reason::Missing) };
    let mut subset = Subset::Train;
    if options.reading.columns.subset.is_some() {
        let named = raw.get(Field::Subset).unwrap_or_default().trim();
        let among = |values: &[String]| values.iter().any(|value| value == named);
        if among(&options.test) {
            subset = Subset::Test;
        } else if !options.train.is_empty() && !among(&options.train) {
            return Verdict::Outside;
        }
    }
    let count = match raw.get(Field::Count).map(str::trim) {
        None if options.reading.columns.count.is_some() => return Verdict::Bad(Reason::Count),
        None => 1,
        // What `parse` takes beside digits is a sign, which no count has.
        Some(text) => match text.parse() {
            Ok(count) if (1..=LARGEST_COUNT).contains(&count) && !text.starts_with('+') => count,
            _ => return Verdict::Bad(Reason::Count),
        },
    };
    let id = raw.get(Field::User).map(str::trim).filter(|id| !id.is_empty());
    let user = match (users, id) {
        (None, _) => None,
        (Some(_), None) => return Verdict::Bad(Reason::User),
        (Some(_), Some(id)) if last.0 == id => Some(last.1),
        (Some(users), Some(id)) => {
            *last = (id.to_owned(), users.of(id));
            Some(last.1)
        }
    };
    let text = normalizer.apply(original);
    if text.is_empty() {
        return Verdict::Bad(Reason::Empty);
    }
    if text.len() > options.longest && text.chars().count() > options.longest {
        return Verdict::Bad(Reason::Long);
    }
    if subset == Subset::Train
        && options.hold_out > 0.0
        && held_out(id.filter(|_| users.is_some()).unwrap_or(text), options.hold_out)
    {
        subset = Subset::Test;
    }
    Verdict::Keep(RowRef { text, user, count, label }, subset, text != original)
}

/// What a report shows of a row that was left out for `reason`.
pub(super) fn shown(raw: &Raw, reason: Reason) -> &str {
    let field = match reason {
        Reason::Count => Field::Count,
        Reason::Label => Field::Label,
        _ => Field::Text,
    };
    raw.get(field).unwrap_or_default()
}

/// Whether a user, or a query, is held out: if its hash, as a number between 0 and 1, is below the share.
fn held_out(id: &str, share: f64) -> bool {
    let digest = Sha256::new().chain_update("undertone hold-out\0").chain_update(id).finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    // 53 bits, so that the number is exact and below 1.
    let at = (u64::from_be_bytes(first) >> 11) as f64 / (1_u64 << 53) as f64;
    at < share
}
