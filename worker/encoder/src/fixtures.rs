//! Small graphs for tests, written with the types that read them.

use std::path::{Path, PathBuf};

use rten_onnx::onnx::{
    AttributeProto, AttributeType, DataType, Dimension, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TypeProto, TypeProtoTensor, ValueInfoProto,
};

/// A dimension that is free.
pub const FREE: i64 = 0;

/// A graph in construction.
#[derive(Debug, Default)]
#[must_use]
pub struct TestGraph(pub GraphProto);

impl TestGraph {
    /// Adds an input of these dimensions.
    pub fn input(mut self, name: &str, element: DataType, sizes: &[i64]) -> Self {
        self.0.input.push(describe(name, element, sizes));
        self
    }

    /// Adds an output of these dimensions.
    pub fn output(mut self, name: &str, sizes: &[i64]) -> Self {
        self.0.output.push(describe(name, DataType::FLOAT, sizes));
        self
    }

    /// Adds a tensor of floats.
    pub fn floats(mut self, name: &str, sizes: &[i64], values: &[f32]) -> Self {
        self.0.initializer.push(TensorProto {
            dims: sizes.to_vec(),
            data_type: Some(DataType::FLOAT),
            float_data: values.to_vec(),
            name: Some(name.to_owned()),
            ..TensorProto::default()
        });
        self
    }

    /// Adds a tensor of integers.
    pub fn integers(mut self, name: &str, values: &[i64]) -> Self {
        self.0.initializer.push(TensorProto {
            dims: vec![values.len() as i64],
            data_type: Some(DataType::INT64),
            int64_data: values.to_vec(),
            name: Some(name.to_owned()),
            ..TensorProto::default()
        });
        self
    }

    /// Adds a node.
    pub fn node(mut self, operator: &str, inputs: &[&str], output: &str) -> Self {
        self.0.node.push(NodeProto {
            op_type: Some(operator.to_owned()),
            name: Some(format!("{operator} of {output}")),
            input: inputs.iter().map(|&input| input.to_owned()).collect(),
            output: vec![output.to_owned()],
            ..NodeProto::default()
        });
        self
    }

    /// Adds an attribute with an integer to the last node.
    ///
    /// # Panics
    /// If there is no node.
    pub fn integer(mut self, name: &str, value: i64) -> Self {
        let attribute = AttributeProto {
            name: Some(name.to_owned()),
            i: Some(value),
            r#type: Some(AttributeType::INT),
            ..AttributeProto::default()
        };
        self.0.node.last_mut().expect("a node").attribute.push(attribute);
        self
    }

    /// Appends a softmax over the last axis to the output.
    ///
    /// # Panics
    /// If there is no output.
    pub fn softmax(mut self) -> Self {
        let name = self.0.output[0].name.replace("normalized".to_owned()).expect("a name");
        self.node("Softmax", &[&name], "normalized").integer("axis", -1)
    }

    /// Returns the file of the graph.
    ///
    /// # Panics
    /// If a field of the graph cannot be written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.into_bytes_with(&[])
    }

    /// Returns the file of the graph with entries of metadata.
    ///
    /// # Panics
    /// If a field of the graph cannot be written.
    pub fn into_bytes_with(self, properties: &[(&str, &str)]) -> Vec<u8> {
        let standard = OperatorSetIdProto { domain: Some(String::new()), version: Some(17) };
        let entry = |(key, value): &(&str, &str)| StringStringEntryProto {
            key: Some((*key).to_owned()),
            value: Some((*value).to_owned()),
        };
        let model = ModelProto {
            ir_version: Some(8),
            graph: Some(self.0),
            opset_import: vec![standard],
            metadata_props: properties.iter().map(entry).collect(),
            ..ModelProto::default()
        };
        model.write_buf().expect("memory accepts every byte")
    }

    /// Writes the file of the graph.
    ///
    /// # Panics
    /// If the folder cannot be written.
    pub fn save(self, folder: &Path) -> PathBuf {
        let path = folder.join("encoder.onnx");
        std::fs::write(&path, self.into_bytes()).expect("a folder of the test");
        path
    }
}

/// Returns the graph `features = numbers · weights`, `[1, inputs]` to `[1, outputs]`.
pub fn linear(inputs: i64, outputs: i64, weights: &[f32]) -> TestGraph {
    TestGraph::default()
        .input("numbers", DataType::FLOAT, &[FREE, inputs])
        .floats("weights", &[inputs, outputs], weights)
        .node("MatMul", &["numbers", "weights"], "features")
        .output("features", &[FREE, outputs])
}

/// Returns a graph of texts: the vectors of the tokens 0 to 7, `[token, -token]`, times the mask.
pub fn embedding() -> TestGraph {
    let vectors: Vec<f32> = (0_u8..8).flat_map(|token| [f32::from(token), -f32::from(token)]).collect();
    TestGraph::default()
        .input("input_ids", DataType::INT64, &[FREE, FREE])
        .input("attention_mask", DataType::INT64, &[FREE, FREE])
        .floats("vectors", &[8, 2], &vectors)
        .integers("last", &[-1])
        .node("Gather", &["vectors", "input_ids"], "tokens")
        .node("Cast", &["attention_mask"], "mask")
        .integer("to", 1)
        .node("Unsqueeze", &["mask", "last"], "weights")
        .node("Mul", &["tokens", "weights"], "features")
        .output("features", &[FREE, FREE, 2])
}

fn describe(name: &str, element: DataType, sizes: &[i64]) -> ValueInfoProto {
    let describe_size = |size: &i64| match *size {
        FREE => Dimension { dim_param: Some("free".to_owned()), ..Dimension::default() },
        size => Dimension { dim_value: Some(size), ..Dimension::default() },
    };
    let shape = TensorShapeProto { dim: sizes.iter().map(describe_size).collect() };
    let tensor = TypeProtoTensor { elem_type: Some(element), shape: Some(shape) };
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto { tensor_type: Some(tensor), ..TypeProto::default() }),
    }
}
