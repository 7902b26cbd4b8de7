//! Limits of training of few coordinates.

use crate::job::dp_sgd::{AcousticModel, Arm, ModelPart, ParameterAdaptation, Rounds, Spec};

/// The greatest smaller side of a matrix whose singular vectors a site computes: about a minute of one core.
const MAX_SIDE: u64 = 1024;

/// Checks the adaptation of an arm's rounds; `at` makes the path of a field of the rounds.
pub(super) fn check(
    spec: &Spec,
    rounds: &Rounds,
    adaptation: ParameterAdaptation,
    at: &impl Fn(&str) -> String,
    say: &mut impl FnMut(&str, String),
) {
    let embedding = ModelPart::Embedding;
    if spec.model.parts().contains(embedding) && rounds.trained(&spec.model).contains(embedding) {
        let why = "`embedding` is a table of vectors, and has neither biases nor directions: name the other parts in `train`, \
                   or leave this out";
        say(&at("adaptation"), why.to_owned());
    }
    let is_random = spec.warm_start.epochs == 0 && spec.initial_model.is_none();
    if matches!(adaptation, ParameterAdaptation::LowRank { .. }) && is_random {
        let why = "the directions of a low rank are those of the model after the warm start, and this job begins with random \
                   parameters: set `warm_start.epochs`, name an `initial_model`, or leave this out";
        say(&at("adaptation"), why.to_owned());
    }
}

/// Checks the ranks of both arms against the matrices of a model for data of `inputs` coefficients and `classes` classes.
pub(super) fn check_ranks(
    spec: &Spec,
    model: &AcousticModel,
    inputs: u32,
    classes: u32,
    say: &mut impl FnMut(&str, String),
) {
    for arm in [Arm::Open, Arm::Private] {
        let Some(rounds) = spec.rounds(arm) else { continue };
        let Some(ParameterAdaptation::LowRank { rank }) = rounds.adaptation else { continue };
        let parts = rounds.trained(model);
        if parts.iter().all(|part| part == ModelPart::Embedding || !model.parts().contains(part)) {
            // Reported as such.
            continue;
        }
        let at = |field: &str| format!("{}.{field}", arm.series());
        match model.greatest_rank(parts, inputs, classes) {
            None => {
                let why = "none of the trained parts has a weight matrix: name others in `train`, or leave this out";
                say(&at("adaptation"), why.to_owned());
            }
            Some(greatest) if greatest > MAX_SIDE => {
                let why = format!(
                    "the smaller side of a trained weight matrix is {greatest}, and a low rank is for at most {MAX_SIDE}: use \
                     fewer hidden units, name other parts in `train`, or leave this out"
                );
                say(&at("adaptation"), why);
            }
            Some(greatest) if !(1..=greatest).contains(&u64::from(rank)) => {
                let why =
                    format!("from 1 to {greatest}, the smaller side of the largest trained weight matrix, not {rank}");
                say(&at("adaptation.rank"), why);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use super::super::tests::{change_of_rows, change_of_speech, private};
    use crate::job::JobKind as _;
    use crate::job::dp_sgd::{ModelPart, ParameterAdaptation, Spec, TextEmbedding};
    use crate::table::{ColumnKind, TableColumn};

    /// Returns the fields reported of a spec of speech after a change.
    fn fields(change: impl FnOnce(&mut Spec)) -> Vec<String> {
        let (spec, datasets) = change_of_speech(change);
        spec.check(&datasets).into_iter().map(|violation| violation.field).collect()
    }

    fn set_rank(spec: &mut Spec, rank: u32) {
        private(spec).adaptation = Some(ParameterAdaptation::LowRank { rank });
    }

    fn train(spec: &mut Spec, part: ModelPart) {
        private(spec).train = Some([part].into_iter().collect());
    }

    /// 13 inputs, 200 hidden units and 42 classes.
    #[test]
    fn rank_is_at_most_the_smaller_side_of_the_largest_matrix() {
        let rank = "spec.private.adaptation.rank";
        for (number, expected) in [(0, vec![rank]), (1, vec![]), (200, vec![]), (201, vec![rank])] {
            assert_eq!(fields(|spec| set_rank(spec, number)), expected, "{number}");
        }
        let output = |number| {
            fields(move |spec| {
                set_rank(spec, number);
                train(spec, ModelPart::Output);
            })
        };
        assert_eq!((output(42), output(43)), (vec![], vec![rank.to_owned()]));
        let open = fields(|spec| {
            spec.open.as_mut().unwrap().adaptation = Some(ParameterAdaptation::LowRank { rank: 0 });
        });
        assert_eq!(open, ["spec.open.adaptation.rank"]);
    }

    #[test]
    fn matrices_without_a_small_side_are_refused() {
        let hidden = |hidden| {
            fields(move |spec| {
                set_rank(spec, 8);
                spec.model.hidden = hidden;
            })
        };
        assert_eq!((hidden(1024), hidden(1025)), (vec![], vec!["spec.private.adaptation".to_owned()]));
    }

    #[test]
    fn low_rank_of_random_parameters_is_refused() {
        let random = |adaptation, initial_model| {
            fields(move |spec| {
                spec.warm_start.epochs = 0;
                spec.initial_model = initial_model;
                private(spec).adaptation = Some(adaptation);
            })
        };
        let low_rank = ParameterAdaptation::LowRank { rank: 8 };
        assert_eq!(random(low_rank, None), ["spec.private.adaptation"]);
        assert_eq!(random(low_rank, Some("ab".repeat(32))), [""; 0]);
        assert_eq!(random(ParameterAdaptation::Biases, None), [""; 0]);
    }

    #[test]
    fn part_without_matrices_is_refused_with_a_rank() {
        let layer_norm = |adaptation| {
            fields(move |spec| {
                spec.model.normalize = true;
                train(spec, ModelPart::Normalize);
                private(spec).adaptation = Some(adaptation);
            })
        };
        assert_eq!(layer_norm(ParameterAdaptation::LowRank { rank: 1 }), ["spec.private.adaptation"]);
        assert_eq!(layer_norm(ParameterAdaptation::Biases), [""; 0]);
    }

    #[test]
    fn embedding_is_refused_and_may_stay_frozen() {
        let check = |train: Option<ModelPart>, adaptation| {
            let (spec, datasets) = change_of_rows(|spec, datasets| {
                let text = ColumnKind::Text { most_grams: 4, characters: false };
                let note = TableColumn { name: "note".to_owned(), kind: text };
                for table in datasets.iter_mut().filter_map(|dataset| dataset.table.as_mut()) {
                    table.columns.push(note.clone());
                }
                let rows = spec.model.rows.as_mut().unwrap();
                rows.features.push(note);
                rows.text = Some(TextEmbedding { buckets: 64, width: 4 });
                private(spec).train = train.map(|part| [part].into_iter().collect());
                private(spec).adaptation = Some(adaptation);
            });
            let violations = spec.check(&datasets);
            violations.into_iter().map(|violation| violation.field).collect::<Vec<_>>()
        };
        for adaptation in [ParameterAdaptation::Biases, ParameterAdaptation::LowRank { rank: 2 }] {
            assert_eq!(check(None, adaptation), ["spec.private.adaptation"]);
            assert_eq!(check(Some(ModelPart::Embedding), adaptation), ["spec.private.adaptation"]);
            assert_eq!(check(Some(ModelPart::Layer1), adaptation), [""; 0]);
        }
    }
}
