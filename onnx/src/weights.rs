//! The layers and the matrices of a model's safetensors file.

use safetensors::SafeTensors;
use safetensors::tensor::Dtype;
use serde::Deserialize;
use serde::de::IgnoredAny;
use undertone_api::job::dp_sgd::{RecurrentCell, RowColumns};
use undertone_api::model::PERSONAL_FORMAT;

use super::OnnxError;

/// The metadata entry with the layers.
const ABOUT: &str = "model";
/// The format that the entry names.
const FORMAT: &str = "undertone-senone/2";

/// The layers, as the metadata of the file state them.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ModelLayers {
    format: String,
    /// Coefficients per frame.
    pub(crate) inputs: usize,
    /// Hidden units of each direction.
    pub(crate) hidden: usize,
    /// Classes.
    pub(crate) classes: usize,
    /// The recurrent cell.
    pub(crate) cell: RecurrentCell,
    /// Recurrent layers.
    pub(crate) layers: usize,
    /// Whether each layer also reads backwards.
    pub(crate) bidirectional: bool,
    /// The frames of the convolution.
    pub(crate) context: Option<usize>,
    /// Whether a layer norm precedes the output layer.
    pub(crate) normalize: bool,
    /// Whether it is a model of rows, with dense layers.
    #[serde(default)]
    pub(crate) dense: bool,
    /// The texts of a model of rows, which no graph has.
    #[serde(default)]
    text: Option<IgnoredAny>,
    /// The columns of a model of rows.
    #[serde(default)]
    rows: Option<Box<RowColumns>>,
}

/// A matrix, row-major.
#[derive(Debug, Clone)]
pub(crate) struct Matrix {
    /// `[rows, columns]`.
    pub(crate) dimensions: [usize; 2],
    /// The values.
    pub(crate) values: Vec<f32>,
}

impl Matrix {
    /// Returns the value in a row and a column.
    pub(crate) fn at(&self, row: usize, column: usize) -> f32 {
        self.values[row * self.dimensions[1] + column]
    }
}

/// A model.
#[derive(Debug, Clone)]
pub(crate) struct ModelWeights {
    pub(crate) layers: ModelLayers,
    /// The metadata entry, word for word.
    pub(crate) about: String,
    /// The columns of a model of rows as JSON, if the entry has them.
    pub(crate) columns: Option<String>,
    /// `[inputs]`.
    pub(crate) mean: Vec<f32>,
    /// `[inputs]`, positive.
    pub(crate) deviation: Vec<f32>,
    /// `[frames · inputs + 1, hidden]`.
    pub(crate) context: Option<Matrix>,
    /// The matrices of each layer, by direction: `[fed + 1 + hidden, gates · hidden]`, or `[fed + 1, hidden]` of a dense one.
    pub(crate) hidden: Vec<Vec<Matrix>>,
    /// `[2, width]`.
    pub(crate) normalize: Option<Matrix>,
    /// `[width + 1, classes]`.
    pub(crate) output: Matrix,
}

impl ModelLayers {
    /// Returns the number of directions.
    pub(crate) const fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// Returns the number of inputs of the output layer.
    pub(crate) const fn width(&self) -> usize {
        if self.dense && self.layers == 0 {
            return self.inputs;
        }
        self.directions() * self.hidden
    }

    /// Returns the number of gates.
    pub(crate) const fn gates(&self) -> usize {
        match self.cell {
            RecurrentCell::Lstm => 4,
            RecurrentCell::Gru => 3,
        }
    }

    /// Returns the number of inputs of a hidden layer, counted from 0.
    pub(crate) const fn fed(&self, layer: usize) -> usize {
        match (layer, self.context) {
            (0, None) => self.inputs,
            (0, Some(_)) => self.hidden,
            _ => self.width(),
        }
    }

    /// Checks the limits of jobs, so that no computation overflows.
    fn check(self) -> Result<Self, OnnxError> {
        let is_linear = self.dense && self.layers == 0 && self.hidden == 0 && !self.normalize;
        let has_layers = (1..=2048).contains(&self.hidden) && (1..=4).contains(&self.layers);
        let is_within = self.format == FORMAT
            && (1..=1 << 16).contains(&self.inputs)
            && (1..=65_536).contains(&self.classes)
            && (has_layers || is_linear)
            && !(self.dense && (self.bidirectional || self.context.is_some()))
            && self.context.is_none_or(|frames| frames % 2 == 1 && (3..=31).contains(&frames));
        if is_within {
            Ok(self)
        } else {
            Err(OnnxError::Metadata("its metadata state no dimensions of a model".to_owned()))
        }
    }
}

impl ModelWeights {
    /// Reads a file.
    ///
    /// # Errors
    /// [`OnnxError`] with the defect.
    pub(crate) fn read(file: &[u8]) -> Result<Self, OnnxError> {
        let (_, header) = SafeTensors::read_metadata(file)?;
        let about = header.metadata().as_ref().and_then(|about| about.get(ABOUT)).cloned();
        let missing = || {
            let text = "its metadata state no layers, as in files of an earlier format: continue the model in a job without rounds";
            OnnxError::Metadata(text.to_owned())
        };
        let about = about.ok_or_else(missing)?;
        let unreadable = |error: serde_json::Error| OnnxError::Metadata(format!("its metadata: {error}"));
        let layers: ModelLayers = serde_json::from_str(&about).map_err(unreadable)?;
        if layers.format == PERSONAL_FORMAT {
            return Err(OnnxError::Personal);
        }
        if layers.text.is_some() {
            return Err(OnnxError::Texts);
        }
        let layers = layers.check()?;
        let rows = layers.rows.as_deref().filter(|_| layers.dense);
        let columns = rows.map(serde_json::to_string).transpose().map_err(unreadable)?;
        let tensors = SafeTensors::deserialize(file)?;
        let matrix = |name: &str, dimensions: [usize; 2]| {
            Ok::<_, OnnxError>(Matrix { dimensions, values: read_tensor(&tensors, name, &dimensions)? })
        };
        let context =
            layers.context.map(|frames| matrix("context.weight", [frames * layers.inputs + 1, layers.hidden]));
        let mut hidden = Vec::new();
        for layer in 0..layers.layers {
            let dimensions = if layers.dense {
                [layers.fed(layer) + 1, layers.hidden]
            } else {
                [layers.fed(layer) + 1 + layers.hidden, layers.gates() * layers.hidden]
            };
            let directions: &[&str] = if layers.bidirectional { &[".forward", ".backward"] } else { &[""] };
            let names = directions.iter().map(|direction| format!("layer{}{direction}.weight", layer + 1));
            hidden.push(names.map(|name| matrix(&name, dimensions)).collect::<Result<_, _>>()?);
        }
        let deviation = read_tensor(&tensors, "normalizer.deviation", &[layers.inputs])?;
        if deviation.iter().any(|deviation| *deviation <= 0.0) {
            return Err(wrong("normalizer.deviation", "has a number that is not positive"));
        }
        Ok(Self {
            mean: read_tensor(&tensors, "normalizer.mean", &[layers.inputs])?,
            deviation,
            context: context.transpose()?,
            hidden,
            normalize: layers.normalize.then(|| matrix("normalize.weight", [2, layers.width()])).transpose()?,
            output: matrix("output.weight", [layers.width() + 1, layers.classes])?,
            layers,
            about,
            columns,
        })
    }
}

fn wrong(name: &str, problem: &'static str) -> OnnxError {
    OnnxError::Tensor { name: name.to_owned(), problem }
}

fn read_tensor(file: &SafeTensors<'_>, name: &str, dimensions: &[usize]) -> Result<Vec<f32>, OnnxError> {
    let tensor = file.tensor(name)?;
    if tensor.dtype() != Dtype::F32 {
        return Err(wrong(name, "is not of type F32"));
    }
    if tensor.shape() != dimensions {
        return Err(wrong(name, "has other dimensions than the metadata state"));
    }
    let (values, _) = tensor.data().as_chunks::<4>();
    let values: Vec<f32> = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    if values.iter().all(|value| value.is_finite()) {
        Ok(values)
    } else {
        Err(wrong(name, "has a number that is not finite"))
    }
}
