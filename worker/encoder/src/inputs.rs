//! Prepares the inputs of the graph from the input of a row.

use std::path::Path;

use rten_onnx::onnx::DataType;

use crate::error::{EncoderError, RowError};
use crate::folder::InputFolder;
use crate::graph::{GraphInterface, GraphValue};
use crate::model::RowTensor;
use crate::picture::{PictureScale, read_picture};
use crate::sound::read_sound;
use crate::specification::InputSpec;
use crate::tokens::WordPieces;

/// The names of the inputs of a graph of texts, as the exporters of transformers write them.
const IDS: &str = "input_ids";
const MASK: &str = "attention_mask";
const TYPES: &str = "token_type_ids";

/// The input of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowInput<'a> {
    /// The numbers of the columns, in their order.
    Numbers(&'a [f32]),
    /// A text.
    Text(&'a str),
    /// The path of a file, relative to the folder of the inputs.
    File(&'a str),
}

/// Turns the input of a row into tensors.
#[derive(Debug)]
pub(crate) enum InputReader {
    /// The number of numbers.
    Numbers(usize),
    /// Tokens, one tensor for each name of the graph's inputs.
    Text { pieces: WordPieces, most: usize, names: Vec<String> },
    /// Samples.
    Audio { folder: InputFolder, rate: u32, most: usize, is_padded: bool },
    /// Pixels.
    Image { folder: InputFolder, scale: PictureScale },
}

impl InputReader {
    /// Returns the reader of an input, with the bytes of its vocabulary if it has one.
    ///
    /// # Errors
    /// [`EncoderError`] if the graph does not suit the input, or a file of the input is missing.
    pub(crate) fn open(
        spec: &InputSpec,
        interface: &GraphInterface,
        files: &Path,
        folder: Option<&Path>,
    ) -> Result<(Self, Vec<u8>), EncoderError> {
        let open_folder = || {
            let missing = || EncoderError::Specification {
                field: "input.column",
                problem: "paths of files are relative to a folder: name it with --folder".to_owned(),
            };
            InputFolder::open(folder.ok_or_else(missing)?)
        };
        Ok(match spec {
            InputSpec::Numbers { columns } => {
                check_shape(find_only(interface)?, &[Some(1), Some(columns.len())])?;
                (Self::Numbers(columns.len()), Vec::new())
            }
            InputSpec::Text { vocabulary, lower_case, tokens, .. } => {
                let names = check_text(interface)?;
                let (pieces, bytes) = WordPieces::read(&files.join(vocabulary), *lower_case)?;
                (Self::Text { pieces, most: *tokens as usize, names }, bytes)
            }
            InputSpec::Audio { rate, .. } => {
                let input = find_only(interface)?;
                let most = spec.most_samples();
                check_shape(input, &[Some(1), Some(most)])?;
                let is_padded =
                    input.dimensions.as_ref().is_some_and(|sizes| sizes.get(1).is_some_and(Option::is_some));
                (Self::Audio { folder: open_folder()?, rate: *rate, most, is_padded }, Vec::new())
            }
            InputSpec::Image { width, height, mean, deviation, .. } => {
                let sizes = [Some(1), Some(3), Some(*height as usize), Some(*width as usize)];
                check_shape(find_only(interface)?, &sizes)?;
                let scale = PictureScale { width: *width, height: *height, mean: *mean, deviation: *deviation };
                (Self::Image { folder: open_folder()?, scale }, Vec::new())
            }
        })
    }

    /// Returns the tensors of a row, in the order of the graph's inputs.
    ///
    /// # Errors
    /// [`RowError`] if the row has no such input, or its file cannot be used.
    pub(crate) fn read(&self, input: &RowInput) -> Result<Vec<RowTensor>, RowError> {
        match (self, input) {
            (Self::Numbers(count), RowInput::Numbers(numbers)) if numbers.len() == *count => {
                Ok(vec![RowTensor::Real(vec![1, *count], numbers.to_vec())])
            }
            (Self::Text { .. }, RowInput::Text(text)) => Ok(self.write_tokens(text)),
            (Self::Audio { folder, rate, most, is_padded }, RowInput::File(path)) => {
                let samples = read_sound(&folder.find(path)?, *rate, *most)?;
                Ok(vec![write_samples(samples, *most, *is_padded)])
            }
            (Self::Image { folder, scale }, RowInput::File(path)) => {
                Ok(vec![write_pixels(scale, read_picture(&folder.find(path)?, scale)?)])
            }
            _ => Err(RowError::Kind),
        }
    }

    /// Returns the inputs of two examples, the same for a given specification.
    pub(crate) fn create_examples(&self) -> [Vec<RowTensor>; 2] {
        let wave = |count: usize| (0..count).map(|number| (number as f32 * 0.37).sin() * 0.5).collect::<Vec<f32>>();
        match self {
            Self::Numbers(count) => {
                [vec![0.5; *count], wave(*count)].map(|numbers| vec![RowTensor::Real(vec![1, *count], numbers)])
            }
            Self::Text { .. } => ["a", "a b, c"].map(|text| self.write_tokens(text)),
            Self::Audio { rate, most, is_padded, .. } => {
                // A second is enough for a graph of any length.
                let count = if *is_padded { *most } else { (*rate as usize).min(*most) };
                [vec![0.125; count], wave(count)].map(|samples| vec![write_samples(samples, *most, *is_padded)])
            }
            Self::Image { scale, .. } => {
                let count = 3 * scale.height as usize * scale.width as usize;
                [vec![0.5; count], wave(count)].map(|pixels| vec![write_pixels(scale, pixels)])
            }
        }
    }

    fn write_tokens(&self, text: &str) -> Vec<RowTensor> {
        let Self::Text { pieces, most, names } = self else { return Vec::new() };
        let tokens = pieces.encode(text, *most);
        let write = |name: &String| match name.as_str() {
            MASK => vec![1; tokens.len()],
            TYPES => vec![0; tokens.len()],
            _ => tokens.clone(),
        };
        names.iter().map(|name| RowTensor::Integer(write(name))).collect()
    }
}

fn write_samples(mut samples: Vec<f32>, most: usize, is_padded: bool) -> RowTensor {
    if is_padded {
        samples.resize(most, 0.0);
    }
    RowTensor::Real(vec![1, samples.len()], samples)
}

fn write_pixels(scale: &PictureScale, pixels: Vec<f32>) -> RowTensor {
    RowTensor::Real(vec![1, 3, scale.height as usize, scale.width as usize], pixels)
}

/// Returns the only input of a graph, of 32-bit floats.
fn find_only(interface: &GraphInterface) -> Result<&GraphValue, EncoderError> {
    match interface.inputs.as_slice() {
        [input] if input.element.is_none_or(|element| element == DataType::FLOAT) => Ok(input),
        [input] => Err(EncoderError::Interface(format!("its input `{}` is not of 32-bit floats", input.name))),
        inputs => {
            let count = inputs.len();
            Err(EncoderError::Interface(format!("it has {count} inputs, and one of 32-bit floats is expected")))
        }
    }
}

/// Checks the inputs of a graph of texts, and returns their names.
fn check_text(interface: &GraphInterface) -> Result<Vec<String>, EncoderError> {
    let is_known = |input: &&GraphValue| [IDS, MASK, TYPES].contains(&input.name.as_str());
    if let Some(input) = interface.inputs.iter().find(|input| !is_known(input)) {
        let name = &input.name;
        return Err(EncoderError::Interface(format!(
            "its input `{name}` is not one of `{IDS}`, `{MASK}` and `{TYPES}`"
        )));
    }
    if !interface.inputs.iter().any(|input| input.name == IDS) {
        return Err(EncoderError::Interface(format!("it has no input `{IDS}` for the tokens")));
    }
    for input in &interface.inputs {
        if !matches!(input.element, None | Some(DataType::INT64 | DataType::INT32)) {
            return Err(EncoderError::Interface(format!("its input `{}` is not of integers", input.name)));
        }
        check_shape(input, &[Some(1), None])?;
    }
    Ok(interface.inputs.iter().map(|input| input.name.clone()).collect())
}

/// Checks that the declared dimensions of an input are free or as expected. A dimension that is expected to be `None` is
/// free.
fn check_shape(input: &GraphValue, expected: &[Option<usize>]) -> Result<(), EncoderError> {
    let Some(sizes) = &input.dimensions else { return Ok(()) };
    let suits = |(size, expected): (&Option<i64>, &Option<usize>)| {
        size.is_none_or(|size| expected.is_some_and(|expected| usize::try_from(size) == Ok(expected)))
    };
    if sizes.len() == expected.len() && sizes.iter().zip(expected).all(suits) {
        return Ok(());
    }
    let list = |sizes: Vec<String>| format!("[{}]", sizes.join(", "));
    let own = list(sizes.iter().map(|size| size.map_or("free".to_owned(), |size| size.to_string())).collect());
    let ours = list(expected.iter().map(|size| size.map_or("free".to_owned(), |size| size.to_string())).collect());
    Err(EncoderError::Interface(format!("its input `{}` is {own}, and {ours} is expected", input.name)))
}
