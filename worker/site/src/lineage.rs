//! Lineages: the datasets that share privacy accounts, whatever their names, locations and preparations.
//!
//! A lifetime budget belongs to people and their records, not to the name of a folder. So a lineage keeps fingerprints
//! of all data that it ever had (`fingerprint`). A dataset that shares data or people with another lineage is rejected
//! until it joins that lineage with `--continues`. `intake` decides this during a preparation, `settle` for folders
//! found under `data/`. `exchange` transfers lineages between an organization's workers in a sealed file, which a
//! steward carries. The server learns a lineage's id and nothing else.
//!
//! Fingerprints do not detect: sound that was lossily coded, cut or resampled before it came here; a query log in
//! another order or with most rows edited; people under other ids; the data of another organization, or of a worker
//! whose lineages were never imported.
//!
//! Two lineages are never merged: both may have spent, and neither account includes the other's spending.
//!
//! To add a kind of data: define its fingerprint in `fingerprint`, and collect it during preparation with a method of
//! [`LineageIntake`].

pub(crate) mod error;
pub(crate) mod exchange;
pub(crate) mod fingerprint;
pub(crate) mod intake;
mod known_lineage;
pub(crate) mod overlap;
pub(crate) mod recordings;
pub(crate) mod settle;
mod sketch;
pub(crate) mod table;

pub use self::error::LineageError;
pub use self::exchange::{
    ExchangeError, ImportedLineages, LineageOwner, LineageSummary, SharedLineages, export, import, summarize, warnings,
};
pub use self::fingerprint::FingerprintCollector;
pub use self::intake::{COMPARED, LineageIntake};
pub use self::overlap::{DataOverlap, KnownDataset};
pub use self::recordings::find_recordings;
pub use self::settle::{LineageMarker, has_sources};
pub use self::table::{dataset_lineages, note_registered};
