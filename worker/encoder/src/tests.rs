#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use rten_onnx::onnx::{AttributeProto, AttributeType, DataLocation, DataType, GraphProto};
use tempfile::TempDir;

use crate::error::{EncoderError, RowError};
use crate::fixtures::{FREE, TestGraph, embedding, linear};
use crate::specification::EncoderSpec;
use crate::{Encoder, FrameClassifier, MOST_GRAPH_BYTES, MOST_WIDTH, RowClassifier, RowInput, ScoringGraph};

fn spec(pool: bool, input: &str) -> EncoderSpec {
    let pool = if pool { "pool = \"mean\"\n" } else { "" };
    toml::from_str(&format!("prefix = \"f\"\nleast = -1.0\nmost = 1.0\nstep = 0.01\n{pool}[input]\n{input}")).unwrap()
}

fn numbers(count: usize) -> EncoderSpec {
    spec(false, &format!("kind = \"numbers\"\ncolumns = {:?}", vec!["c"; count]))
}

const TEXT: &str = "kind = \"text\"\ncolumn = \"note\"\nvocabulary = \"vocab.txt\"\ntokens = 5";
const AUDIO: &str = "kind = \"audio\"\ncolumn = \"path\"\nrate = 8000\nseconds = 0.5";
const IMAGE: &str = "kind = \"image\"\ncolumn = \"path\"\nwidth = 4\nheight = 2";

/// Opens a graph whose files lie in a folder.
fn open(dir: &Path, graph: TestGraph, spec: &EncoderSpec) -> Result<Encoder, EncoderError> {
    Encoder::open(&graph.save(dir), spec, dir, Some(dir))
}

/// Returns the message about a refused graph of two numbers.
fn refuse(graph: TestGraph) -> String {
    open(TempDir::new().unwrap().path(), graph, &numbers(2)).unwrap_err().to_string()
}

/// Returns a graph of two numbers with one node, from `numbers` to `features`.
fn single(operator: &str) -> TestGraph {
    TestGraph::default()
        .input("numbers", DataType::FLOAT, &[FREE, 2])
        .node(operator, &["numbers"], "features")
        .output("features", &[FREE, 2])
}

#[test]
fn linear_encoder_gives_the_matrix_product() {
    let dir = TempDir::new().unwrap();
    let encoder = open(dir.path(), linear(2, 3, &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]), &numbers(2)).unwrap();
    assert_eq!(encoder.width(), 3);
    assert_eq!(encoder.encode(&RowInput::Numbers(&[0.5, 2.0])), Ok(vec![20.5, 41.0, 61.5]));
    assert_eq!(encoder.encode(&RowInput::Numbers(&[0.5])), Err(RowError::Kind));
    assert_eq!(encoder.encode(&RowInput::Text("0.5")), Err(RowError::Kind));
}

#[test]
fn mean_over_steps_is_of_the_whole_output() {
    let graph = || {
        TestGraph::default()
            .input("samples", DataType::FLOAT, &[FREE, FREE])
            .integers("shape", &[1, -1, 2])
            .node("Reshape", &["samples", "shape"], "features")
            .output("features", &[1, FREE, 2])
    };
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a.wav"), undertone_worker_speech::wav::write(&[0.5, -0.25].repeat(8_000))).unwrap();
    let plain = AUDIO.replace("8000", "16000");
    let encoder = open(dir.path(), graph(), &spec(true, &plain)).unwrap();
    assert_eq!(encoder.encode(&RowInput::File("a.wav")), Ok(vec![0.5, -0.25]));
    let message = open(dir.path(), graph(), &spec(false, &plain)).unwrap_err().to_string();
    assert!(message.contains("pool = \"mean\""), "{message}");
}

#[test]
fn order_of_rows_does_not_change_a_bit() {
    let dir = TempDir::new().unwrap();
    let weights: Vec<f32> = (0..64 * 32).map(|number| (number as f32 * 0.7).sin()).collect();
    let encoder = open(dir.path(), linear(64, 32, &weights).softmax(), &numbers(64)).unwrap();
    let rows: Vec<Vec<f32>> =
        (0..50).map(|row| (0..64).map(|column| ((row * 64 + column) as f32).cos()).collect()).collect();
    let encode = |row: &Vec<f32>| -> Vec<u32> {
        encoder.encode(&RowInput::Numbers(row)).unwrap().into_iter().map(f32::to_bits).collect()
    };
    let forwards: Vec<_> = rows.iter().map(encode).collect();
    let mut backwards: Vec<_> = rows.iter().rev().map(encode).collect();
    backwards.reverse();
    assert_eq!(forwards, backwards);
}

#[test]
fn operators_that_break_the_promise_are_refused_by_name() {
    for (operator, reason) in [
        ("If", "control flow"),
        ("Loop", "control flow"),
        ("Scan", "control flow"),
        ("RandomNormalLike", "random"),
        ("Bernoulli", "random"),
        ("Dropout", "training"),
        ("NonMaxSuppression", "not accepted"),
    ] {
        let message = refuse(single(operator));
        assert!(message.contains(&format!("`{operator} of features`")) && message.contains(reason), "{message}");
    }
    let mut graph = single("Relu");
    graph.0.node[0].attribute.push(AttributeProto {
        name: Some("body".to_owned()),
        g: Some(GraphProto::default()),
        r#type: Some(AttributeType::GRAPH),
        ..AttributeProto::default()
    });
    assert!(refuse(graph).contains("control flow"));
    let mut graph = single("Gelu");
    graph.0.node[0].domain = Some("com.microsoft".to_owned());
    assert!(refuse(graph).contains("standard operators"));
    assert!(refuse(single("BatchNormalization").integer("training_mode", 1)).contains("training"));
    let mut graph = single("BatchNormalization");
    graph.0.node[0].output.push("mean".to_owned());
    assert!(refuse(graph).contains("training"));
}

#[test]
fn graph_of_several_rows_or_of_another_form_is_refused() {
    let batch = TestGraph::default()
        .input("numbers", DataType::FLOAT, &[2, 2])
        .node("Relu", &["numbers"], "features")
        .output("features", &[2, 2]);
    assert!(refuse(batch).contains("`numbers` of the graph has a fixed batch of 2 rows"));
    let mut two = single("Relu").output("other", &[FREE, 2]).node("Relu", &["numbers"], "other");
    assert!(refuse(two).contains("2 outputs"));
    two = single("Relu").input("more", DataType::FLOAT, &[FREE, 2]);
    assert!(refuse(two).contains("2 inputs"));
    assert!(refuse(linear(3, 1, &[1.0; 3])).contains("`numbers` is [free, 3], and [1, 2] is expected"));
    let mut integers = single("Relu");
    integers.0.input.clear();
    assert!(refuse(integers.input("numbers", DataType::INT64, &[FREE, 2])).contains("32-bit floats"));
    // A sum over the batch is no error for a batch of 1, and its output has no place for a row.
    let flat = single("Relu").integers("shape", &[-1]).node("Reshape", &["features", "shape"], "flat");
    let mut flat = flat.output("flat", &[FREE]);
    flat.0.output.remove(0);
    assert!(refuse(flat).contains("its output is not `[1, width]`"));
}

#[test]
fn width_is_that_of_a_table() {
    let dir = TempDir::new().unwrap();
    let widest = MOST_WIDTH as i64;
    let weights = vec![1.0; 2 * (MOST_WIDTH + 1)];
    assert_eq!(open(dir.path(), linear(2, widest, &weights[2..]), &numbers(2)).unwrap().width(), MOST_WIDTH);
    assert!(refuse(linear(2, widest + 1, &weights)).contains("has 256 numbers for a row"));
}

#[test]
fn weights_in_another_file_and_damaged_files_are_refused() {
    let mut graph = linear(2, 2, &[1.0; 4]);
    graph.0.initializer[0].data_location = Some(DataLocation::EXTERNAL);
    assert!(refuse(graph).contains("tensor `weights`"));
    let dir = TempDir::new().unwrap();
    let path = linear(2, 2, &[1.0; 4]).save(dir.path());
    let whole = fs::read(&path).unwrap();
    for bytes in [&whole[..whole.len() / 2], b"", b"not a graph"] {
        fs::write(&path, bytes).unwrap();
        let error = Encoder::open(&path, &numbers(2), dir.path(), None).unwrap_err();
        assert!(matches!(error, EncoderError::Format(_) | EncoderError::Interface(_)), "{error}");
    }
    fs::File::create(&path).unwrap().set_len(crate::MOST_GRAPH_BYTES + 1).unwrap();
    let error = Encoder::open(&path, &numbers(2), dir.path(), None).unwrap_err();
    assert!(matches!(error, EncoderError::TooLarge(_)), "{error}");
}

#[test]
fn output_that_is_not_finite_refuses_the_row() {
    let dir = TempDir::new().unwrap();
    let encoder = open(dir.path(), single("Log"), &numbers(2)).unwrap();
    assert_eq!(encoder.encode(&RowInput::Numbers(&[1.0, 1.0])), Ok(vec![0.0, 0.0]));
    assert_eq!(encoder.encode(&RowInput::Numbers(&[1.0, -1.0])), Err(RowError::NotFinite));
    assert_eq!(encoder.encode(&RowInput::Numbers(&[1.0, 0.0])), Err(RowError::NotFinite));
}

#[test]
fn text_becomes_the_mean_of_its_tokens() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\nlow\n##er\nhigh\n,\n").unwrap();
    let encoder = open(dir.path(), embedding(), &spec(true, TEXT)).unwrap();
    // The tokens 2, 4, 5 and 3, and a text that is cut to five tokens.
    assert_eq!(encoder.encode(&RowInput::Text("Lower")), Ok(vec![3.5, -3.5]));
    assert_eq!(encoder.encode(&RowInput::Text("lower high high high")), Ok(vec![4.0, -4.0]));
    let other = TEXT.replace("tokens = 5", "tokens = 6");
    let other = open(dir.path(), embedding(), &spec(true, &other)).unwrap();
    assert!(other.digest() != encoder.digest() && other.graph_digest() == encoder.graph_digest());
    let mut unknown = embedding();
    unknown.0.input[1].name = Some("positions".to_owned());
    let message = open(dir.path(), unknown, &spec(true, TEXT)).unwrap_err().to_string();
    assert!(message.contains("`positions`"), "{message}");
    fs::remove_file(dir.path().join("vocab.txt")).unwrap();
    let message = open(dir.path(), embedding(), &spec(true, TEXT)).unwrap_err().to_string();
    assert!(message.contains("vocab.txt") && message.contains("--encoding"), "{message}");
}

#[test]
fn token_beyond_the_vectors_of_the_graph_refuses_the_row() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("vocab.txt"), "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n,\nc\nd\n").unwrap();
    let encoder = open(dir.path(), embedding(), &spec(true, TEXT)).unwrap();
    assert!(encoder.encode(&RowInput::Text("c")).is_ok());
    assert_eq!(encoder.encode(&RowInput::Text("d")), Err(RowError::Graph));
}

#[test]
fn sound_is_resampled_cut_and_padded() {
    let graph = |samples: i64| {
        TestGraph::default()
            .input("samples", DataType::FLOAT, &[FREE, samples])
            .integers("axis", &[1])
            .node("ReduceSum", &["samples", "axis"], "features")
            .integer("keepdims", 1)
            .output("features", &[FREE, 1])
    };
    let dir = TempDir::new().unwrap();
    let write = |name: &str, samples: usize| {
        fs::write(dir.path().join(name), undertone_worker_speech::wav::write(&vec![0.5; samples])).unwrap();
    };
    // At 16 kHz: a quarter of a second, and two seconds.
    write("short.wav", 4_000);
    write("long.wav", 32_000);
    let free = open(dir.path(), graph(FREE), &spec(false, AUDIO)).unwrap();
    let sum = |encoder: &Encoder, path: &str| encoder.encode(&RowInput::File(path)).unwrap()[0];
    assert!((sum(&free, "short.wav") - 1_000.0).abs() < 10.0, "2,000 samples at 8 kHz");
    assert!((sum(&free, "long.wav") - 2_000.0).abs() < 10.0, "cut to half a second");
    let fixed = open(dir.path(), graph(4_000), &spec(false, AUDIO)).unwrap();
    assert!((sum(&fixed, "short.wav") - sum(&free, "short.wav")).abs() < 0.01, "padded with zeros");
    let message = open(dir.path(), graph(4_001), &spec(false, AUDIO)).unwrap_err().to_string();
    assert!(message.contains("[1, 4000] is expected"), "{message}");
    fs::write(dir.path().join("text.wav"), "text").unwrap();
    assert_eq!(free.encode(&RowInput::File("text.wav")), Err(RowError::File));
    assert_eq!(free.encode(&RowInput::File("../short.wav")), Err(RowError::Path));
    let missing = Encoder::open(&graph(FREE).save(dir.path()), &spec(false, AUDIO), dir.path(), None);
    assert!(missing.unwrap_err().to_string().contains("--folder"));
}

#[test]
fn picture_reaches_the_graph_by_channels() {
    let graph = TestGraph::default()
        .input("pixels", DataType::FLOAT, &[1, 3, 2, 4])
        .node("ReduceMean", &["pixels"], "features")
        .output("features", &[1, 3]);
    let mut graph = graph.integer("keepdims", 0);
    graph.0.node[0].attribute.push(AttributeProto {
        name: Some("axes".to_owned()),
        ints: vec![2, 3],
        r#type: Some(AttributeType::INTS),
        ..AttributeProto::default()
    });
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a.png");
    image::RgbImage::from_pixel(9, 9, image::Rgb([255, 51, 0])).save(&path).unwrap();
    let encoder = open(dir.path(), graph, &spec(false, IMAGE)).unwrap();
    let numbers = encoder.encode(&RowInput::File("a.png")).unwrap();
    let expected = [1.0, 0.2, 0.0];
    assert!(numbers.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-6), "{numbers:?}");
    std::os::unix::fs::symlink("/etc/hostname", dir.path().join("b.png")).unwrap();
    assert_eq!(encoder.encode(&RowInput::File("b.png")), Err(RowError::Path));
    assert_eq!(encoder.encode(&RowInput::File("/etc/hostname")), Err(RowError::Path));
}

/// Returns the graph `scores = rows · weights` of two inputs and three outputs, with a dimension for rows in a batch.
fn stacked_rows() -> TestGraph {
    TestGraph::default()
        .input("rows", DataType::FLOAT, &[FREE, FREE, 2])
        .floats("weights", &[2, 3], &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0])
        .node("MatMul", &["rows", "weights"], "scores")
        .output("scores", &[FREE, FREE, 3])
}

/// Opens a graph that scores rows of two numbers.
fn open_rows(graph: TestGraph) -> Result<RowClassifier, EncoderError> {
    RowClassifier::open(ScoringGraph::read(&graph.into_bytes())?, 2)
}

#[test]
fn row_has_its_scores_alone_in_either_form() {
    for graph in [linear(2, 3, &[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]), stacked_rows()] {
        let classifier = open_rows(graph).unwrap();
        assert_eq!((classifier.inputs(), classifier.outputs()), (2, 3));
        assert_eq!(classifier.classify(&[0.5, 2.0]), Ok(vec![20.5, 41.0, 61.5]));
        assert_eq!(classifier.classify(&[1.0, 0.0]), Ok(vec![1.0, 2.0, 3.0]));
    }
    let logarithm = open_rows(single("Log")).unwrap();
    assert_eq!(logarithm.classify(&[1.0, 1.0]), Ok(vec![0.0, 0.0]));
    assert_eq!(logarithm.classify(&[1.0, -1.0]), Err(RowError::NotFinite));
    assert_eq!(logarithm.classify(&[1.0]), Err(RowError::Graph));
}

#[test]
fn graph_that_scores_no_rows_is_refused_with_the_reason() {
    let refuse = |graph: TestGraph| open_rows(graph).unwrap_err().to_string();
    assert!(refuse(linear(3, 2, &[1.0; 6])).contains("`numbers` has 3 numbers for a row, and the columns give 2"));
    assert!(refuse(single("Relu").input("more", DataType::FLOAT, &[FREE, 2])).contains("it has 2 inputs"));
    let mut integers = single("Relu");
    integers.0.input.clear();
    assert!(refuse(integers.input("numbers", DataType::INT64, &[FREE, 2])).contains("32-bit floats"));
    let batch = TestGraph::default()
        .input("numbers", DataType::FLOAT, &[4, 2])
        .node("Relu", &["numbers"], "features")
        .output("features", &[4, 2]);
    assert!(refuse(batch).contains("a fixed batch of 4 rows"));
    let mut flat = single("Relu").integers("shape", &[-1]).node("Reshape", &["features", "shape"], "flat");
    flat.0.output.clear();
    assert!(refuse(flat.output("flat", &[FREE])).contains("its output is not `[batch, outputs]`"));
    let mut doubled = single("Relu").node("Concat", &["features", "features"], "both").integer("axis", 0);
    doubled.0.output.clear();
    assert!(refuse(doubled.output("both", &[FREE, 2])).contains("its output has 2 rows for one"));
    let random = refuse(single("RandomNormalLike"));
    assert!(random.contains("`RandomNormalLike`") && random.contains("random"), "{random}");
}

#[test]
fn scoring_graph_states_its_metadata_and_its_form() {
    let file = linear(2, 3, &[1.0; 6]).into_bytes_with(&[("undertone.columns", "{}"), ("other", "text")]);
    let graph = ScoringGraph::read(&file).unwrap();
    assert_eq!((graph.property("undertone.columns"), graph.property("absent")), (Some("{}"), None));
    assert!(graph.has_plain_rows());
    let stacked = ScoringGraph::read(&stacked_rows().into_bytes()).unwrap();
    assert!(!stacked.has_plain_rows());
    assert_eq!(FrameClassifier::open(stacked).unwrap().classify(&[1.0, 0.0]), Ok(vec![1.0, 2.0, 3.0]));
    let large = vec![0_u8; MOST_GRAPH_BYTES as usize + 1];
    assert!(matches!(ScoringGraph::read(&large), Err(EncoderError::TooLarge(_))));
}
