//! Journal of the reserved pieces of recorded speech and their recipients, over the site's life.
//!
//! It holds one line for each job, on disk before the job draws its plan; lines are only appended. A line that a crash truncated
//! is ignored, because nothing was drawn after it. Any other line that cannot be parsed is an error: pieces would be sent
//! again, so nothing continues until the file is restored.
//!
//! Recordings are identified by the digests of their files, and pieces by their samples: a piece that overlaps a reserved piece
//! counts as reserved.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::RecordedError;
use super::offer::PieceOffer;
use super::used_pieces::UsedPieces;
use undertone_worker_site::journal::{self, Journal, JournalContent};

/// The pieces reserved by one job.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PieceReservation {
    /// Name of the reservation; unique.
    pub name: String,
    /// Recipients that may receive some of the pieces.
    pub recipients: Vec<String>,
    /// Digests of the recordings.
    pub recordings: Vec<String>,
    /// The pieces; their recordings are indices into `recordings`.
    pub offers: Vec<PieceOffer>,
}

/// Prints the name and the numbers of pieces and recordings.
impl std::fmt::Debug for PieceReservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "PieceReservation({}, {} pieces of {} recordings)",
            self.name,
            self.offers.len(),
            self.recordings.len()
        )
    }
}

impl PieceReservation {
    /// Collects pieces of recordings; `digest` returns a recording's digest by number. Pieces of other recordings are omitted.
    pub fn new<'a>(
        name: String,
        recipients: Vec<String>,
        offers: Vec<PieceOffer>,
        digest: impl Fn(u32) -> Option<&'a str>,
    ) -> Self {
        let mut recordings: Vec<String> = Vec::new();
        let mut places: HashMap<u32, u32> = HashMap::new();
        let mut own = Vec::with_capacity(offers.len());
        for offer in offers {
            let Some(known) = digest(offer.recording) else { continue };
            let place = *places.entry(offer.recording).or_insert_with(|| {
                recordings.push(known.to_owned());
                recordings.len() as u32 - 1
            });
            own.push(PieceOffer { recording: place, ..offer });
        }
        Self { name, recipients, recordings, offers: own }
    }

    fn spans(&self) -> impl Iterator<Item = (String, Range<u64>)> + '_ {
        self.offers.iter().filter_map(|offer| {
            let digest = self.recordings.get(offer.recording as usize)?;
            Some((digest.clone(), offer.start..offer.end))
        })
    }
}

/// The journal of a site, locked by one process at a time.
#[derive(Debug)]
pub struct PieceJournal {
    /// The locked file; other processes wait.
    file: Journal<PieceReservation>,
    reservations: Vec<PieceReservation>,
}

impl PieceJournal {
    /// Opens the journal at `path`, or creates one; waits for the lock.
    ///
    /// # Errors
    /// [`RecordedError::Journal`] when a line is damaged, [`RecordedError::Folder`] when the disk refuses.
    pub fn open(path: &Path) -> Result<Self, RecordedError> {
        let (file, content) = Journal::open_locked(path)?;
        Ok(Self { file, reservations: entries(path, content)? })
    }

    /// Reads the reservations without locking; none without a journal.
    ///
    /// # Errors
    /// As [`PieceJournal::open`].
    pub fn look(path: &Path) -> Result<Vec<PieceReservation>, RecordedError> {
        entries(path, journal::read(path)?)
    }

    /// Returns the reservation of a name.
    pub fn find(&self, name: &str) -> Option<&PieceReservation> {
        self.reservations.iter().find(|reservation| reservation.name == name)
    }

    /// Returns the pieces that none of `recipients` may receive: every reserved piece, or with `again` the pieces that any of them
    /// may have received.
    pub fn used(&self, recipients: &[String], again: bool) -> UsedPieces {
        used(&self.reservations, recipients, again)
    }

    /// Records a reservation; it is on disk when this returns. An earlier reservation with the same name is kept, and its pieces
    /// stay reserved.
    ///
    /// # Errors
    /// [`RecordedError::Folder`] when the disk refuses; nothing is reserved then.
    pub fn set_aside(&mut self, one: PieceReservation) -> Result<(), RecordedError> {
        if self.find(&one.name).is_none() {
            self.file.append(&one)?;
            self.reservations.push(one);
        }
        Ok(())
    }
}

/// Does the same as [`PieceJournal::used`] for the reservations that [`PieceJournal::look`] returned.
pub fn used(lines: &[PieceReservation], recipients: &[String], again: bool) -> UsedPieces {
    let counts = |line: &&PieceReservation| !again || line.recipients.iter().any(|one| recipients.contains(one));
    UsedPieces::from_spans(lines.iter().filter(counts).flat_map(PieceReservation::spans))
}

fn entries(path: &Path, content: JournalContent<PieceReservation>) -> Result<Vec<PieceReservation>, RecordedError> {
    content.into_entries().map_err(|line| RecordedError::Journal { path: path.to_owned(), line })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::dummy::PhraseLength;

    fn offer(recording: u32, samples: Range<u64>) -> PieceOffer {
        let length = PhraseLength { words: 1, content: 1 };
        PieceOffer { recording, start: samples.start, end: samples.end, word: Some(0), length }
    }

    fn aside(name: &str, recipient: &str, offers: Vec<PieceOffer>) -> PieceReservation {
        let digests = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        PieceReservation::new(name.to_owned(), vec![recipient.to_owned()], offers, |number| {
            digests.get(number as usize).copied()
        })
    }

    #[test]
    fn reserved_samples_are_known_by_recording_and_range() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spoken.jsonl");
        let mut journal = PieceJournal::open(&path).unwrap();
        let first = aside("one", "north", vec![offer(7, 100..200), offer(2, 0..50), offer(7, 200..300)]);
        assert_eq!((first.recordings.as_slice(), first.offers[2].recording), (&["h".into(), "c".into()][..], 0));
        journal.set_aside(first.clone()).unwrap();
        drop(journal);
        let journal = PieceJournal::open(&path).unwrap();
        assert_eq!(journal.find("one"), Some(&first));
        let used = journal.used(&[], false);
        for (digest, samples, expected) in [
            ("h", 150..160, true),
            ("h", 0..101, true),
            ("h", 299..400, true),
            ("h", 190..210, true),
            ("h", 0..100, false),
            ("h", 300..400, false),
            ("c", 49..60, true),
            ("a", 100..200, false),
        ] {
            assert_eq!(used.has(digest, samples.clone()), expected, "{digest} {samples:?}");
        }
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn second_reservation_of_a_name_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spoken.jsonl");
        let mut journal = PieceJournal::open(&path).unwrap();
        let first = aside("one", "north", vec![offer(0, 0..10)]);
        journal.set_aside(first.clone()).unwrap();
        journal.set_aside(aside("one", "south", vec![offer(0, 20..30)])).unwrap();
        assert_eq!(PieceJournal::look(&path).unwrap(), [first]);
        assert!(PieceJournal::look(&folder.path().join("none")).unwrap().is_empty());
    }

    #[test]
    fn pieces_are_reused_for_others_only_if_permitted() {
        let lines = [aside("one", "north", vec![offer(0, 0..10)]), aside("two", "south", vec![offer(0, 20..30)])];
        let is_used = |recipients: &[&str], again| {
            let recipients: Vec<String> = recipients.iter().map(|one| (*one).to_owned()).collect();
            let used = used(&lines, &recipients, again);
            [used.has("a", 0..10), used.has("a", 20..30)]
        };
        assert_eq!(is_used(&["east"], false), [true, true]);
        assert_eq!(is_used(&["east"], true), [false, false]);
        assert_eq!(is_used(&["north", "east"], true), [true, false]);
        assert_eq!(is_used(&["north", "south"], true), [true, true]);
    }

    #[test]
    fn truncated_line_is_ignored_and_damaged_one_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spoken.jsonl");
        let one = aside("one", "north", vec![offer(0, 0..10)]);
        let two = aside("two", "north", vec![offer(1, 0..10)]);
        PieceJournal::open(&path).unwrap().set_aside(one.clone()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let half = [whole.as_slice(), &whole[..whole.len() / 2]].concat();
        std::fs::write(&path, half).unwrap();
        let mut journal = PieceJournal::open(&path).unwrap();
        journal.set_aside(two.clone()).unwrap();
        drop(journal);
        assert_eq!(PieceJournal::look(&path).unwrap(), [one, two]);
        std::fs::write(&path, [b"{}\n".as_slice(), &whole].concat()).unwrap();
        assert!(matches!(PieceJournal::open(&path), Err(RecordedError::Journal { line: 1, .. })));
        assert!(PieceJournal::look(&path).is_err());
    }
}
