#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;

use safetensors::tensor::{Dtype, TensorView};
use sha2::{Digest as _, Sha256};

use super::{COLUMNS_PROPERTY, OnnxError, convert, read_dimensions};

/// Returns the file of a model of 3 inputs, 2 hidden units and 4 classes with deterministic weights.
fn model_file(cell: &str, is_rich: bool, format: &str, wrong: Option<&str>) -> Vec<u8> {
    let gates = if cell == "gru" { 3 } else { 4 };
    let (width, fed) = if is_rich { (4, 2) } else { (2, 3) };
    let mut shapes: Vec<(String, Vec<usize>)> = Vec::new();
    if is_rich {
        shapes.push(("context.weight".to_owned(), vec![3 * 3 + 1, 2]));
        shapes.extend(["forward", "backward"].map(|side| (format!("layer1.{side}.weight"), vec![fed + 3, gates * 2])));
        shapes.push(("normalize.weight".to_owned(), vec![2, width]));
    } else {
        shapes.push(("layer1.weight".to_owned(), vec![fed + 3, gates * 2]));
    }
    shapes.push(("output.weight".to_owned(), vec![width + 1, 4]));
    shapes.push(("normalizer.mean".to_owned(), vec![3]));
    shapes.push(("normalizer.deviation".to_owned(), vec![3]));
    if let Some((_, shape)) = shapes.iter_mut().find(|(name, _)| Some(name.as_str()) == wrong) {
        shape.reverse();
    }
    let mut next = 0_u32;
    let parts: Vec<_> = shapes
        .into_iter()
        .map(|(name, shape)| {
            let is_positive = name == "normalizer.deviation";
            let values = (0..shape.iter().product::<usize>()).flat_map(|_| {
                next = (next * 37 + 11) % 101;
                let value = next as f32 / 101.0;
                if is_positive { value + 0.5 } else { value - 0.5 }.to_le_bytes()
            });
            (name, shape, values.collect::<Vec<u8>>())
        })
        .collect();
    let views = parts
        .iter()
        .map(|(name, shape, data)| (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), data).unwrap()));
    let context = if is_rich { "3" } else { "null" };
    let about = format!(
        r#"{{"format":"{format}","inputs":3,"hidden":2,"classes":4,"cell":"{cell}","layers":1,"bidirectional":{is_rich},"context":{context},"normalize":{is_rich},"loss":"ctc"}}"#
    );
    safetensors::serialize(views, Some(HashMap::from([("model".to_owned(), about)]))).unwrap()
}

const FORMAT: &str = "undertone-senone/2";

/// The bytes of the converter whose scores `benches/peers/export.py` compared: run it again before you change them.
#[test]
fn converter_writes_the_compared_bytes() {
    let digest = |cell, is_rich| {
        let file = model_file(cell, is_rich, FORMAT, None);
        let graph = convert(&file).unwrap();
        assert_eq!(graph, convert(&file).unwrap());
        assert!(matches!(&graph[..], [0x08, 8, 0x12, ..]), "as the worker recognizes a graph");
        hex::encode(&Sha256::digest(graph)[..8])
    };
    let digests = [digest("lstm", false), digest("gru", true), digest("lstm", true)];
    assert_eq!(digests, ["25e02067a05161c0", "abc2d7638879330b", "89a48d83c457654f"]);
    assert_eq!(read_dimensions(&model_file("gru", true, FORMAT, None)).unwrap(), (3, 4));
}

/// Returns the file of a model of rows of 3 inputs and 2 outputs, with dense layers of 2 units and `more` metadata.
fn row_model(layers: usize, more: &str) -> Vec<u8> {
    let mut shapes: Vec<(String, Vec<usize>)> = Vec::new();
    let mut width = 3;
    for layer in 1..=layers {
        shapes.push((format!("layer{layer}.weight"), vec![width + 1, 2]));
        width = 2;
    }
    shapes.push(("output.weight".to_owned(), vec![width + 1, 2]));
    let mut parts: Vec<_> = shapes
        .into_iter()
        .map(|(name, shape)| {
            let count: usize = shape.iter().product();
            (name, shape, (0..count).flat_map(|n| (n as f32 * 0.25 - 0.5).to_le_bytes()).collect::<Vec<u8>>())
        })
        .collect();
    for (name, value) in [("normalizer.mean", 0.0_f32), ("normalizer.deviation", 1.0)] {
        parts.push((name.to_owned(), vec![3], [value; 3].into_iter().flat_map(f32::to_le_bytes).collect()));
    }
    let views = parts
        .iter()
        .map(|(name, shape, data)| (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), data).unwrap()));
    let hidden = if layers == 0 { 0 } else { 2 };
    let about = format!(
        r#"{{"format":"{FORMAT}","inputs":3,"hidden":{hidden},"classes":2,"cell":"lstm","layers":{layers},"bidirectional":false,"context":null,"normalize":false,"dense":true,"loss":"cross_entropy"{more}}}"#
    );
    safetensors::serialize(views, Some(HashMap::from([("model".to_owned(), about)]))).unwrap()
}

#[test]
fn model_of_rows_has_a_tanh_for_each_dense_layer() {
    for layers in [0, 1, 3] {
        let graph = convert(&row_model(layers, "")).unwrap();
        let count = |operator: &[u8]| graph.windows(operator.len()).filter(|window| *window == operator).count();
        // An operator is a field of 4, its type, in a node.
        assert_eq!((count(b"\x22\x04Tanh"), count(b"\x22\x06MatMul")), (layers, layers + 1));
        assert_eq!(count(b"\x22\x04LSTM"), 0);
        assert_eq!(read_dimensions(&row_model(layers, "")).unwrap(), (3, 2));
    }
}

#[test]
fn graph_of_rows_names_its_columns() {
    let columns = r#"{"target":{"name":"returns","kind":"boolean"},"features":[{"name":"ward","kind":"category","values":["a","b","c"]}],"rows_per_unit":4}"#;
    let graph = convert(&row_model(1, &format!(r#","rows":{columns}"#))).unwrap();
    // A text is a field of its length and its bytes: the key is field 1 of an entry, the value field 2.
    let key = COLUMNS_PROPERTY.as_bytes();
    let length = [columns.len() as u8 | 0x80, (columns.len() >> 7) as u8];
    let entry = [&[0x0a, key.len() as u8][..], key, &[0x12], &length, columns.as_bytes()].concat();
    assert!(graph.ends_with(&entry), "the entry is the last one of the file");
    let contains = |graph: &[u8]| graph.windows(key.len()).any(|window| window == key);
    assert!(
        !contains(&convert(&row_model(1, "")).unwrap())
            && !contains(&convert(&model_file("gru", true, FORMAT, None)).unwrap())
    );
    let damaged = convert(&row_model(1, r#","rows":{"target":7}"#)).unwrap_err().to_string();
    assert!(damaged.contains("its metadata"), "{damaged}");
}

#[test]
fn unusable_file_names_its_defect() {
    let text = |file: &[u8]| convert(file).unwrap_err().to_string();
    assert!(text(b"no model").contains("safetensors"));
    assert!(text(&model_file("lstm", false, "other/1", None)).contains("no dimensions"));
    assert!(text(&model_file("lstm", true, FORMAT, Some("context.weight"))).contains("`context.weight` has other"));
    let texts = row_model(0, r#","text":{"texts":1,"grams":2,"buckets":8,"width":4}"#);
    assert!(text(&texts).contains("undertone-worker predict"));
    let personal = model_file("lstm", false, undertone_api::model::PERSONAL_FORMAT, None);
    assert!(matches!(convert(&personal), Err(OnnxError::Personal)));
}
