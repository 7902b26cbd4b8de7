//! Gradients of one unit at a time, through burn's automatic differentiation.

use burn::tensor::{Device, Tensor, TensorData};

use super::{Layer, LayerTest};

/// A layer defined in burn's tensors: maps parameters and one sequence `[frames, inputs]` to `[frames, outputs]`.
pub(super) type Forward<'a> = dyn Fn(&Tensor<1>, Tensor<2>) -> Tensor<2> + 'a;

/// The expected results of a layer test.
pub(super) struct ExpectedGradients {
    /// `[rows, outputs]`.
    pub(super) output: Vec<f32>,
    /// `[rows, inputs]`.
    pub(super) by_input: Vec<f32>,
    /// Gradients by unit.
    pub(super) gradients: Vec<Vec<f32>>,
}

pub(super) fn truth<L: Layer>(trial: &LayerTest<'_, L>) -> ExpectedGradients {
    let device = Device::flex().autodiff();
    let (inputs, outputs) = (trial.layer.inputs(), trial.layer.outputs());
    let rows = trial.layout.rows();
    let mut truth = ExpectedGradients {
        output: vec![0.0; rows * outputs],
        by_input: vec![0.0; rows * inputs],
        gradients: Vec::new(),
    };
    for unit in 0..trial.layout.units() {
        let parameters =
            Tensor::<1>::from_data(TensorData::new(trial.parameters.clone(), [trial.parameters.len()]), &device)
                .require_grad();
        let own = trial.layout.unit(unit);
        let mut loss = Tensor::<1>::from_data(TensorData::new(vec![0.0_f32], [1]), &device);
        let mut inputs_by_sequence = Vec::new();
        for sequence in trial.layout.sequences() {
            if sequence.is_empty() || sequence.start < own.start || sequence.end > own.end {
                continue;
            }
            let part = |values: &[f32], width: usize| {
                let values = values[sequence.start * width..sequence.end * width].to_vec();
                Tensor::<2>::from_data(TensorData::new(values, [sequence.len(), width]), &device)
            };
            let input = part(&trial.input, inputs).require_grad();
            let output = (trial.forward)(&parameters, input.clone());
            let numbers = output.clone().into_data().try_to_vec::<f32>().expect("f32");
            truth.output[sequence.start * outputs..sequence.end * outputs].copy_from_slice(&numbers);
            loss = loss + (output * part(&trial.weights, outputs)).sum();
            inputs_by_sequence.push((sequence, input));
        }
        if inputs_by_sequence.is_empty() {
            truth.gradients.push(vec![0.0; trial.parameters.len()]);
            continue;
        }
        let gradients = loss.backward();
        for (sequence, input) in inputs_by_sequence {
            if let Some(gradient) = input.grad(&gradients) {
                let numbers = gradient.into_data().try_to_vec::<f32>().expect("f32");
                truth.by_input[sequence.start * inputs..sequence.end * inputs].copy_from_slice(&numbers);
            }
        }
        let gradient = parameters.grad(&gradients).expect("every parameter has a part in the loss");
        truth.gradients.push(gradient.into_data().try_to_vec::<f32>().expect("f32"));
    }
    truth
}
