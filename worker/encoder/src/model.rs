//! Runs a checked graph on one row at a time.
//!
//! `rten` computes on all cores. It divides the outputs of an operator among them and no sum, so the number of cores does
//! not change a result. Other processors can differ in the last bits, because their instructions differ.

use rten::{Model, ModelOptions, NodeId, Value, ValueOrView};
use undertone_worker_site::panics::catch_panic;

use crate::error::{EncoderError, RowError};
use crate::graph::GraphInterface;
use crate::operators::create_registry;
use crate::specification::Pooling;

/// The most numbers of a row: with the label, the columns of a table.
pub const MOST_WIDTH: usize = 255;

/// A tensor for an input of the graph, with a batch of 1.
#[derive(Debug, Clone)]
pub(crate) enum RowTensor {
    /// Real numbers and their shape.
    Real(Vec<usize>, Vec<f32>),
    /// Integers `[1, length]`.
    Integer(Vec<i32>),
}

impl RowTensor {
    fn into_value(self) -> Result<Value, String> {
        match self {
            Self::Real(shape, values) => Value::from_shape(shape, values).map_err(|error| error.to_string()),
            Self::Integer(values) => Value::from_shape([1, values.len()], values).map_err(|error| error.to_string()),
        }
    }
}

/// A graph that is ready to run.
pub(crate) struct EncoderModel {
    model: Model,
    inputs: Vec<NodeId>,
    output: NodeId,
    pool: Option<Pooling>,
    width: usize,
}

impl EncoderModel {
    /// Loads a checked graph, whose inputs are given in the order of `interface`.
    pub(crate) fn load(
        bytes: Vec<u8>,
        interface: &GraphInterface,
        pool: Option<Pooling>,
    ) -> Result<Self, EncoderError> {
        let load = || ModelOptions::with_ops(create_registry()).load(bytes);
        let damaged = || EncoderError::Format("it is damaged".to_owned());
        let model = catch_panic(load).ok_or_else(damaged)?.map_err(|error| EncoderError::Format(error.to_string()))?;
        let find = |name: &str| model.node_id(name).map_err(|error| EncoderError::Format(error.to_string()));
        let inputs: Vec<NodeId> = interface.inputs.iter().map(|input| find(&input.name)).collect::<Result<_, _>>()?;
        let output = find(&interface.output.name)?;
        Ok(Self { model, inputs, output, pool, width: 0 })
    }

    /// Returns the numbers of a row.
    pub(crate) const fn width(&self) -> usize {
        self.width
    }

    /// Runs two examples, and sets the width to that of the first.
    ///
    /// # Errors
    /// [`EncoderError::Dependence`] if the result for the first differs after the second, and the other reasons why the
    /// graph cannot be run or its output has no place in a table.
    pub(crate) fn try_examples(&mut self, first: &[RowTensor], second: &[RowTensor]) -> Result<(), EncoderError> {
        let before = self.compute(first).map_err(EncoderError::Example)?;
        self.compute(second).map_err(EncoderError::Example)?;
        let after = self.compute(first).map_err(EncoderError::Example)?;
        let is_same = |(one, other): (&f32, &f32)| one.to_bits() == other.to_bits();
        if before.len() != after.len() || !before.iter().zip(&after).all(is_same) {
            return Err(EncoderError::Dependence);
        }
        if !(1..=MOST_WIDTH).contains(&before.len()) {
            return Err(EncoderError::Width(before.len()));
        }
        self.width = before.len();
        Ok(())
    }

    /// Returns the encoded numbers of a row.
    ///
    /// # Errors
    /// [`RowError::Graph`] if the graph cannot be run, [`RowError::NotFinite`] for NaN or an infinite number.
    pub(crate) fn encode(&self, inputs: &[RowTensor]) -> Result<Vec<f32>, RowError> {
        let numbers = self.compute(inputs).map_err(|_| RowError::Graph)?;
        if numbers.len() != self.width {
            return Err(RowError::Graph);
        }
        if numbers.iter().all(|number| number.is_finite()) { Ok(numbers) } else { Err(RowError::NotFinite) }
    }

    /// Returns the output for the inputs of one row.
    ///
    /// # Errors
    /// A description of the reason why the graph cannot be run.
    pub(crate) fn run(&self, inputs: &[RowTensor]) -> Result<Value, String> {
        let mut values: Vec<(NodeId, ValueOrView)> = Vec::with_capacity(inputs.len());
        for (id, tensor) in self.inputs.iter().zip(inputs) {
            values.push((*id, tensor.clone().into_value()?.into()));
        }
        let run = || self.model.run(values, &[self.output], None);
        let outputs = catch_panic(run).ok_or("an operator failed")?.map_err(|error| error.to_string())?;
        outputs.into_iter().next().ok_or_else(|| "it has no output".to_owned())
    }

    fn compute(&self, inputs: &[RowTensor]) -> Result<Vec<f32>, String> {
        let output = self.run(inputs)?;
        match self.pool {
            None => {
                let (shape, numbers) =
                    output.into_shape_vec::<f32, 2>().map_err(|error| describe_output("[1, width]", &error))?;
                let [rows, _] = shape;
                if rows == 1 { Ok(numbers) } else { Err(format!("its output has {rows} rows for one")) }
            }
            Some(Pooling::Mean) => {
                let (shape, numbers) =
                    output.into_shape_vec::<f32, 3>().map_err(|error| describe_output("[1, steps, width]", &error))?;
                let [rows, steps, width] = shape;
                if rows == 1 {
                    average(&numbers, steps, width)
                } else {
                    Err(format!("its output has {rows} rows for one"))
                }
            }
        }
    }
}

fn describe_output(expected: &str, error: &dyn std::fmt::Display) -> String {
    format!(
        "its output is not `{expected}` ({error}): set `pool = \"mean\"` for an output `[1, steps, width]`, and none for `[1, width]`"
    )
}

/// Returns the mean over the steps, in the order of the steps and with sums of 64 bits.
fn average(numbers: &[f32], steps: usize, width: usize) -> Result<Vec<f32>, String> {
    if steps == 0 || width == 0 {
        return Err("its output has no steps".to_owned());
    }
    let mut sums = vec![0.0_f64; width];
    for step in numbers.chunks_exact(width) {
        for (sum, number) in sums.iter_mut().zip(step) {
            *sum += f64::from(*number);
        }
    }
    Ok(sums.into_iter().map(|sum| (sum / steps as f64) as f32).collect())
}
