//! Reads an ONNX file and checks that it maps each row alone: accepted operators, weights in the file, rows apart.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rten_onnx::onnx::{AttributeProto, DataLocation, DataType, ModelProto, NodeProto, TensorProto, ValueInfoProto};
use undertone_worker_site::panics::catch_panic;

use crate::error::EncoderError;
use crate::operators::{DOMAIN, OPERATORS, TRAINING, explain_refusal};

/// The largest file of a graph: 1 GiB.
pub const MOST_GRAPH_BYTES: u64 = 1 << 30;

/// An input or output of a graph.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GraphValue {
    /// The name.
    pub(crate) name: String,
    /// The type of its elements.
    pub(crate) element: Option<DataType>,
    /// Its dimensions, `None` for a free one; absent if the graph does not declare them.
    pub(crate) dimensions: Option<Vec<Option<i64>>>,
}

/// The interface of a checked graph.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GraphInterface {
    /// The inputs, without those that have a value in the file.
    pub(crate) inputs: Vec<GraphValue>,
    /// The only output.
    pub(crate) output: GraphValue,
    /// The entries of the file's metadata.
    pub(crate) properties: BTreeMap<String, String>,
}

/// Reads the file of a graph, at most [`MOST_GRAPH_BYTES`].
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, EncoderError> {
    read_limited(path, MOST_GRAPH_BYTES, "--model")?.map_err(EncoderError::TooLarge)
}

/// Reads a file of at most `most` bytes; the inner error is the size of a larger one.
pub(crate) fn read_limited(
    path: &Path,
    most: u64,
    argument: &'static str,
) -> Result<Result<Vec<u8>, u64>, EncoderError> {
    let failed = |source| EncoderError::File { argument, path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    if size > most {
        return Ok(Err(size));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    let length = bytes.len() as u64;
    Ok(if length > most { Err(length) } else { Ok(bytes) })
}

/// Checks a graph and returns its interface.
///
/// # Errors
/// [`EncoderError`] with the node, tensor, input or output that is refused.
pub(crate) fn check_graph(bytes: &[u8]) -> Result<GraphInterface, EncoderError> {
    let format = |reason: &str| EncoderError::Format(reason.to_owned());
    let model = catch_panic(|| ModelProto::parse_buf(bytes)).ok_or_else(|| format("it is damaged"))?;
    let model = model.map_err(|error| format(&error.to_string()))?;
    let entries = model.metadata_props.into_iter();
    let properties = entries.filter_map(|entry| Some((entry.key?, entry.value.unwrap_or_default()))).collect();
    let graph = model.graph.ok_or_else(|| format("it has no graph"))?;
    for (number, node) in graph.node.iter().enumerate() {
        check_node(number, node)?;
    }
    let tensors = graph.node.iter().flat_map(|node| &node.attribute).filter_map(|attribute| attribute.t.as_ref());
    for tensor in graph.initializer.iter().chain(tensors) {
        check_tensor(tensor)?;
    }
    let weights: HashSet<&str> = graph.initializer.iter().filter_map(|tensor| tensor.name.as_deref()).collect();
    let is_free = |value: &&ValueInfoProto| !value.name.as_deref().is_some_and(|name| weights.contains(name));
    let inputs: Vec<GraphValue> = graph.input.iter().filter(is_free).map(read_value).collect();
    let [output] = graph.output.as_slice() else {
        let outputs = graph.output.len();
        return Err(EncoderError::Interface(format!("it has {outputs} outputs, and one is read: export it with one")));
    };
    let output = read_value(output);
    if output.element.is_some_and(|element| element != DataType::FLOAT) {
        return Err(EncoderError::Interface(format!("its output `{}` is not of 32-bit floats", output.name)));
    }
    for value in inputs.iter().chain([&output]) {
        let batch = value.dimensions.as_ref().and_then(|dimensions| dimensions.first()).copied().flatten();
        if let Some(rows) = batch.filter(|rows| *rows != 1) {
            return Err(EncoderError::Batch { name: value.name.clone(), rows });
        }
    }
    Ok(GraphInterface { inputs, output, properties })
}

fn check_node(number: usize, node: &NodeProto) -> Result<(), EncoderError> {
    let operator = node.op_type.clone().unwrap_or_default();
    let name = node.name.clone().filter(|name| !name.is_empty());
    let refuse = |reason| {
        let node = name.clone().unwrap_or_else(|| format!("number {number}"));
        Err(EncoderError::Operator { node, operator: operator.clone(), reason })
    };
    if !matches!(node.domain.as_deref(), None | Some("" | "ai.onnx")) {
        return refuse(DOMAIN);
    }
    if !OPERATORS.contains(&operator.as_str()) {
        return refuse(explain_refusal(&operator));
    }
    if node.attribute.iter().any(|attribute| attribute.g.is_some()) {
        return refuse(explain_refusal("If"));
    }
    let is_training = |attribute: &AttributeProto| {
        attribute.name.as_deref() == Some("training_mode") && attribute.i.is_some_and(|mode| mode != 0)
    };
    // Before opset 14 the other outputs of a normalization state its mode.
    let has_statistics = operator == "BatchNormalization" && node.output.iter().skip(1).any(|name| !name.is_empty());
    if has_statistics || node.attribute.iter().any(is_training) {
        return refuse(TRAINING);
    }
    Ok(())
}

fn check_tensor(tensor: &TensorProto) -> Result<(), EncoderError> {
    if tensor.data_location == Some(DataLocation::EXTERNAL) || !tensor.external_data.is_empty() {
        return Err(EncoderError::ExternalData(tensor.name.clone().unwrap_or_default()));
    }
    Ok(())
}

fn read_value(value: &ValueInfoProto) -> GraphValue {
    let tensor = value.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
    let shape = tensor.and_then(|tensor| tensor.shape.as_ref());
    GraphValue {
        name: value.name.clone().unwrap_or_default(),
        element: tensor.and_then(|tensor| tensor.elem_type),
        dimensions: shape
            .map(|shape| shape.dim.iter().map(|dimension| dimension.dim_value.filter(|size| *size > 0)).collect()),
    }
}
