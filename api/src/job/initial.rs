//! The registry model with which a job begins, for every kind.

use super::Spec;
use crate::dataset::Dataset;
use crate::problem::Violation;
use crate::signed::Manifest;

/// The name under which every participant of a job fetches the file of its initial model. The server serves the
/// registry's file under this name.
pub const INITIAL_MODEL: &str = "initial_model.safetensors";

impl Spec {
    /// Returns the spec with the values of the initial model that it leaves open; `origin` is the manifest of the job
    /// that made this model. A spec that begins with no model, and one of another kind than `origin`, stay the same.
    #[must_use]
    pub fn adopt_initial_model(self, origin: &Manifest) -> Self {
        match (self, &origin.spec) {
            (Self::DpSgd(spec), Self::DpSgd(made)) if spec.initial_model.is_some() => {
                Self::DpSgd(spec.with_classes_of(made))
            }
            (spec, _) => spec,
        }
    }

    /// Returns every reason why the job cannot begin with a model that the job of `origin` made; none for a spec that
    /// begins with no model.
    pub fn check_initial_model(&self, origin: &Manifest, datasets: &[Dataset]) -> Vec<Violation> {
        let (Self::DpSgd(spec), Self::DpSgd(made)) = (self, &origin.spec) else {
            let text = format!(
                "the model was made by a job of kind `{}`: choose a model of a `{}` job",
                origin.spec.kind(),
                self.kind()
            );
            let begins = self.initial_file().is_some();
            return begins.then(|| Violation::new("spec.initial_model", text)).into_iter().collect();
        };
        if spec.initial_model.is_none() {
            return Vec::new();
        }
        let mut violations = spec.check_layers(&made.model);
        let lead = self.datasets().first().and_then(|(id, _)| datasets.iter().find(|dataset| dataset.id == *id));
        // Only the digest of its description states the inputs of the earlier job.
        let differs = |lead: &&Dataset| origin.model.is_some() && origin.spec.model(lead.inputs) != origin.model;
        if let Some(lead) = lead.filter(differs) {
            let (name, inputs) = (&lead.name, lead.inputs);
            let text = format!(
                "`{name}` has {inputs} coefficients a frame, and the initial model was made for another number: prepare \
                 the datasets with the features of the initial model, or choose another model"
            );
            violations.push(Violation::new("spec.initial_model", text));
        }
        violations
    }
}
