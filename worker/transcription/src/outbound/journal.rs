//! Journal of sent sounds and their answers, one line each, on disk before anything uses it.
//!
//! Lines are only appended. A line that a crash truncated, or that cannot be parsed, is ignored; its sound is sent again, bit
//! for bit.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::OutboundError;
use crate::piece::Recognition;
use undertone_worker_site::journal::Journal;

/// One line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DeliveryRecord {
    /// A sound is about to be sent: provider and place.
    Sent(u32, u32),
    /// A sound was answered: provider, place and words.
    Heard(u32, u32, Recognition),
}

/// The journal, open for appending.
#[derive(Debug)]
pub(super) struct DeliveryJournal {
    file: Journal<DeliveryRecord>,
    send_counts: BTreeMap<u32, u64>,
    answers: BTreeMap<(u32, u32), Recognition>,
}

impl DeliveryJournal {
    /// Reads the journal in `folder`, or creates one.
    pub(super) fn open(folder: &Path) -> Result<Self, OutboundError> {
        let (file, content) = Journal::open(&folder.join("answers"))?;
        let mut journal = Self { file, send_counts: BTreeMap::new(), answers: BTreeMap::new() };
        content.lines.into_iter().filter_map(|line| line.entry.ok()).for_each(|line| journal.take(line));
        Ok(journal)
    }

    pub(super) fn is_answered(&self, provider: u32, place: u32) -> bool {
        self.answers.contains_key(&(provider, place))
    }

    pub(super) fn send_count(&self, provider: u32) -> u64 {
        self.send_counts.get(&provider).copied().unwrap_or(0)
    }

    pub(super) fn answers(&self) -> Vec<(u32, u32, Recognition)> {
        self.answers.iter().map(|((provider, place), words)| (*provider, *place, words.clone())).collect()
    }

    /// Records that a sound leaves. The line is on disk when this returns.
    pub(super) fn note_sent(&mut self, provider: u32, place: u32) -> Result<(), OutboundError> {
        self.add(DeliveryRecord::Sent(provider, place))
    }

    /// Records an answer. The line is on disk when this returns. Only the first answer of a sound counts.
    pub(super) fn note_answer(
        &mut self,
        provider: u32,
        place: u32,
        recognition: Recognition,
    ) -> Result<(), OutboundError> {
        if self.is_answered(provider, place) {
            Ok(())
        } else {
            self.add(DeliveryRecord::Heard(provider, place, recognition))
        }
    }

    fn add(&mut self, line: DeliveryRecord) -> Result<(), OutboundError> {
        self.file.append(&line)?;
        self.take(line);
        Ok(())
    }

    fn take(&mut self, line: DeliveryRecord) {
        match line {
            DeliveryRecord::Sent(provider, _) => *self.send_counts.entry(provider).or_default() += 1,
            DeliveryRecord::Heard(provider, place, recognition) => {
                self.answers.entry((provider, place)).or_insert(recognition);
            }
        }
    }
}
