//! The rows of the tasks, through the product's own codes and inputs.

use std::collections::BTreeSet;
use std::error::Error;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use support::workspace;
use undertone_api::job::dp_sgd::{RowColumns, TextEmbedding};
use undertone_api::table::{ColumnKind, TableColumn};
use undertone_worker::speech::model::gradient::Example;

use super::peer::{PeerData, TabularPeer};

/// The steps between the least and the greatest value of a column of reals.
const STEPS: f64 = 10_000.0;
/// The share of the rows to measure on: one in so many.
const HELD_OUT: usize = 5;
/// The most n-grams of a text.
const MOST_GRAMS: u32 = 32;

/// The rows to train on and to measure on.
pub(super) struct RowTask {
    /// The columns of the model.
    pub(super) columns: RowColumns,
    pub(super) train: RowSet,
    pub(super) tests: RowSet,
}

/// The inputs of rows, `[rows, inputs]`, and their labels.
#[derive(Default)]
pub(super) struct RowSet {
    width: usize,
    pub(super) inputs: Vec<f32>,
    pub(super) labels: Vec<u16>,
}

impl RowSet {
    fn push(&mut self, columns: &RowColumns, codes: &[Option<i64>], label: u16) {
        self.width = columns.inputs() as usize;
        columns.encode_features(codes, &mut self.inputs);
        self.labels.push(label);
    }

    /// Returns the rows, each by itself.
    pub(super) fn examples(&self) -> Vec<Example<'_>> {
        let rows = self.inputs.chunks_exact(self.width).zip(self.labels.chunks_exact(1));
        rows.map(|(features, labels)| Example { features, labels }).collect()
    }

    /// Returns the inputs of each row.
    pub(super) fn rows(&self) -> Vec<&[f32]> {
        self.inputs.chunks_exact(self.width).collect()
    }
}

fn column(name: String, kind: ColumnKind) -> TableColumn {
    TableColumn { name, kind }
}

/// Returns the columns of rows with these features, and so many values of the target.
fn columns(features: Vec<TableColumn>, classes: usize, text: Option<TextEmbedding>) -> RowColumns {
    let values = (0..classes).map(|class| class.to_string()).collect();
    RowColumns {
        target: column("target".to_owned(), ColumnKind::Category { values }),
        features,
        rows_per_unit: 1,
        text,
    }
}

/// Returns a data set of numbers, of which a fifth by this seed is to measure on. The declared ranges are those of the
/// values, which are public.
pub(super) fn read_numbers(peer: &mut TabularPeer, name: &str, seed: u64) -> Result<RowTask, Box<dyn Error>> {
    let PeerData { inputs, labels } = peer.read_data(name)?;
    let width = inputs.first().map_or(0, Vec::len);
    let kind = |place: usize| {
        let values = || inputs.iter().map(move |row| row[place]);
        let least = values().fold(f64::INFINITY, f64::min);
        // A column with one value has a range all the same.
        let most = values().fold(f64::NEG_INFINITY, f64::max).max(least + 1e-9);
        ColumnKind::Real { least, most, step: (most - least) / STEPS }
    };
    let features = (0..width).map(|place| column(format!("x{place}"), kind(place))).collect();
    let classes = labels.iter().max().map_or(0, |most| usize::from(*most) + 1);
    let columns = columns(features, classes, None);
    let mut order: Vec<usize> = (0..labels.len()).collect();
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    for last in (1..order.len()).rev() {
        order.swap(last, rng.next_u32() as usize % (last + 1));
    }
    let (mut train, mut tests) = (RowSet::default(), RowSet::default());
    for (place, row) in order.into_iter().enumerate() {
        let set = if place % HELD_OUT == 0 { &mut tests } else { &mut train };
        let values = columns.features.iter().zip(&inputs[row]);
        let codes: Vec<Option<i64>> = values.map(|(column, value)| column.kind.encode_real(*value)).collect();
        set.push(&columns, &codes, labels[row]);
    }
    Ok(RowTask { columns, train, tests })
}

/// Returns the intents of `data/intents/snips7.csv`, in their published split.
pub(super) fn read_intents(embedding: TextEmbedding) -> Result<RowTask, Box<dyn Error>> {
    let folder = workspace::data().ok_or("no data folder: set UNDERTONE_DATA")?;
    let mut reader = csv::Reader::from_path(folder.join("intents/snips7.csv"))?;
    let records: Vec<(String, String, String)> = reader.deserialize().collect::<Result<_, _>>()?;
    let labels: BTreeSet<&str> = records.iter().map(|(_, intent, _)| intent.as_str()).collect();
    let labels: Vec<&str> = labels.into_iter().collect();
    let kind = ColumnKind::Text { most_grams: MOST_GRAMS, characters: false };
    let columns = columns(vec![column("text".to_owned(), kind.clone())], labels.len(), Some(embedding));
    let (mut train, mut tests) = (RowSet::default(), RowSet::default());
    for (text, intent, split) in &records {
        let set = if split == "train" { &mut train } else { &mut tests };
        let grams = kind.encode_text(text).into_iter().map(Some);
        let codes: Vec<Option<i64>> = grams.chain(std::iter::repeat(None)).take(kind.code_count()).collect();
        let label = labels.binary_search(&intent.as_str()).map_err(|_| "an intent of no row")?;
        set.push(&columns, &codes, label as u16);
    }
    Ok(RowTask { columns, train, tests })
}
