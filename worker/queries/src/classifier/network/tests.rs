//! The network and its derivatives against burn's automatic differentiation, text by text.

use burn::tensor::activation::{relu, sigmoid};
use burn::tensor::{Device, Int, Tensor, TensorData};
use undertone_api::job::active_learning::Encoder;

use super::super::grams::HashedGrams;
use super::super::masks::{DropoutMasks, SeedStream};
use super::{NetworkPass, NetworkShape, NetworkWeights, scale, scatter};
use undertone_worker_training::device::devices_present;

const TEXTS: [&str; 4] = ["", "where is my order", "cancel", "cancel it it it now"];

fn shape(encoder: Encoder, labels: usize) -> NetworkShape {
    NetworkShape { encoder, buckets: 61, embedding: 5, hidden: 7, labels }
}

fn weights(shape: NetworkShape) -> NetworkWeights {
    let mut number = 0_u32;
    shape.initialize(&mut || {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (number >> 8) as f32 / (1 << 23) as f32 - 1.0
    })
}

/// Coefficients of the outputs in the loss.
fn slopes(shape: NetworkShape) -> Vec<f32> {
    (0..TEXTS.len() * shape.outputs()).map(|n| (n * 37 % 11) as f32 / 5.0 - 1.0).collect()
}

/// The network of one text in burn's tensors, from whole weights.
struct AutodiffNetwork {
    shape: NetworkShape,
    table: Tensor<2>,
    layer: Tensor<2>,
    output: Tensor<2>,
    device: Device,
}

impl AutodiffNetwork {
    fn row(&self, values: Vec<f32>) -> Tensor<2> {
        let width = values.len();
        Tensor::from_data(TensorData::new(values, [1, width]), &self.device)
    }

    fn masked(&self, row: Tensor<2>, masks: &DropoutMasks, layer: usize, text: usize) -> Tensor<2> {
        let mut mask = vec![1.0; row.dims()[1]];
        masks.apply(layer, text, &mut mask);
        row * self.row(mask)
    }

    fn sum(&self, rows: &[u32], masks: &DropoutMasks, text: usize) -> Tensor<2> {
        let numbers: Vec<i64> = rows.iter().map(|row| i64::from(*row)).collect();
        let numbers = Tensor::<1, Int>::from_data(TensorData::new(numbers.clone(), [numbers.len()]), &self.device);
        let sum = self.table.clone().select(0, numbers).sum_dim(0) * scale(rows);
        self.masked(sum, masks, 0, text)
    }

    fn forward(&self, grams: &HashedGrams, masks: &DropoutMasks, text: usize) -> Tensor<2> {
        let one = || self.row(vec![1.0]);
        let hidden = match self.shape.encoder {
            Encoder::Bag => {
                let input = Tensor::cat(vec![self.sum(grams.rows(), masks, text), one()], 1);
                relu(input.matmul(self.layer.clone()))
            }
            Encoder::Lstm => {
                let width = self.shape.hidden;
                let mut output = self.row(vec![0.0; width]);
                let mut cell = output.clone();
                for rows in grams.of_words() {
                    let input = Tensor::cat(vec![self.sum(rows, masks, text), one(), output], 1);
                    let gates = input.matmul(self.layer.clone());
                    let gate = |n: usize| gates.clone().slice([0..1, n * width..(n + 1) * width]);
                    cell = sigmoid(gate(1)) * cell + sigmoid(gate(0)) * gate(2).tanh();
                    output = sigmoid(gate(3)) * cell.clone().tanh();
                }
                output
            }
        };
        let hidden = self.masked(hidden, masks, 1, text);
        Tensor::cat(vec![hidden, one()], 1).matmul(self.output.clone())
    }
}

fn numbers(tensor: Tensor<2>) -> Vec<f32> {
    tensor.into_data().try_into_vec::<f32>().expect("f32")
}

/// Returns outputs, and derivatives by the table and by the dense weights.
fn truth(shape: NetworkShape, weights: &NetworkWeights, masks: &DropoutMasks) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let device = Device::flex().autodiff();
    let matrix = |values: &[f32], dimensions: [usize; 2]| {
        Tensor::<2>::from_data(TensorData::new(values.to_vec(), dimensions), &device).require_grad()
    };
    let (layer, output) = weights.dense.split_at(shape.split());
    let [of_layer, of_output] = shape.matrices();
    let oracle = AutodiffNetwork {
        shape,
        table: matrix(&weights.table, [shape.buckets, shape.embedding]),
        layer: matrix(layer, of_layer),
        output: matrix(output, of_output),
        device: device.clone(),
    };
    let mut outputs = Vec::new();
    let mut loss = Tensor::<1>::from_data(TensorData::new(vec![0.0_f32], [1]), &device);
    for (text, slopes) in slopes(shape).chunks(shape.outputs()).enumerate() {
        let output = oracle.forward(&HashedGrams::new(TEXTS[text], shape.buckets), masks, text);
        outputs.extend(numbers(output.clone()));
        loss = loss + (output * oracle.row(slopes.to_vec())).sum();
    }
    let gradients = loss.backward();
    let of = |tensor: &Tensor<2>| numbers(tensor.grad(&gradients).expect("it has a part in the loss"));
    let mut dense = of(&oracle.layer);
    dense.extend(of(&oracle.output));
    (outputs, of(&oracle.table), dense)
}

#[track_caller]
fn assert_close(own: &[f32], truth: &[f32], what: &str) {
    assert_eq!(own.len(), truth.len(), "{what}");
    let scale = truth.iter().fold(1e-3_f32, |most, value| most.max(value.abs()));
    let worst = own.iter().zip(truth).map(|(own, truth)| (own - truth).abs()).fold(0.0, f32::max);
    assert!(worst <= 2e-5 * scale, "{what}: off by {worst} of {scale}");
    assert!(truth.iter().any(|value| *value != 0.0), "{what} is nothing but zeros: the test is blind");
}

#[test]
fn network_matches_automatic_differentiation() {
    for (encoder, labels) in [(Encoder::Bag, 4), (Encoder::Bag, 2), (Encoder::Lstm, 4), (Encoder::Lstm, 2)] {
        let shape = shape(encoder, labels);
        let weights = weights(shape);
        for masks in [
            DropoutMasks::none(),
            DropoutMasks::draw(0.3, shape.widths(), TEXTS.len(), &mut SeedStream::Training(0).rng(3)),
        ] {
            let (outputs, by_table, by_dense) = truth(shape, &weights, &masks);
            for (name, device) in devices_present() {
                let grams: Vec<HashedGrams> = TEXTS.iter().map(|text| HashedGrams::new(text, shape.buckets)).collect();
                let grams: Vec<&HashedGrams> = grams.iter().collect();
                let pass = NetworkPass::new(shape, &weights.dense, &grams, &device);
                let (own, tape) = pass.forward(shape.embed(&weights.table, &grams), &masks);
                assert_close(&own, &outputs, &format!("outputs on {name}"));
                let mut dense = vec![0.0; weights.dense.len()];
                let by_rows = pass.backward(tape, slopes(shape), &masks, &mut dense);
                assert_close(&dense, &by_dense, &format!("derivatives by the layers of {shape:?} on {name}"));
                let mut table = vec![0.0; weights.table.len()];
                scatter(shape, &grams, &by_rows, &mut |row, by, scale| {
                    let target = &mut table[row as usize * shape.embedding..][..shape.embedding];
                    target.iter_mut().zip(by).for_each(|(target, by)| *target += scale * by);
                });
                assert_close(&table, &by_table, &format!("derivatives by the table on {name}"));
            }
        }
    }
}

#[test]
fn outputs_do_not_depend_on_other_texts() {
    for encoder in [Encoder::Bag, Encoder::Lstm] {
        let shape = shape(encoder, 4);
        let weights = weights(shape);
        let device = Device::flex();
        let masks = DropoutMasks::draw(0.5, shape.widths(), 1, &mut SeedStream::Pass(0).rng(3));
        let out = |texts: &[&str]| {
            let grams: Vec<HashedGrams> = texts.iter().map(|text| HashedGrams::new(text, shape.buckets)).collect();
            let grams: Vec<&HashedGrams> = grams.iter().collect();
            let pass = NetworkPass::new(shape, &weights.dense, &grams, &device);
            pass.forward(shape.embed(&weights.table, &grams), &masks).0
        };
        let many: Vec<&str> = TEXTS.iter().copied().cycle().take(150).collect();
        let all = out(&many);
        for (index, text) in TEXTS.iter().enumerate() {
            let alone = out(&[text]);
            assert_eq!(all[index * 4..index * 4 + 4], alone[..], "{text:?}");
            assert_eq!(all[(index + 140) * 4..(index + 140) * 4 + 4], alone[..], "{text:?}");
        }
    }
}
