//! Decides the result of a row by the options and by that row alone: nothing here may read another row.

use sha2::{Digest, Sha256};

use super::PrepareOptions;
use crate::dataset::user::UserHasher;
use crate::dataset::{RowRef, Subset};
use crate::log::{LARGEST_COUNT, LogField, RawRow, RejectReason};
use undertone_worker_site::normalize::TextNormalizer;

/// The result of a row.
pub(super) enum RowVerdict<'a> {
    Keep(RowRef<'a>, Subset, bool),
    /// The row is of a subset that was not requested.
    Outside,
    Bad(RejectReason),
}

/// Decides the result of a row, by the options and by that row alone.
pub(super) fn judge<'a>(
    options: &PrepareOptions,
    normalizer: &'a mut TextNormalizer,
    users: Option<&UserHasher>,
    last: &mut (String, u128),
    raw: &'a RawRow,
    label: Option<u16>,
) -> RowVerdict<'a> {
    let Some(original) = raw.get(LogField::Text) else { return RowVerdict::Bad(RejectReason::Missing) };
    let mut subset = Subset::Train;
    if options.reading.columns.subset.is_some() {
        let subset_name = raw.get(LogField::Subset).unwrap_or_default().trim();
        let among = |values: &[String]| values.iter().any(|value| value == subset_name);
        if among(&options.test) {
            subset = Subset::Test;
        } else if !options.train.is_empty() && !among(&options.train) {
            return RowVerdict::Outside;
        }
    }
    let count = match raw.get(LogField::Count).map(str::trim) {
        None if options.reading.columns.count.is_some() => return RowVerdict::Bad(RejectReason::Count),
        None => 1,
        // Apart from digits, `parse` accepts a sign, and no count has one.
        Some(text) => match text.parse() {
            Ok(count) if (1..=LARGEST_COUNT).contains(&count) && !text.starts_with('+') => count,
            _ => return RowVerdict::Bad(RejectReason::Count),
        },
    };
    let id = raw.get(LogField::User).map(str::trim).filter(|id| !id.is_empty());
    let user = match (users, id) {
        (None, _) => None,
        (Some(_), None) => return RowVerdict::Bad(RejectReason::User),
        (Some(_), Some(id)) if last.0 == id => Some(last.1),
        (Some(users), Some(id)) => {
            *last = (id.to_owned(), users.hash_id(id));
            Some(last.1)
        }
    };
    let text = normalizer.apply(original);
    if text.is_empty() {
        return RowVerdict::Bad(RejectReason::Empty);
    }
    if text.len() > options.longest && text.chars().count() > options.longest {
        return RowVerdict::Bad(RejectReason::Long);
    }
    if subset == Subset::Train
        && options.hold_out > 0.0
        && is_held_out(id.filter(|_| users.is_some()).unwrap_or(text), options.hold_out)
    {
        subset = Subset::Test;
    }
    RowVerdict::Keep(RowRef { text, user, count, label }, subset, text != original)
}

/// Returns the excerpt that a report shows of a row that was rejected for `reason`.
pub(super) fn rejected_excerpt(raw: &RawRow, reason: RejectReason) -> &str {
    let field = match reason {
        RejectReason::Count => LogField::Count,
        RejectReason::Label => LogField::Label,
        _ => LogField::Text,
    };
    raw.get(field).unwrap_or_default()
}

/// Returns true if a user, or a query, is held out: if its hash, as a number between 0 and 1, is below the share.
fn is_held_out(id: &str, share: f64) -> bool {
    let digest = Sha256::new().chain_update("undertone hold-out\0").chain_update(id).finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    // 53 bits, so that the number is exact and below 1.
    let at = (u64::from_be_bytes(first) >> 11) as f64 / (1_u64 << 53) as f64;
    at < share
}
