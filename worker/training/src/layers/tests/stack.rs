#![expect(clippy::single_range_in_vec_init, reason = "tensors are sliced by ranges")]

use burn::tensor::{Device, Tensor};
use undertone_privacy::{NoiseMultiplier, SamplingRate};

use super::layers::{conv, embedding, gru, layer_norm, linear, lstm};
use super::{LayerTest, distance, length, numbers, ragged};
use crate::clip::ClippedSum;
use crate::clip::grid::Clip;
use crate::clip::mode::ClipMode;
use crate::device::devices_present;
use crate::layers::affine::Linear;
use crate::layers::combine::{ConcatenatedLayers, ReversedLayer};
use crate::layers::conv1d::Conv1d;
use crate::layers::embedding::Embedding;
use crate::layers::layer_norm::LayerNorm;
use crate::layers::recurrent::gru::Gru;
use crate::layers::recurrent::lstm::Lstm;
use crate::layers::rows::tensor;
use crate::layers::stack::StackError;
use crate::layers::{Gradient, Layer, Layout, Parameters, Stack};
use crate::sampler::Sampler;

const NAMES: [&str; 6] = ["symbols", "front", "lstm", "gru", "norm", "output"];

/// Returns a stack with every kind of layer.
fn everything() -> Stack {
    let cell = Lstm { inputs: 5, hidden: 3 };
    Stack::with_layer(NAMES[0], Embedding { symbols: 12, outputs: 4 })
        .then(NAMES[1], Conv1d::new(4, 5, 3))
        .and_then(|stack| stack.then(NAMES[2], ConcatenatedLayers(cell, ReversedLayer(cell))))
        .and_then(|stack| stack.then(NAMES[3], Gru { inputs: 6, hidden: 4 }))
        .and_then(|stack| stack.then(NAMES[4], LayerNorm { features: 4 }))
        .and_then(|stack| stack.then(NAMES[5], Linear { inputs: 4, outputs: 7 }))
        .expect("widths fit")
}

fn truth_of_everything(parameters: &Tensor<1>, input: Tensor<2>) -> Tensor<2> {
    let stack = everything();
    let part = |name: &str| {
        let (_, range, _) = stack.parts().find(|(part, ..)| *part == name).expect("a part of the stack");
        parameters.clone().slice([range])
    };
    let rows = conv(&part("front"), embedding(&part("symbols"), input, 12, 4), 5, 3);
    let (both, size) = (part("lstm"), Lstm { inputs: 5, hidden: 3 }.parameters());
    let ahead = lstm(&both.clone().slice([0..size]), rows.clone(), 3);
    let back = lstm(&both.slice([size..2 * size]), rows.flip([0]), 3).flip([0]);
    let rows = gru(&part("gru"), Tensor::cat(vec![ahead, back], 1), 4);
    linear(&part("output"), layer_norm(&part("norm"), rows), 7)
}

fn gradient(stack: &Stack, trial: &LayerTest<'_, Stack>, device: &Device) -> Gradient {
    let rows = trial.layout.rows();
    let parameters = Parameters::load(&trial.parameters, device);
    let input = tensor(trial.input.clone(), [rows, stack.inputs()], device);
    let (_, tape) = stack.run(&parameters, input, &trial.layout);
    let weights = tensor(trial.weights.clone(), [rows, Layer::outputs(stack)], device);
    stack.gradient(&parameters, tape, weights, &trial.layout)
}

fn clip(bound: f64, mode: ClipMode) -> Clip {
    Clip::new(bound, NoiseMultiplier::new(1.0).expect("in range")).expect("in range").with_mode(mode)
}

fn sum(gradient: &Gradient, layout: &Layout, clip: Clip) -> Vec<i64> {
    let batch = Sampler::new(layout.units(), SamplingRate::ONE).draw_fresh();
    let mut sum = ClippedSum::begin_parts(&batch, clip, &gradient.lengths());
    sum.add_group(gradient, layout);
    sum.in_test().to_vec()
}

#[test]
fn all_layers_together_equal_a_loop_over_units() {
    let stack = everything();
    LayerTest::new(&stack, &truth_of_everything, ragged()).of_symbols(12).check();
}

#[test]
fn parts_are_clipped_each_for_itself_when_asked() {
    let stack = everything();
    let trial = LayerTest::new(&stack, &truth_of_everything, ragged()).of_symbols(12);
    let truth = super::truth(&trial);
    let bound = 0.8;
    for (name, device) in devices_present() {
        let gradient = gradient(&stack, &trial, &device);
        let clip = clip(bound, ClipMode::PerLayer);
        let own: Vec<f32> =
            sum(&gradient, &trial.layout, clip).iter().map(|steps| (*steps as f64 * clip.step()) as f32).collect();
        let mut expected = vec![0.0_f32; own.len()];
        for unit in &truth.gradients {
            for (_, range, _) in stack.parts() {
                let share = bound / 6.0_f64.sqrt();
                let factor = f64::min(1.0, share / length(&unit[range.clone()]).max(1e-30)) as f32;
                expected[range.clone()].iter_mut().zip(&unit[range]).for_each(|(sum, value)| *sum += factor * value);
            }
        }
        assert!(distance(&own, &expected) < 5e-5, "on {name}: {}", distance(&own, &expected));
    }
}

#[test]
fn a_frozen_part_has_no_gradient_and_no_share_in_the_norm() {
    let mut stack = everything();
    let whole = LayerTest::new(&everything(), &truth_of_everything, ragged()).of_symbols(12).parameters;
    stack.train_only(&["lstm", "output"]).expect("parts of the stack");
    let ranges = stack.trained();
    let forward: &super::Forward<'_> = &truth_of_everything;
    let trial = LayerTest { parameters: whole, ..LayerTest::new(&stack, forward, ragged()).of_symbols(12) };
    let truth = super::truth(&trial);
    let gradient = gradient(&stack, &trial, &Device::flex());
    assert_eq!(gradient.parts().map(|(name, _)| name).collect::<Vec<_>>(), ["lstm", "output"]);
    let clip = clip(0.7, ClipMode::Flat);
    let own: Vec<f32> =
        sum(&gradient, &trial.layout, clip).iter().map(|steps| (*steps as f64 * clip.step()) as f32).collect();
    let mut expected = vec![0.0_f32; own.len()];
    for unit in &truth.gradients {
        let trained: Vec<f32> = ranges.iter().flat_map(|range| &unit[range.clone()]).copied().collect();
        let factor = f64::min(1.0, 0.7 / length(&trained).max(1e-30)) as f32;
        expected.iter_mut().zip(&trained).for_each(|(sum, value)| *sum += factor * value);
    }
    assert!(distance(&own, &expected) < 5e-5, "{}", distance(&own, &expected));
}

#[test]
fn batch_without_rows_adds_nothing() {
    let stack = everything();
    for layout in [Layout::new(Vec::<Vec<usize>>::new()), Layout::new([vec![], vec![0]])] {
        for (_, device) in devices_present() {
            let trial = LayerTest::new(&stack, &truth_of_everything, layout.clone());
            let gradient = gradient(&stack, &trial, &device);
            assert_eq!(gradient.lengths().iter().sum::<usize>(), stack.parameters());
            for mode in [ClipMode::Flat, ClipMode::PerLayer, ClipMode::Automatic] {
                assert!(sum(&gradient, &layout, clip(1.0, mode)).iter().all(|steps| *steps == 0));
            }
            let mut plain = vec![0.0; stack.parameters()];
            gradient.add_to(&mut plain);
            assert!(plain.iter().all(|value| value.abs() == 0.0));
        }
    }
}

#[test]
fn parts_that_do_not_fit_are_refused_by_name() {
    let norm = |features| LayerNorm { features };
    let wide = Stack::with_layer("first", Linear { inputs: 3, outputs: 4 }).then("second", norm(5)).err();
    assert_eq!(wide, Some(StackError::Width { part: "second".to_owned(), takes: 5, gives: 4 }));
    let twice = Stack::with_layer("norm", norm(3)).then("norm", norm(3)).err();
    assert_eq!(twice, Some(StackError::Twice("norm".to_owned())));
    let late = Stack::with_layer("linear", Linear { inputs: 3, outputs: 1 });
    let late = late.then("symbols", Embedding { symbols: 5, outputs: 2 }).err();
    assert_eq!(late, Some(StackError::NotFirst("symbols".to_owned())));
    let mut stack = everything();
    let unknown = stack.train_only(&["output", "outptu"]).err().map(|error| error.to_string());
    assert!(unknown.is_some_and(|text| text.contains("`outptu`") && text.contains("front, lstm")));
    assert_eq!(stack.train_only::<&str>(&[]), Err(StackError::Frozen));
    assert_eq!(stack.trained().len(), 6, "a refused choice changes nothing");
}

#[test]
fn a_stack_begins_with_the_numbers_of_its_layers() {
    let stack = everything();
    let mut parameters = vec![f32::NAN; stack.parameters()];
    let mut draws = numbers(10_000, 9).into_iter();
    stack.initialize(&mut parameters, &mut || draws.next().expect("enough"));
    assert!(parameters.iter().all(|value| value.abs() <= 1.0));
    let (_, norm, _) = stack.parts().find(|(name, ..)| *name == "norm").expect("a part of the stack");
    assert_eq!(parameters[norm], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}
