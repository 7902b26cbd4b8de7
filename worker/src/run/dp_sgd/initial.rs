//! The registry model with which a job begins.
//!
//! Every participant fetches the file, from the site's own folder of models or else from the server, and checks its
//! digest and its layers against the signed manifest. So a server or a lead that offers another model is noticed before
//! any private data are read. Reading the file costs nothing: its own releases were charged when they were made.

use undertone_api::job::INITIAL_MODEL;
use undertone_api::job::dp_sgd::{RecurrentCell, RowColumns, Spec, TrainingLoss};

use super::error::TrainingError;
use crate::run::evaluation::{digest_file, find_model, read_any_model};
use crate::run::{Artifacts, RunError};
use crate::speech::model::{Model, ModelShape};

/// Fetches the model whose file has this digest, and checks its layers against the spec, for data with this number of
/// coefficients.
///
/// # Errors
/// [`RunError::Failed`] with the difference between the file and the manifest, [`RunError::Stopped`] when the lease is
/// lost.
pub(super) fn fetch_model(
    spec: &Spec,
    digest: &str,
    inputs: usize,
    exchange: &mut dyn Artifacts,
) -> Result<Model, RunError> {
    let local = exchange.models().and_then(|folder| find_model(&folder, digest).ok());
    let file = match local {
        Some(file) => file,
        None => exchange.fetch_file(INITIAL_MODEL)?,
    };
    Ok(open_model(spec, digest, inputs, &file)?)
}

/// Checks that the lead's warm start continues the initial model: with its normalization, and without epochs with
/// exactly its parameters. Longer warm starts are the lead's, on its public data.
///
/// # Errors
/// [`RunError::Failed`] when it does not, and as [`fetch_model`].
pub(super) fn check_start(spec: &Spec, start: &Model, exchange: &mut dyn Artifacts) -> Result<(), RunError> {
    let Some(digest) = &spec.initial_model else { return Ok(()) };
    let initial = fetch_model(spec, digest, start.shape().inputs, exchange)?;
    let is_same = initial.shape() == start.shape() && initial.normalizer() == start.normalizer();
    if is_same && (spec.warm_start.epochs > 0 || initial.has_same_scores(start)) {
        Ok(())
    } else {
        Err(TrainingError::OtherStart(digest.clone()).into())
    }
}

/// Reads the file with this digest, and compares its layers with the spec.
fn open_model(spec: &Spec, digest: &str, inputs: usize, file: &[u8]) -> Result<Model, TrainingError> {
    let actual = digest_file(file);
    if actual != digest {
        return Err(TrainingError::OtherInitialModel { digest: actual, expected: digest.to_owned() });
    }
    let model = read_any_model(file).map_err(TrainingError::InitialModel)?;
    let classes = spec.model.classes.ok_or(TrainingError::NoClasses)? as usize;
    if model.shape().inputs != inputs {
        return Err(TrainingError::InitialInputs { file: model.shape().inputs, data: inputs });
    }
    let expected = ModelShape::from_spec(&spec.model, inputs, classes);
    let fields = describe_shape(model.shape()).into_iter().zip(describe_shape(&expected));
    if let Some(((field, file), (_, expected))) = fields.into_iter().find(|((_, file), (_, expected))| file != expected)
    {
        return Err(TrainingError::InitialLayers { field, file, expected });
    }
    check_loss(&model, spec.model.loss)?;
    check_columns(&model, spec.model.rows.as_deref())?;
    Ok(model)
}

/// Checks that the file's loss is that of the spec: with CTC the last class is the blank, so equal classes have other
/// meanings. A file that records no loss passes, as the server has compared the specs of both jobs.
fn check_loss(model: &Model, loss: TrainingLoss) -> Result<(), TrainingError> {
    match model.usage().loss {
        Some(file) if file != loss => {
            let [file, expected] = [file, loss].map(|loss| loss_name(loss).to_owned());
            Err(TrainingError::InitialLayers { field: "loss", file, expected })
        }
        _ => Ok(()),
    }
}

/// Checks that a model of rows reads and predicts the columns of the spec: equal inputs of other columns have other
/// meanings.
fn check_columns(model: &Model, rows: Option<&RowColumns>) -> Result<(), TrainingError> {
    let text =
        |rows: &RowColumns| serde_json::to_string(&(&rows.target, &rows.features, &rows.text)).unwrap_or_default();
    match (model.usage().rows.as_deref(), rows) {
        (Some(file), Some(expected)) if text(file) != text(expected) => {
            Err(TrainingError::InitialLayers { field: "rows", file: text(file), expected: text(expected) })
        }
        _ => Ok(()),
    }
}

const fn loss_name(loss: TrainingLoss) -> &'static str {
    match loss {
        TrainingLoss::CrossEntropy => "cross_entropy",
        TrainingLoss::Ctc => "ctc",
        TrainingLoss::SquaredError => "squared_error",
    }
}

/// Returns the dimensions of a model by the names of the fields of a spec.
fn describe_shape(shape: &ModelShape) -> [(&'static str, String); 9] {
    let cell = if shape.cell == RecurrentCell::Gru { "gru" } else { "lstm" };
    [
        ("rows", if shape.dense { "given" } else { "none" }.to_owned()),
        ("text", shape.text.map_or_else(|| "none".to_owned(), |text| format!("{} × {}", text.buckets, text.width))),
        ("hidden", shape.hidden.to_string()),
        ("cell", cell.to_owned()),
        ("layers", shape.layers.to_string()),
        ("bidirectional", shape.bidirectional.to_string()),
        ("context", shape.context.map_or_else(|| "none".to_owned(), |frames| frames.to_string())),
        ("normalize", shape.normalize.to_string()),
        ("classes", shape.classes.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use undertone_api::job::dp_sgd::{RecurrentCell, Spec, TrainingLoss};

    use super::{digest_file, open_model};
    use crate::run::dp_sgd::tests::test_spec;
    use crate::speech::model::{Model, ModelShape, ModelUsage, Normalizer};

    /// A change of a spec, with what the error says of the file and of the spec.
    type LayerChange = (fn(&mut Spec), &'static str, &'static str);

    fn file_of(spec: &Spec) -> Vec<u8> {
        let shape = ModelShape::from_spec(&spec.model, 3, 4);
        let normalizer = Normalizer { mean: vec![0.0; 3], deviation: vec![1.0; 3] };
        Model::initialize(shape, normalizer, 1).to_safetensors().unwrap()
    }

    #[test]
    fn each_different_layer_is_named_with_both_values() {
        let spec = test_spec();
        let file = file_of(&spec);
        let digest = digest_file(&file);
        assert!(open_model(&spec, &digest, 3, &file).is_ok());
        let changes: [LayerChange; 7] = [
            (|spec| spec.model.hidden = 11, "`hidden` 10", "`model.hidden` 11"),
            (|spec| spec.model.cell = RecurrentCell::Gru, "`cell` lstm", "`model.cell` gru"),
            (|spec| spec.model.layers = 2, "`layers` 1", "`model.layers` 2"),
            (|spec| spec.model.bidirectional = true, "`bidirectional` false", "`model.bidirectional` true"),
            (|spec| spec.model.context = Some(5), "`context` none", "`model.context` 5"),
            (|spec| spec.model.normalize = true, "`normalize` false", "`model.normalize` true"),
            (|spec| spec.model.classes = Some(9), "`classes` 4", "`model.classes` 9"),
        ];
        for (change, file_value, spec_value) in changes {
            let mut other = test_spec();
            change(&mut other);
            let error = open_model(&other, &digest, 3, &file).unwrap_err().to_string();
            assert!(error.contains(file_value) && error.contains(spec_value), "{error}");
        }
        let error = open_model(&spec, &digest, 13, &file).unwrap_err().to_string();
        assert!(error.contains("takes 3 coefficients") && error.contains("have 13"), "{error}");
    }

    #[test]
    fn file_of_another_loss_is_refused() {
        let mut model = Model::from_safetensors(&file_of(&test_spec())).unwrap();
        let mut ctc = test_spec();
        ctc.model.loss = TrainingLoss::Ctc;
        for (loss, refused) in [(None, None), (Some(TrainingLoss::CrossEntropy), Some(&ctc))] {
            model.set_usage(ModelUsage { loss, ..ModelUsage::default() });
            let file = model.to_safetensors().unwrap();
            let open = |spec: &Spec| open_model(spec, &digest_file(&file), 3, &file);
            assert!(open(&test_spec()).is_ok());
            assert_eq!(open(&ctc).is_err(), refused.is_some());
            if let Some(spec) = refused {
                let error = open(spec).unwrap_err().to_string();
                assert!(error.contains("`loss` cross_entropy") && error.contains("`model.loss` ctc"), "{error}");
            }
        }
    }

    #[test]
    fn other_or_unusable_file_is_refused() {
        let spec = test_spec();
        let error = |digest: &str, file: &[u8]| open_model(&spec, digest, 3, file).unwrap_err().to_string();
        let other = error(&"ab".repeat(32), b"other");
        assert!(other.contains(&"ab".repeat(32)) && other.contains(&digest_file(b"other")), "{other}");
        let graph = b"\x08\x07\x12\x07pytorch";
        assert!(error(&digest_file(graph), graph).contains("ONNX"));
        let personal = Model::from_safetensors(&file_of(&spec)).unwrap().to_personal_file().unwrap();
        assert!(error(&digest_file(&personal), &personal).contains("the model is personal"));
    }
}
