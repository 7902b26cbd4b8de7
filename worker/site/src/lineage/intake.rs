//! The lineage of a dataset in preparation: collects fingerprints during preparation, and decides before the dataset is
//! put in its place.

use std::collections::BTreeMap;

use time::OffsetDateTime;
use undertone_api::dataset::Visibility;
use undertone_api::id::LineageId;

use super::error::LineageError;
use super::fingerprint::FingerprintCollector;
use super::known_lineage::{KnownLineage, judge, load_lineages, new_lineage, overlaps};
use super::overlap::DataOverlap;
use super::settle::LineageMarker;
use super::table::{self, dataset_lineages, load_keys};
use crate::dataset_meta::description::DatasetDescription;
use crate::datasets::scan;
use crate::folder::Folder;
use crate::normalize::{
    BlankRule, CaseRule, DigitRule, PunctuationRule, TextNormalization, TextNormalizer, UnicodeForm,
};
use crate::policy::{Policy, word};
use crate::store::Store;

/// The normalization of query rows for comparison. It removes most differences between preparations with different
/// options.
pub const COMPARED: TextNormalization = TextNormalization {
    form: UnicodeForm::Nfkc,
    case: CaseRule::Lower,
    punctuation: PunctuationRule::Drop,
    digits: DigitRule::Keep,
    blanks: BlankRule::Single,
};

/// Collects the fingerprints of a dataset in preparation, and admits it to a lineage.
#[derive(Debug)]
pub struct LineageIntake {
    store: Store,
    policy: Policy,
    name: String,
    visibility: Visibility,
    /// The lineage of the name, if it has one.
    own: Option<LineageId>,
    /// The dataset to continue, with its lineage.
    continues: Option<(String, LineageId)>,
    collector: FingerprintCollector,
    normalizer: TextNormalizer,
    now: OffsetDateTime,
    has_new_key: bool,
}

impl LineageIntake {
    /// Opens the intake of the dataset called `name` at the site in `folder`; `continues` names a dataset to continue.
    /// Existing datasets are fingerprinted first, so that a dataset about to be replaced is recorded.
    ///
    /// # Errors
    /// [`LineageError`] when it cannot continue that dataset.
    pub fn open<D: DatasetDescription>(
        folder: &Folder,
        name: &str,
        visibility: Visibility,
        continues: Option<&str>,
        now: OffsetDateTime,
    ) -> Result<Self, LineageError> {
        let store = Store::open_or_begin(folder)?;
        let policy = Policy::load_or_template(&folder.policy())?;
        let (keys, has_new_key) = load_keys(&store, now)?;
        scan::<D>(folder, &store, &policy)?;
        let own = store.read(|db| table::of_name(db, name))?;
        let continues = match continues {
            None => None,
            Some(other) => {
                let line = store.read(|db| table::find_lineage(db, other))?;
                Some((other.to_owned(), line.ok_or_else(|| LineageError::Unknown(other.to_owned()))?))
            }
        };
        if let (Some(own), Some((other, line))) = (own, &continues)
            && own != *line
        {
            return Err(LineageError::Split { name: name.to_owned(), continues: other.clone() });
        }
        // Without a visibility in the command, the policy's applies already.
        let visibility = if visibility == Visibility::Private { policy.rules(name).visibility } else { visibility };
        let intake = Self {
            collector: FingerprintCollector::new(&keys),
            normalizer: TextNormalizer::new(COMPARED),
            store,
            policy,
            name: name.to_owned(),
            visibility,
            own,
            continues,
            now,
            has_new_key,
        };
        intake.check_visibility()?;
        Ok(intake)
    }

    /// Returns whether the site had no key of the organization and created one.
    pub const fn has_new_key(&self) -> bool {
        self.has_new_key
    }

    /// Adds a recording by the SHA-256 of its file's bytes, and of its samples.
    pub fn add_recording(&mut self, file: &[u8; 32], audio: &[u8; 32]) {
        self.collector.add_file(file);
        self.collector.add_audio(audio);
    }

    /// Adds the id of a speaker or a user.
    pub fn add_person(&mut self, id: &str) {
        self.collector.add_person(id);
    }

    /// Adds the next row of a query log by its text.
    pub fn add_row(&mut self, text: &str) {
        self.collector.add_row(self.normalizer.apply(text));
    }

    /// Serializes the collected fingerprints, for a preparation that may be interrupted.
    pub fn save(&mut self) -> Vec<u8> {
        self.collector.save()
    }

    /// Restores from [`LineageIntake::save`]. Returns false when that is not possible; the preparation must then start
    /// again.
    pub fn resume(&mut self, saved: &[u8]) -> bool {
        self.collector.resume(saved)
    }

    /// Admits the dataset: begins its lineage, joins the continued one, or adds to the one that it has. The
    /// fingerprints are durable when this returns. Nothing has changed after an error.
    ///
    /// # Errors
    /// [`LineageError`] with the common data, the other dataset and the remedy.
    pub fn admit(&mut self) -> Result<LineageMarker, LineageError> {
        self.collector.finish();
        let line = self.own.or(self.continues.as_ref().map(|(_, line)| *line));
        let new = new_lineage()?;
        // The slow comparison runs outside the transaction; it is repeated if the tables changed meanwhile.
        let mut comparison = self.look(line)?;
        loop {
            judge(&self.name, self.visibility, (self.own, line), &comparison.overlaps, &comparison.lineages)?;
            let Self { store, collector, name, continues, own, now, .. } = self;
            let admitted = store.write(|tx| {
                if table::extent(tx)? != comparison.extent {
                    return Ok::<_, LineageError>(None);
                }
                let lineage = match (line, continues.as_ref()) {
                    (Some(line), _) if own.is_some() => line,
                    (Some(line), Some((other, _))) => {
                        table::join(tx, name, line, other, *now)?;
                        line
                    }
                    _ => {
                        table::begin(tx, name, new)?;
                        new
                    }
                };
                table::merge_all(tx, lineage, collector)?;
                Ok(Some(lineage))
            })?;
            if let Some(lineage) = admitted {
                self.own = Some(lineage);
                return Ok(LineageMarker::new(lineage));
            }
            comparison = self.look(line)?;
        }
    }

    fn look(&mut self, line: Option<LineageId>) -> Result<LineageComparison, LineageError> {
        let extent = self.store.read(table::extent)?;
        let names = dataset_lineages(&self.store)?;
        let Self { store, collector, policy, .. } = self;
        let overlaps = store.read(|db| overlaps(db, collector, line))?;
        let lineages = store.read(|db| load_lineages(db, &names, policy))?;
        Ok(LineageComparison { extent, overlaps, lineages })
    }

    /// Checks that a lineage is not protected less under this name than under another.
    fn check_visibility(&self) -> Result<(), LineageError> {
        let Some((_, line)) = self.continues.as_ref().filter(|_| self.own.is_none()) else { return Ok(()) };
        let less = |other: Visibility| match self.visibility {
            Visibility::Private => false,
            Visibility::Open => other == Visibility::Private,
            Visibility::Public => other != Visibility::Public,
        };
        let names = dataset_lineages(&self.store)?.into_iter().filter(|(lineage, _)| lineage == line);
        for (_, other) in names {
            let visibility = self.policy.rules(&other).visibility;
            if less(visibility) {
                let name = self.name.clone();
                let asked = word(self.visibility);
                return Err(LineageError::Visibility { name, asked, other, found: word(visibility) });
            }
        }
        Ok(())
    }
}

/// The result of a comparison with the other lineages.
struct LineageComparison {
    extent: i64,
    overlaps: BTreeMap<LineageId, DataOverlap>,
    lineages: BTreeMap<LineageId, KnownLineage>,
}
