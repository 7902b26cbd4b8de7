//! ONNX graphs: the same figures as the model from which a graph was converted, and the refusals.

use undertone_worker_encoder::fixtures::{TestGraph, linear};

use super::super::evaluated::EvaluatedModel;
use super::super::local::evaluate;
use super::super::model_file::read_any_model;
use super::{TestEvaluation, model_file, write_dataset};
use crate::speech::model::gradient::{Engine, Example};

/// Returns the graph of the untrained model of four classes.
fn graph_file() -> Vec<u8> {
    undertone_onnx::convert(&model_file(4)).unwrap()
}

#[test]
fn graph_has_the_scores_of_its_model() {
    let own = EvaluatedModel::read(&model_file(4), None, read_any_model).unwrap();
    let graph = EvaluatedModel::read(&graph_file(), None, read_any_model).unwrap();
    assert_eq!((graph.inputs(), graph.classes()), (own.inputs(), own.classes()));
    let features: Vec<f32> = (0..3 * 40).map(|i| (i % 11) as f32 / 11.0 - 0.4).collect();
    let example = [Example { features: &features, labels: &[0; 40] }];
    let scores = |model: &EvaluatedModel| {
        let mut all = Vec::new();
        model.classify(&mut Engine::new(), &example, &mut |_, scores| all.extend_from_slice(scores));
        all
    };
    let (expected, found) = (scores(&own), scores(&graph));
    assert_eq!(found.len(), 40 * 4);
    for (one, other) in expected.iter().zip(&found) {
        assert!((one - other).abs() < 1e-4, "{one} {other}");
    }
}

#[test]
fn job_and_command_measure_a_graph_as_its_model() {
    let run = |file: &[u8]| {
        let job = TestEvaluation::with_data(write_dataset, file, |_| ());
        job.run_all();
        job.report()
    };
    let (own, graph) = (run(&model_file(4)), run(&graph_file()));
    assert_eq!(own.sites, graph.sites);
    for (one, other) in own.classes[0].positives.iter().zip(&graph.classes[0].positives) {
        assert!((one - other).abs() < 0.5, "{one} {other}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_dataset(&path("speech"), 1);
    std::fs::write(path("own"), model_file(4)).unwrap();
    std::fs::write(path("graph"), graph_file()).unwrap();
    let local = |name: &str| evaluate(&path(name), &path("speech"), "speech").unwrap();
    let (one, other) = (local("own"), local("graph"));
    assert_eq!((one.frames, one.classes), (other.frames, other.classes), "the same frames in the same classes");
}

#[test]
fn graphs_that_are_no_classifiers_of_frames_are_refused_with_the_reason() {
    let refuse = |content: &[u8]| EvaluatedModel::read(content, None, read_any_model).err().unwrap().to_string();
    assert!(refuse(b"\x08\x07\x12\x07pytorch").contains("the ONNX graph cannot be evaluated"));
    let loops = refuse(&TestGraph::default().node("Loop", &[], "scores").into_bytes());
    assert!(loops.contains("`Loop`"), "{loops}");
    // A fixed number of frames: `[batch, 3, 3]`.
    let mut fixed = linear(3, 4, &[0.5; 12]);
    let tensor = fixed.0.input[0].r#type.as_mut().and_then(|kind| kind.tensor_type.as_mut()).unwrap();
    let sizes = &mut tensor.shape.as_mut().unwrap().dim;
    let size = sizes[1].clone();
    sizes.push(size);
    let form = refuse(&fixed.into_bytes());
    assert!(form.contains("[batch, frames, coefficients]"), "{form}");
    let folder = tempfile::tempdir().unwrap();
    let (model, speech) = (folder.path().join("graph"), folder.path().join("speech"));
    std::fs::write(&model, undertone_onnx::convert(&model_file(3)).unwrap()).unwrap();
    write_dataset(&speech, 1);
    let classes = evaluate(&model, &speech, "speech").unwrap_err().to_string();
    assert!(classes.contains('3') && classes.contains('4'), "{classes}");
}
