//! The public data: user turns of dialogues, with their intent and their session.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::error::Error;
use std::path::Path;

use sha2::{Digest, Sha256};
use support::workspace;
use undertone_api::dataset::Visibility;
use undertone_worker::queries::dataset::Row;
use undertone_worker::queries::rehearsal::PublicLog;
use undertone_worker::site::clearance::PublicProof;
use undertone_worker::site::{gate, policy};

/// Rows of the training sessions, and of the test sessions.
pub(super) struct SessionLog {
    pub(super) labels: Vec<String>,
    pub(super) rows: Vec<Row>,
    pub(super) tests: Vec<(String, u16)>,
}

impl SessionLog {
    /// Reads the data, with at most `most` rows of the log.
    pub(super) fn read(most: Option<usize>) -> Result<Self, Box<dyn Error>> {
        let folder = workspace::data().ok_or("no data folder: set UNDERTONE_DATA")?;
        let path = folder.join("intents/sgd_turns.csv");
        let mut reader = csv::Reader::from_path(&path)?;
        let columns = reader.headers()?.clone();
        let column = |name: &str| {
            let position = columns.iter().position(|column| column == name);
            position.ok_or_else(|| format!("{} has no column `{name}`", path.display()))
        };
        let (session, text, intent) = (column("session")?, column("text")?, column("intent")?);
        let records = reader.into_records().collect::<Result<Vec<_>, _>>()?;
        let labels: BTreeSet<&str> = records.iter().map(|record| &record[intent]).collect();
        let labels: Vec<String> = labels.into_iter().map(str::to_owned).collect();
        let (mut rows, mut tests) = (Vec::new(), Vec::new());
        for record in &records {
            let label = labels.binary_search_by(|label| label.as_str().cmp(&record[intent]));
            let label = label.map_err(|_| "a label of no row")? as u16;
            if record[session].starts_with("train/") {
                let user = Sha256::digest(record[session].as_bytes());
                let user = user.first_chunk::<16>().map(|bytes| u128::from_le_bytes(*bytes));
                rows.push(Row { text: record[text].to_owned(), user, count: 1, label: Some(label) });
            } else if record[session].starts_with("test/") {
                tests.push((record[text].to_owned(), label));
            }
        }
        rows.truncate(most.unwrap_or(usize::MAX));
        Ok(Self { labels, rows, tests })
    }

    /// Returns the training rows and the test set.
    pub(super) fn ground<'p>(&self, published: &'p PublicProof) -> PublicLog<'p> {
        let rows = self.rows.iter().map(|row| Ok::<_, Infallible>((row.text.clone(), row.count, row.label)));
        let tests = self.tests.iter().map(|(text, label)| Ok((text.clone(), 1, *label)));
        let Ok(ground) = PublicLog::new(published, self.labels.clone(), rows, tests);
        ground
    }
}

/// Returns the proof of a site's policy that the data are public.
pub(super) fn published(folder: &Path) -> Result<PublicProof, Box<dyn Error>> {
    let path = folder.join("policy.toml");
    policy::declare(&path, "sgd", Visibility::Public)?;
    Ok(gate::prove_public(&policy::Policy::load(&path)?.rules("sgd"))?)
}
