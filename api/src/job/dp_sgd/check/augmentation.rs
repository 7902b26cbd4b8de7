//! Limits of altered copies.

use super::check_range;
use crate::job::dp_sgd::{Arm, MaskedRuns, Spec, UnitAugmentation};
use crate::problem::Violation;

/// The copies of a unit.
const COPIES: (f64, f64) = (2.0, 16.0);
/// The most masked runs of frames of an utterance, and the most frames of a run.
const FRAME_MASKS: (f64, f64) = (8.0, 50.0);
/// The most masked runs of coefficients of an utterance, and the most coefficients of a run.
const COEFFICIENT_MASKS: (f64, f64) = (4.0, 8.0);

/// Checks the augmentation of an arm's rounds; `at` makes the path of a field of the rounds.
pub(super) fn check(
    spec: &Spec,
    augmentation: &UnitAugmentation,
    at: &impl Fn(&str) -> String,
    say: &mut impl FnMut(&str, String),
) {
    if spec.model.rows.is_some() {
        let why = "it alters frames of speech, and a row of a table has none: leave it out";
        say(&at("augmentation"), why.to_owned());
        return;
    }
    let UnitAugmentation { copies, frame_masks, coefficient_masks, noise } = *augmentation;
    check_range(say, &at("augmentation.copies"), f64::from(copies), COPIES.0, COPIES.1);
    check_masks(frame_masks, FRAME_MASKS, &at("augmentation.frame_masks"), say);
    check_masks(coefficient_masks, COEFFICIENT_MASKS, &at("augmentation.coefficient_masks"), say);
    check_range(say, &at("augmentation.noise"), noise, 0.0, 1.0);
    if !augmentation.alters() {
        let why = "the copies are equal, and have the gradient of one: name `frame_masks`, `coefficient_masks` or `noise`, or \
                   leave this out";
        say(&at("augmentation"), why.to_owned());
    }
}

impl Spec {
    /// Returns the first violation of altered copies in the private arm, if they replaced those of the spec. A site checks
    /// the copies that its terminal asks for.
    pub fn find_wrong_copies(&self, augmentation: &UnitAugmentation) -> Option<Violation> {
        let mut first = None;
        check(
            self,
            augmentation,
            &|field: &str| format!("{}.{field}", Arm::Private.series()),
            &mut |field, message| {
                first.get_or_insert_with(|| Violation::new(format!("spec.{field}"), message));
            },
        );
        first
    }
}

fn check_masks(masks: Option<MaskedRuns>, most: (f64, f64), at: &str, say: &mut impl FnMut(&str, String)) {
    let Some(MaskedRuns { count, longest }) = masks else { return };
    check_range(say, &format!("{at}.count"), f64::from(count), 1.0, most.0);
    check_range(say, &format!("{at}.longest"), f64::from(longest), 1.0, most.1);
}

#[cfg(test)]
mod tests {
    use super::super::tests::{change_of_rows, change_of_speech, private};
    use crate::job::JobKind as _;
    use crate::job::dp_sgd::{MaskedRuns, UnitAugmentation};

    const USUAL: UnitAugmentation = UnitAugmentation::with_usual_alterations(4);

    /// Returns the fields reported of a spec whose private arm has `augmentation`.
    fn fields(augmentation: UnitAugmentation) -> Vec<String> {
        let (spec, datasets) = change_of_speech(|spec| private(spec).augmentation = Some(augmentation));
        spec.check(&datasets).into_iter().map(|violation| violation.field).collect()
    }

    fn frames(count: u32, longest: u32) -> UnitAugmentation {
        UnitAugmentation { frame_masks: Some(MaskedRuns { count, longest }), ..USUAL }
    }

    fn coefficients(count: u32, longest: u32) -> UnitAugmentation {
        UnitAugmentation { coefficient_masks: Some(MaskedRuns { count, longest }), ..USUAL }
    }

    #[test]
    fn values_at_the_limits_are_valid() {
        let bare = UnitAugmentation { copies: 2, frame_masks: None, coefficient_masks: None, noise: 1.0 };
        let masks = UnitAugmentation { noise: 0.0, ..USUAL };
        for augmentation in [
            bare,
            masks,
            UnitAugmentation { copies: 16, ..USUAL },
            frames(1, 1),
            frames(8, 50),
            coefficients(1, 1),
            coefficients(4, 8),
        ] {
            assert_eq!(fields(augmentation), [""; 0], "{augmentation:?}");
        }
    }

    #[test]
    fn value_beyond_a_limit_is_reported_at_its_field() {
        for (field, augmentation) in [
            ("copies", UnitAugmentation { copies: 1, ..USUAL }),
            ("copies", UnitAugmentation { copies: 17, ..USUAL }),
            ("frame_masks.count", frames(0, 10)),
            ("frame_masks.count", frames(9, 10)),
            ("frame_masks.longest", frames(2, 0)),
            ("frame_masks.longest", frames(2, 51)),
            ("coefficient_masks.count", coefficients(0, 3)),
            ("coefficient_masks.count", coefficients(5, 3)),
            ("coefficient_masks.longest", coefficients(1, 0)),
            ("coefficient_masks.longest", coefficients(1, 9)),
            ("noise", UnitAugmentation { noise: -0.1, ..USUAL }),
            ("noise", UnitAugmentation { noise: 1.1, ..USUAL }),
            ("noise", UnitAugmentation { noise: f64::NAN, ..USUAL }),
        ] {
            assert_eq!(fields(augmentation), [format!("spec.private.augmentation.{field}")], "{augmentation:?}");
        }
    }

    #[test]
    fn equal_copies_are_refused() {
        let equal = UnitAugmentation { copies: 4, frame_masks: None, coefficient_masks: None, noise: 0.0 };
        assert_eq!(fields(equal), ["spec.private.augmentation"]);
    }

    #[test]
    fn copies_of_rows_are_refused() {
        let (mut spec, datasets) = change_of_rows(|_, _| ());
        private(&mut spec).augmentation = Some(USUAL);
        let violations = spec.check(&datasets);
        let found: Vec<_> = violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(found, ["spec.private.augmentation"]);
        assert!(violations.iter().all(|violation| violation.message.contains("leave it out")), "{violations:?}");
    }

    #[test]
    fn copies_of_another_setting_have_the_same_limits() {
        let (spec, _) = change_of_speech(|_| ());
        let field = |copies| {
            let found = spec.find_wrong_copies(&UnitAugmentation { copies, ..USUAL });
            found.map(|violation| violation.field)
        };
        let refused = Some("spec.private.augmentation.copies".to_owned());
        assert_eq!([2, 16].map(field), [None, None]);
        assert_eq!([1, 17].map(field), [refused.clone(), refused]);
        let (rows, _) = change_of_rows(|_, _| ());
        assert!(rows.find_wrong_copies(&USUAL).is_some_and(|violation| violation.message.contains("a row of a table")));
    }

    #[test]
    fn open_arm_has_the_same_limits() {
        let (spec, datasets) = change_of_speech(|spec| {
            if let Some(open) = spec.open.as_mut() {
                open.augmentation = Some(UnitAugmentation { copies: 17, ..USUAL });
            }
        });
        let found: Vec<_> = spec.check(&datasets).into_iter().map(|violation| violation.field).collect();
        assert_eq!(found, ["spec.open.augmentation.copies"]);
    }
}
