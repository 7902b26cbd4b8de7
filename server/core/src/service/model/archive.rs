//! A model as an MLflow model: a tar archive with the ONNX graph, the safetensors file, the card and the `MLmodel` file.
//!
//! The flavor is `onnx`, because the graph runs without this product; the flavor `python_function` refers to MLflow's own
//! loader for it. The keys are those that `mlflow.onnx.save_model` writes (MLflow 3, `mlflow/onnx/__init__.py`). The same
//! model gives the same bytes.

use object_store::ObjectStoreExt as _;
use time::format_description::well_known::Rfc3339;
use undertone_api::id::ArtifactId;
use undertone_api::model::record::ModelRecord;
use undertone_api::problem::Code;

use super::card::render_card;
use super::{StoredArtifact, find_file_to_take, get, take};
use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::fairness::WorkOwner;

/// The largest model that is archived: 256 MiB, because the archive is made in memory.
pub const MOST_BYTES: u64 = 256 << 20;

/// The version of MLflow whose format the archive has.
const MLFLOW: &str = "3.17.2";
/// The packages with which MLflow runs the graph.
const REQUIREMENTS: &str = "mlflow\nonnx\nonnxruntime\nnumpy\npandas\n";

/// Returns the archive of a model. The audit log notes it like a download.
///
/// # Errors
/// As [`take`] and [`get`]; `too_large` above [`MOST_BYTES`], `wrong_state` for a file that is not converted.
pub async fn archive(ctx: &Ctx, actor: &Actor, id: ArtifactId) -> Result<Vec<u8>, Error> {
    find_file_to_take(ctx, actor, id).await?;
    let record = get(ctx, actor, id).await?;
    if record.file.size > MOST_BYTES {
        let text = format!(
            "a model of at most {MOST_BYTES} bytes is archived, and this one has {}: download it, and convert it with \
             `undertone-worker export`",
            record.file.size
        );
        return Err(Error::problem(Code::TooLarge, text));
    }
    if !record.design.has_graph() {
        let text = "an archive has an ONNX graph, and this model reads the n-grams of texts, for which ONNX has no operator: \
                    download the file";
        return Err(Error::wrong_state(text));
    }
    let StoredArtifact { object, .. } = take(ctx, actor, id).await?;
    let object = ctx.store.get(&object).await.map_err(|error| Error::internal("reading a file", error))?;
    let file = object.bytes().await.map_err(|error| Error::internal("reading a file", error))?;
    let card = render_card(&record, &ctx.addresses.http);
    ctx.compute().run(WorkOwner::current(), "converting a model", move || write_archive(&record, &card, &file)).await?
}

/// Writes the archive of a record with its card and its file.
fn write_archive(record: &ModelRecord, card: &str, file: &[u8]) -> Result<Vec<u8>, Error> {
    let unusable = |error: undertone_onnx::OnnxError| Error::wrong_state(error.to_string());
    let graph = undertone_onnx::convert(file).map_err(unusable)?;
    let (inputs, classes) = undertone_onnx::read_dimensions(file).map_err(unusable)?;
    let seconds = record.file.created_at.unix_timestamp().max(0).cast_unsigned();
    let mut archive = tar::Builder::new(Vec::new());
    let description = describe(record, inputs, classes);
    let entries: [(&str, &[u8]); 7] = [
        ("MLmodel", description.as_bytes()),
        ("model.onnx", &graph),
        ("model.safetensors", file),
        ("README.md", card.as_bytes()),
        ("requirements.txt", REQUIREMENTS.as_bytes()),
        ("python_env.yaml", PYTHON_ENVIRONMENT.as_bytes()),
        ("conda.yaml", CONDA_ENVIRONMENT.as_bytes()),
    ];
    for (name, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(seconds);
        archive
            .append_data(&mut header, format!("model/{name}"), content)
            .map_err(|error| Error::internal("writing an archive", error))?;
    }
    archive.into_inner().map_err(|error| Error::internal("writing an archive", error))
}

const PYTHON_ENVIRONMENT: &str = "python: '3.11'\nbuild_dependencies:\n- pip\ndependencies:\n- -r requirements.txt\n";
const CONDA_ENVIRONMENT: &str = "channels:\n- conda-forge\ndependencies:\n- python=3.11\n- pip\n- pip:\n  - mlflow\n  - onnx\n  \
                                 - onnxruntime\n  - numpy\n  - pandas\nname: mlflow-env\n";

/// Returns the `MLmodel` file, YAML. Texts are JSON strings, which are YAML too.
fn describe(record: &ModelRecord, inputs: usize, classes: usize) -> String {
    let text = |value: &str| serde_json::Value::from(value).to_string();
    let tensor = |name: &str, size: usize| {
        let tensor = format!(
            r#"[{{"name": "{name}", "type": "tensor", "tensor-spec": {{"dtype": "float32", "shape": [-1, -1, {size}]}}}}]"#
        );
        text(&tensor)
    };
    let created = record.file.created_at.format(&Rfc3339).unwrap_or_default();
    let created = created.replace('T', " ").replace('Z', "");
    let certificate = record.certificate.as_ref().map_or("", |certificate| &certificate.digest);
    format!(
        "flavors:\n\
         \x20 onnx:\n\
         \x20   code: null\n\
         \x20   data: model.onnx\n\
         \x20   onnx_version: 1.12.0\n\
         \x20   providers:\n\
         \x20   - CPUExecutionProvider\n\
         \x20 python_function:\n\
         \x20   data: model.onnx\n\
         \x20   env:\n\
         \x20     conda: conda.yaml\n\
         \x20     virtualenv: python_env.yaml\n\
         \x20   loader_module: mlflow.onnx\n\
         \x20   python_version: 3.11.0\n\
         metadata:\n\
         \x20 undertone_certificate_sha256: {}\n\
         \x20 undertone_job: {}\n\
         \x20 undertone_model_sha256: {}\n\
         \x20 undertone_version: {}\n\
         mlflow_version: {MLFLOW}\n\
         model_uuid: {}\n\
         signature:\n\
         \x20 inputs: {}\n\
         \x20 outputs: {}\n\
         \x20 params: null\n\
         utc_time_created: {}\n",
        text(certificate),
        text(&record.job.id.to_string()),
        text(&record.file.digest),
        record.version,
        text(&record.file.id.0.simple().to_string()),
        tensor("features", inputs),
        tensor("logits", classes),
        text(&created),
    )
}

#[cfg(test)]
mod tests;
