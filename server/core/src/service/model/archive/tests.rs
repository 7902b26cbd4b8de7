#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;

use sha2::{Digest as _, Sha256};
use undertone_api::id::{ArtifactId, JobId};
use undertone_api::problem::Code;

use super::archive;
use crate::service::model;
use crate::service::world::TestConsortium;
use crate::service::world::finished::{end, store_file, submitted};
use crate::testing::on_both;

/// Returns the file of a model with one input, one hidden unit and two classes, whose weights are 0.
fn model_file() -> Vec<u8> {
    let about = r#"{\"format\":\"undertone-senone/2\",\"inputs\":1,\"hidden\":1,\"classes\":2,\"cell\":\"lstm\",\"layers\":1,\"bidirectional\":false,\"context\":null,\"normalize\":false}"#;
    let tensors = [
        ("layer1.weight", "[3,4]", 12),
        ("normalizer.deviation", "[1]", 1),
        ("normalizer.mean", "[1]", 1),
        ("output.weight", "[2,2]", 4),
    ];
    let mut header = format!(r#"{{"__metadata__":{{"model":"{about}"}}"#);
    let mut data: Vec<u8> = Vec::new();
    for (name, shape, count) in tensors {
        let start = data.len();
        let value = if name == "normalizer.deviation" { 1.0_f32 } else { 0.0 };
        data.extend(value.to_le_bytes().repeat(count));
        let offsets = format!("[{start},{}]", data.len());
        write!(header, r#","{name}":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}"#).unwrap();
    }
    header.push('}');
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

async fn file_of(world: &TestConsortium, job: JobId, name: &str) -> ArtifactId {
    let files = model::list(&world.ctx, &world.sites[0].steward, job).await.unwrap();
    files.iter().find(|file| file.name == name).unwrap().id
}

on_both! {
    async fn archive_is_an_mlflow_model_with_the_card(app: &TestApp) {
        let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
        let job = world.queued(1).await;
        let leases = submitted(&mut world, &job, 1).await;
        let content = model_file();
        store_file(&world, &leases[0], "model-private.safetensors", &content).await;
        for site in [1, 2, 0] {
            end(&world, site, &leases[site]).await;
        }
        let actor = world.sites[0].steward.clone();
        let id = file_of(&world, job.summary.id, "model-private.safetensors").await;
        let bytes = archive(&app.ctx, &actor, id).await.unwrap();
        assert_eq!(bytes, archive(&app.ctx, &actor, id).await.unwrap(), "the same model gives the same bytes");
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.insert(name, content);
        }
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "model/MLmodel", "model/README.md", "model/conda.yaml", "model/model.onnx", "model/model.safetensors",
                "model/python_env.yaml", "model/requirements.txt",
            ]
        );
        assert_eq!(files["model/model.safetensors"], content);
        assert_eq!(files["model/model.onnx"], undertone_onnx::convert(&content).unwrap());
        assert_eq!(files["model/README.md"], model::card(&app.ctx, &actor, id).await.unwrap().into_bytes());
        let description = String::from_utf8(files["model/MLmodel"].clone()).unwrap();
        let digest = hex::encode(Sha256::digest(&content));
        for line in [
            "    data: model.onnx\n",
            "    loader_module: mlflow.onnx\n",
            &*format!("  undertone_model_sha256: \"{digest}\"\n"),
            r#"  inputs: "[{\"name\": \"features\", \"type\": \"tensor\", \"tensor-spec\": {\"dtype\": \"float32\", \"shape\": [-1, -1, 1]}}]""#,
        ] {
            assert!(description.contains(line), "{line} {description}");
        }
        // The other model of the job is no safetensors file.
        let other = archive(&app.ctx, &actor, file_of(&world, job.summary.id, "model.safetensors").await).await;
        let error = other.unwrap_err();
        assert!(error.code() == Code::WrongState && error.to_string().contains("safetensors"), "{error}");
        let mut auditor = world.sites[1].steward.clone();
        auditor.member.grants.retain(|grant| grant.role == undertone_api::member::Role::Auditor);
        assert_eq!(archive(&app.ctx, &auditor, id).await.unwrap_err().code(), Code::Forbidden);
    }
}
