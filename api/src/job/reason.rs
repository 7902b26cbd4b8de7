//! The reason that a party gives when it interrupts a job, for the other parties to read.

use crate::problem::Violation;

/// The most characters of a reason.
pub const MOST_REASON: usize = 500;

/// Returns the violation of a reason that does not have 1 to [`MOST_REASON`] characters without the space around it.
pub(super) fn check_reason(reason: &str) -> Vec<Violation> {
    let length = reason.trim().chars().count();
    if (1..=MOST_REASON).contains(&length) {
        return Vec::new();
    }
    let message = format!("give a reason of 1 to {MOST_REASON} characters, not {length}: the other parties read it");
    vec![Violation::new("reason", message)]
}

#[cfg(test)]
mod tests {
    use super::{MOST_REASON, check_reason};
    use crate::job::{LeaveRequest, PauseRequest};

    #[test]
    fn reason_has_1_to_500_characters() {
        let wrong = [" ".to_owned(), "ä".repeat(MOST_REASON + 1)];
        let right = ["x".to_owned(), "ä".repeat(MOST_REASON), format!(" {} ", "x".repeat(MOST_REASON))];
        assert!(right.iter().all(|reason| check_reason(reason).is_empty()));
        for reason in wrong {
            let pause = PauseRequest { reason: reason.clone() }.check();
            assert_eq!((pause.len(), pause[0].field.as_str()), (1, "reason"));
            assert_eq!(LeaveRequest { reason }.check(), pause);
        }
    }
}
