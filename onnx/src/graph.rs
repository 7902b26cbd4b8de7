//! The operators of a model and its weights in their layouts.
//!
//! Between the layers the data are `[frames, batch, numbers]`, as the recurrent operators read them.

use undertone_api::job::dp_sgd::RecurrentCell;

use super::COLUMNS_PROPERTY;
use super::weights::{Matrix, ModelLayers, ModelWeights};
use super::wire::Message;

/// The version of the format of the file.
const IR_VERSION: i64 = 8;
/// The version of the operators: the first with layer norm.
const OPSET: i64 = 17;
/// The code of `f32`.
const FLOAT: i64 = 1;
/// The code of 64-bit integers.
const INT64: i64 = 7;
/// The number that layer norm adds to the variance, as in the worker.
const EPSILON: f32 = 1e-5;

/// An attribute of an operator.
enum Attribute<'a> {
    Number(&'a str, i64),
    Numbers(&'a str, Vec<i64>),
    Float(&'a str, f32),
    Text(&'a str, &'a str),
}

impl Attribute<'_> {
    fn encode(&self) -> Message {
        let named = |name: &str| Message::default().bytes(1, name.as_bytes());
        match self {
            Self::Float(name, value) => named(name).float(2, *value).number(20, 1),
            Self::Number(name, value) => named(name).number(3, *value).number(20, 2),
            Self::Text(name, value) => named(name).bytes(4, value.as_bytes()).number(20, 3),
            Self::Numbers(name, values) => {
                values.iter().fold(named(name), |message, value| message.number(8, *value)).number(20, 7)
            }
        }
    }
}

/// A graph in construction: each operator reads the output of the one before.
struct GraphBuilder {
    nodes: Vec<Message>,
    tensors: Vec<Message>,
    last: String,
}

impl GraphBuilder {
    /// Adds a tensor of floats and returns its name.
    fn tensor(&mut self, name: &str, dimensions: &[usize], values: &[f32]) -> String {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.add_tensor(name, FLOAT, dimensions, &data)
    }

    /// Adds a tensor of integers and returns its name.
    fn integers(&mut self, name: &str, values: &[i64]) -> String {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.add_tensor(name, INT64, &[values.len()], &data)
    }

    fn add_tensor(&mut self, name: &str, kind: i64, dimensions: &[usize], data: &[u8]) -> String {
        let shape = dimensions.iter().fold(Message::default(), |message, size| message.number(1, *size as i64));
        self.tensors.push(shape.number(2, kind).bytes(8, name.as_bytes()).bytes(9, data));
        name.to_owned()
    }

    /// Adds an operator that reads the last output and `others`, and writes `output`.
    fn node(&mut self, operator: &str, others: &[String], output: &str, attributes: &[Attribute<'_>]) {
        let mut node = Message::default().bytes(1, self.last.as_bytes());
        for other in others {
            node = node.bytes(1, other.as_bytes());
        }
        node = node.bytes(2, output.as_bytes()).bytes(3, output.as_bytes()).bytes(4, operator.as_bytes());
        for attribute in attributes {
            node = node.message(5, &attribute.encode());
        }
        self.nodes.push(node);
        output.clone_into(&mut self.last);
    }

    fn transpose(&mut self, output: &str, permutation: &[i64]) {
        self.node("Transpose", &[], output, &[Attribute::Numbers("perm", permutation.to_vec())]);
    }
}

/// Writes a model as a file.
pub(crate) fn write_model(model: &ModelWeights) -> Vec<u8> {
    let layers = &model.layers;
    let mut graph = GraphBuilder { nodes: Vec::new(), tensors: Vec::new(), last: "features".to_owned() };
    let mean = graph.tensor("normalizer.mean", &[layers.inputs], &model.mean);
    graph.node("Sub", &[mean], "centred", &[]);
    let deviation = graph.tensor("normalizer.deviation", &[layers.inputs], &model.deviation);
    graph.node("Div", &[deviation], "normalized", &[]);
    match &model.context {
        Some(matrix) => add_context(&mut graph, layers, matrix),
        None => graph.transpose("frames_first", &[1, 0, 2]),
    }
    for (number, directions) in model.hidden.iter().enumerate() {
        match &directions[..] {
            [matrix] if layers.dense => add_dense(&mut graph, number, matrix),
            _ => add_recurrent(&mut graph, layers, number, directions),
        }
    }
    if let Some(matrix) = &model.normalize {
        let (scales, shifts) = matrix.values.split_at(layers.width());
        let scales = graph.tensor("normalize.scale", &[layers.width()], scales);
        let shifts = graph.tensor("normalize.shift", &[layers.width()], shifts);
        let attributes = [Attribute::Number("axis", -1), Attribute::Float("epsilon", EPSILON)];
        graph.node("LayerNormalization", &[scales, shifts], "normalize", &attributes);
    }
    let (weight, bias) = model.output.values.split_at(layers.width() * layers.classes);
    let weight = graph.tensor("output.weight", &[layers.width(), layers.classes], weight);
    graph.node("MatMul", &[weight], "product", &[]);
    let bias = graph.tensor("output.bias", &[layers.classes], bias);
    graph.node("Add", &[bias], "scores", &[]);
    graph.transpose("logits", &[1, 0, 2]);

    let mut message = Message::default();
    for node in &graph.nodes {
        message = message.message(1, node);
    }
    let name: &[u8] = if layers.dense { b"row_model" } else { b"acoustic_model" };
    message = message.bytes(2, name);
    for tensor in &graph.tensors {
        message = message.message(5, tensor);
    }
    let message = message
        .message(11, &describe_value("features", layers.inputs))
        .message(12, &describe_value("logits", layers.classes));
    let file = Message::default()
        .number(1, IR_VERSION)
        .bytes(2, b"undertone")
        .message(7, &message)
        .message(8, &Message::default().number(2, OPSET))
        .message(14, &describe_entry("undertone.model", &model.about));
    match &model.columns {
        Some(columns) => file.message(14, &describe_entry(COLUMNS_PROPERTY, columns)).into_bytes(),
        None => file.into_bytes(),
    }
}

/// Describes an entry of the file's metadata.
fn describe_entry(key: &str, value: &str) -> Message {
    Message::default().bytes(1, key.as_bytes()).bytes(2, value.as_bytes())
}

/// Describes `[batch, frames, size]` floats.
fn describe_value(name: &str, size: usize) -> Message {
    let open = |name: &str| Message::default().bytes(2, name.as_bytes());
    let shape = Message::default()
        .message(1, &open("batch"))
        .message(1, &open("frames"))
        .message(1, &Message::default().number(1, size as i64));
    let tensor = Message::default().number(1, FLOAT).message(2, &shape);
    Message::default().bytes(1, name.as_bytes()).message(2, &Message::default().message(1, &tensor))
}

/// Adds the convolution over frames: zeros beyond the ends, the earliest frame first.
fn add_context(graph: &mut GraphBuilder, layers: &ModelLayers, matrix: &Matrix) {
    let (inputs, hidden) = (layers.inputs, layers.hidden);
    let width = (matrix.dimensions[0] - 1) / inputs;
    let mut weight = Vec::with_capacity(hidden * inputs * width);
    for output in 0..hidden {
        for input in 0..inputs {
            weight.extend((0..width).map(|frame| matrix.at(frame * inputs + input, output)));
        }
    }
    let bias: Vec<f32> = (0..hidden).map(|output| matrix.at(width * inputs, output)).collect();
    graph.transpose("channels_first", &[0, 2, 1]);
    let weight = graph.tensor("context.weight", &[hidden, inputs, width], &weight);
    let bias = graph.tensor("context.bias", &[hidden], &bias);
    let half = (width / 2) as i64;
    let attributes =
        [Attribute::Numbers("kernel_shape", vec![width as i64]), Attribute::Numbers("pads", vec![half, half])];
    graph.node("Conv", &[weight, bias], "context", &attributes);
    graph.transpose("frames_first", &[2, 0, 1]);
}

/// Adds a dense layer of a model of rows: a linear map, then tanh.
fn add_dense(graph: &mut GraphBuilder, number: usize, matrix: &Matrix) {
    let [rows, hidden] = matrix.dimensions;
    let (weight, bias) = matrix.values.split_at((rows - 1) * hidden);
    let name = format!("layer{}", number + 1);
    let weight = graph.tensor(&format!("{name}.weight"), &[rows - 1, hidden], weight);
    graph.node("MatMul", &[weight], &format!("{name}.product"), &[]);
    let bias = graph.tensor(&format!("{name}.bias"), &[hidden], bias);
    graph.node("Add", &[bias], &format!("{name}.sum"), &[]);
    graph.node("Tanh", &[], &name, &[]);
}

/// Adds a recurrent layer. Its operator gives `[frames, directions, batch, hidden]`.
fn add_recurrent(graph: &mut GraphBuilder, layers: &ModelLayers, number: usize, directions: &[Matrix]) {
    let (fed, hidden, count) = (layers.fed(number), layers.hidden, directions.len());
    // The columns in the order of ONNX: input, output, forget, cell; or update, reset, hidden.
    let (operator, order): (_, &[usize]) = match layers.cell {
        RecurrentCell::Lstm => ("LSTM", &[0, 3, 1, 2]),
        RecurrentCell::Gru => ("GRU", &[1, 0, 2]),
    };
    let (mut input, mut recurrent, mut bias) = (Vec::new(), Vec::new(), Vec::new());
    for matrix in directions {
        let columns = || order.iter().flat_map(|gate| gate * hidden..(gate + 1) * hidden);
        for column in columns() {
            input.extend((0..fed).map(|row| matrix.at(row, column)));
            recurrent.extend((0..hidden).map(|row| matrix.at(fed + 1 + row, column)));
        }
        bias.extend(columns().map(|column| matrix.at(fed, column)));
        // The recurrent product has no bias of its own.
        bias.extend(std::iter::repeat_n(0.0, order.len() * hidden));
    }
    let (name, gates) = (format!("layer{}", number + 1), order.len() * hidden);
    let weights = [
        graph.tensor(&format!("{name}.input"), &[count, gates, fed], &input),
        graph.tensor(&format!("{name}.recurrent"), &[count, gates, hidden], &recurrent),
        graph.tensor(&format!("{name}.bias"), &[count, 2 * gates], &bias),
    ];
    let direction = if count == 2 { "bidirectional" } else { "forward" };
    let mut attributes = vec![Attribute::Text("direction", direction), Attribute::Number("hidden_size", hidden as i64)];
    if layers.cell == RecurrentCell::Gru {
        // The reset gate follows the product.
        attributes.push(Attribute::Number("linear_before_reset", 1));
    }
    graph.node(operator, &weights, &format!("{name}.states"), &attributes);
    graph.transpose(&format!("{name}.by_batch"), &[0, 2, 1, 3]);
    // 0 keeps a dimension.
    let shape = graph.integers(&format!("{name}.shape"), &[0, 0, layers.width() as i64]);
    graph.node("Reshape", &[shape], &name, &[]);
}
