//! The registry model with which a job begins.
//!
//! The job begins with the parameters and the normalization of the file, continues the lead's warm start on public data
//! from them, and then its rounds. A file that follows from differentially private releases alone costs nothing more
//! when it is read: this is post-processing, and the new releases compose with the earlier ones adaptively. So a party
//! whose data trained both models has paid both prices in its account.

use super::{AcousticModel, RecurrentCell, Spec, TrainingLoss};
use crate::problem::Violation;

impl Spec {
    /// Returns the spec with the classes of `origin`'s model, if it leaves them open; `origin` is the settled spec of
    /// the job that made the initial model.
    #[must_use]
    pub fn with_classes_of(mut self, origin: &Self) -> Self {
        self.model.classes = self.model.classes.or(origin.model.classes);
        self
    }

    /// Returns every difference between the proposed model and the initial one, each with the field and the value to give
    /// it.
    pub fn check_layers(&self, initial: &AcousticModel) -> Vec<Violation> {
        list_differences(&self.model, initial)
            .into_iter()
            .map(|(field, file, proposed)| {
                let text = format!(
                    "the initial model has {file}, the proposal {proposed}: give the value of the initial model, or \
                     choose a model with yours"
                );
                Violation::new(format!("spec.model.{field}"), text)
            })
            .collect()
    }
}

/// Returns the fields in which two models differ, with the value of the file and that of the proposal in words. Open
/// classes of the proposal are no difference.
fn list_differences(proposed: &AcousticModel, file: &AcousticModel) -> Vec<(&'static str, String, String)> {
    let cell = |cell: RecurrentCell| if cell == RecurrentCell::Gru { "`gru`" } else { "`lstm`" }.to_owned();
    // With CTC the last class is the blank, so equal classes have other meanings.
    let loss = |loss: TrainingLoss| {
        let name = match loss {
            TrainingLoss::CrossEntropy => "`cross_entropy`",
            TrainingLoss::Ctc => "`ctc`",
            TrainingLoss::SquaredError => "`squared_error`",
        };
        name.to_owned()
    };
    let context = |context: Option<u32>| context.map_or_else(|| "none".to_owned(), |frames| frames.to_string());
    let classes = |model: &AcousticModel| model.classes.map_or_else(String::new, |classes| classes.to_string());
    // Equal columns have equal inputs; the most rows of a unit are no part of the model.
    let rows = |model: &AcousticModel| match &model.rows {
        None => "none".to_owned(),
        Some(rows) => serde_json::to_string(&(&rows.target, &rows.features, &rows.text)).unwrap_or_default(),
    };
    let all = [
        ("rows", rows(file), rows(proposed)),
        ("hidden", file.hidden.to_string(), proposed.hidden.to_string()),
        ("cell", cell(file.cell), cell(proposed.cell)),
        ("layers", file.layers.to_string(), proposed.layers.to_string()),
        ("bidirectional", file.bidirectional.to_string(), proposed.bidirectional.to_string()),
        ("context", context(file.context), context(proposed.context)),
        ("normalize", file.normalize.to_string(), proposed.normalize.to_string()),
        ("loss", loss(file.loss), loss(proposed.loss)),
        ("classes", classes(file), if proposed.classes.is_some() { classes(proposed) } else { classes(file) }),
    ];
    all.into_iter().filter(|(_, file, proposed)| file != proposed).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{changed, older_spec};
    use super::{RecurrentCell, TrainingLoss};
    use crate::job::JobKind as _;
    use crate::model::source::ModelSource;

    #[test]
    fn each_difference_names_its_field_and_both_values() {
        let origin = older_spec();
        assert_eq!(origin.check_layers(&origin.model), Vec::new());
        let other = changed(|spec| {
            let model = &mut spec.model;
            (model.hidden, model.classes, model.layers) = (64, Some(40), 2);
            (model.bidirectional, model.context, model.normalize) = (true, Some(5), true);
            (model.cell, model.loss) = (RecurrentCell::Gru, TrainingLoss::Ctc);
        });
        let violations = other.check_layers(&origin.model);
        let texts: Vec<_> = violations.iter().map(|violation| (&*violation.field, &*violation.message)).collect();
        for (field, file, proposed) in [
            ("hidden", "200", "64"),
            ("cell", "`lstm`", "`gru`"),
            ("layers", "1", "2"),
            ("bidirectional", "false", "true"),
            ("context", "none", "5"),
            ("normalize", "false", "true"),
            ("loss", "`cross_entropy`", "`ctc`"),
            ("classes", "9096", "40"),
        ] {
            let text = format!("the initial model has {file}, the proposal {proposed}: ");
            let is_named =
                |(named, message): &(&str, &str)| *named == format!("spec.model.{field}") && message.starts_with(&text);
            assert!(texts.iter().any(is_named), "{field}: {texts:?}");
        }
        assert_eq!(texts.len(), 8);
    }

    #[test]
    fn open_classes_are_those_of_the_initial_model() {
        let origin = older_spec();
        let open = changed(|spec| spec.model.classes = None);
        assert_eq!(open.check_layers(&origin.model), Vec::new());
        assert_eq!(open.with_classes_of(&origin).model.classes, Some(9096));
        let own = changed(|spec| spec.model.classes = Some(7));
        assert_eq!(own.with_classes_of(&origin).model.classes, Some(7));
    }

    #[test]
    fn description_of_the_initial_model_has_the_digest() {
        let begun = |digest: &str| changed(|spec| spec.initial_model = Some(digest.to_owned()));
        let (one, other) = (begun(&"ab".repeat(32)), begun(&"cd".repeat(32)));
        assert_ne!(one.model(13), older_spec().model(13));
        assert_ne!(one.model(13), other.model(13));
    }

    #[test]
    fn files_are_classified_by_their_arm() {
        let spec = older_spec();
        let private_only = changed(|spec| spec.open = None);
        let open_only = changed(|spec| spec.private = None);
        let public_only = changed(|spec| (spec.open, spec.private) = (None, None));
        for (spec, file, source) in [
            (&spec, "warm_start.safetensors", Some(ModelSource::Public)),
            (&spec, "model-public.safetensors", Some(ModelSource::Public)),
            (&spec, "model-open.safetensors", Some(ModelSource::Open)),
            (&spec, "model-private.safetensors", Some(ModelSource::Private)),
            (&spec, "model.safetensors", Some(ModelSource::Private)),
            (&spec, "development.safetensors", None),
            (&private_only, "model-open.safetensors", None),
            (&open_only, "model.safetensors", Some(ModelSource::Open)),
            (&public_only, "model.safetensors", Some(ModelSource::Public)),
        ] {
            assert_eq!(spec.model_source(file), source, "{file}");
        }
    }
}
