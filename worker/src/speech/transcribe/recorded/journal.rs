//! Which pieces of recorded speech were set aside, for whom, over the site's life.
//!
//! A line for each job, on disk before the job draws its plan; lines are only ever added. A line that a crash cut short counts for
//! nothing, for nothing was drawn after it. One that cannot be read is no such thing: pieces that were heard would be heard
//! again, so nothing goes on until the file is put back.
//!
//! Recordings are known by the digests of their files, pieces by their samples: what overlaps a piece that was set aside was set aside.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::RecordedError;
use super::offer::Offer;
use crate::fault;
use crate::site::folder::{FolderError, sync_folder};

/// What was set aside at once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetAside {
    /// For what; there is one of a name.
    pub name: String,
    /// Who may hear some of it.
    pub recipients: Vec<String>,
    /// Digests of the recordings.
    pub recordings: Vec<String>,
    /// The pieces; their recordings are numbers in that list.
    pub offers: Vec<Offer>,
}

/// How many pieces, of how many recordings, and for what.
impl std::fmt::Debug for SetAside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SetAside({}, {} pieces of {} recordings)", self.name, self.offers.len(), self.recordings.len())
    }
}

impl SetAside {
    /// Pieces of recordings of which `digest` knows the digests by their numbers; pieces of others are left out.
    pub fn new<'a>(
        name: String,
        recipients: Vec<String>,
        offers: Vec<Offer>,
        digest: impl Fn(u32) -> Option<&'a str>,
    ) -> Self {
        let (mut recordings, mut places): (Vec<String>, HashMap<u32, u32>) = (Vec::new(), HashMap::new());
        let mut kept = Vec::with_capacity(offers.len());
        for offer in offers {
            let Some(known) = digest(offer.recording) else { continue };
            let place = *places.entry(offer.recording).or_insert_with(|| {
                recordings.push(known.to_owned());
                recordings.len() as u32 - 1
            });
            kept.push(Offer { recording: place, ..offer });
        }
        Self { name, recipients, recordings, offers: kept }
    }

    fn spans(&self) -> impl Iterator<Item = (String, Range<u64>)> + '_ {
        self.offers.iter().filter_map(|offer| {
            let digest = self.recordings.get(offer.recording as usize)?;
            Some((digest.clone(), offer.start..offer.end))
        })
    }
}

/// Samples that must not be heard again, by the digest of their recording; sorted and apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Used(HashMap<String, Vec<Range<u64>>>);

impl Used {
    /// These.
    pub fn of(spans: impl IntoIterator<Item = (String, Range<u64>)>) -> Self {
        let mut all: HashMap<String, Vec<Range<u64>>> = HashMap::new();
        for (digest, span) in spans {
            all.entry(digest).or_default().push(span);
        }
        for spans in all.values_mut() {
            spans.sort_unstable_by_key(|span| span.start);
            let mut apart: Vec<Range<u64>> = Vec::with_capacity(spans.len());
            for span in spans.drain(..) {
                match apart.last_mut().filter(|last| span.start <= last.end) {
                    Some(last) => last.end = last.end.max(span.end),
                    None => apart.push(span),
                }
            }
            *spans = apart;
        }
        Self(all)
    }

    /// Whether some of these samples are among them.
    pub fn has(&self, digest: &str, samples: Range<u64>) -> bool {
        let spans = self.0.get(digest).map_or(&[][..], Vec::as_slice);
        let at = spans.partition_point(|span| span.end <= samples.start);
        spans.get(at).is_some_and(|span| span.start < samples.end)
    }
}

/// The journal of a site, held by one at a time.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    /// Locked; another process waits.
    file: File,
    /// Its good length: what lies beyond was cut.
    bytes: u64,
    lines: Vec<SetAside>,
}

impl Journal {
    /// Opens the journal at `path`, or begins one; waits for whoever holds it.
    ///
    /// # Errors
    /// [`RecordedError::Journal`] when a line is damaged, [`RecordedError::Folder`] when the disk refuses.
    pub fn open(path: &Path) -> Result<Self, RecordedError> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(FolderError::io("open", path))?;
        file.lock().map_err(FolderError::io("lock", path))?;
        sync_folder(path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
        let text = fs::read(path).map_err(FolderError::io("read", path))?;
        let (bytes, lines) = parse(path, &text)?;
        Ok(Self { path: path.to_owned(), file, bytes, lines })
    }

    /// What it says now, without holding it; nothing where there is none.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn look(path: &Path) -> Result<Vec<SetAside>, RecordedError> {
        match fs::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            read => Ok(parse(path, &read.map_err(FolderError::io("read", path))?)?.1),
        }
    }

    /// What was set aside under a name.
    pub fn of(&self, name: &str) -> Option<&SetAside> {
        self.lines.iter().find(|line| line.name == name)
    }

    /// What none of `recipients` may hear again: everything that was ever set aside, or with `again` what any of them may have
    /// heard.
    pub fn used(&self, recipients: &[String], again: bool) -> Used {
        used(&self.lines, recipients, again)
    }

    /// Notes what is set aside; it is on disk when this returns. What was set aside under that name before stands, and is no
    /// less set aside.
    ///
    /// # Errors
    /// [`RecordedError::Folder`] when the disk refuses; nothing is set aside then.
    pub fn set_aside(&mut self, one: SetAside) -> Result<(), RecordedError> {
        if self.of(&one.name).is_some() {
            return Ok(());
        }
        let mut text = serde_json::to_vec(&one)
            .map_err(|error| FolderError::io("write", &self.path)(std::io::Error::other(error)))?;
        text.push(b'\n');
        let mut write = || {
            // Over whatever half of a line an earlier failure left.
            self.file.set_len(self.bytes)?;
            self.file.seek(SeekFrom::Start(self.bytes))?;
            self.file.write_all(&text)?;
            fault::disk(fault::BEFORE_SYNC)?;
            self.file.sync_data()
        };
        write().map_err(FolderError::io("write", &self.path))?;
        self.bytes += text.len() as u64;
        self.lines.push(one);
        Ok(())
    }
}

impl Drop for Journal {
    /// A lock belongs to the open file, which a program started meanwhile holds too.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// As [`Journal::used`], of what [`Journal::look`] saw.
pub fn used(lines: &[SetAside], recipients: &[String], again: bool) -> Used {
    let counts = |line: &&SetAside| !again || line.recipients.iter().any(|one| recipients.contains(one));
    Used::of(lines.iter().filter(counts).flat_map(SetAside::spans))
}

/// The whole lines, and how many bytes they are.
fn parse(path: &Path, text: &[u8]) -> Result<(u64, Vec<SetAside>), RecordedError> {
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut lines = Vec::new();
    for (line, number) in text[..whole].split(|byte| *byte == b'\n').zip(1..).filter(|(line, _)| !line.is_empty()) {
        let damaged = |_| RecordedError::Journal { path: path.to_owned(), line: number };
        lines.push(serde_json::from_slice(line).map_err(damaged)?);
    }
    Ok((whole as u64, lines))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::speech::transcribe::dummy::Length;

    fn offer(recording: u32, samples: Range<u64>) -> Offer {
        let length = Length { words: 1, content: 1 };
        Offer { recording, start: samples.start, end: samples.end, word: Some(0), length }
    }

    fn aside(name: &str, recipient: &str, offers: Vec<Offer>) -> SetAside {
        let digests = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        SetAside::new(name.to_owned(), vec![recipient.to_owned()], offers, |number| {
            digests.get(number as usize).copied()
        })
    }

    #[test]
    fn what_was_set_aside_is_known_by_its_recording_and_its_samples_whatever_is_cut_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spoken.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        let first = aside("one", "north", vec![offer(7, 100..200), offer(2, 0..50), offer(7, 200..300)]);
        assert_eq!((first.recordings.as_slice(), first.offers[2].recording), (&["h".into(), "c".into()][..], 0));
        journal.set_aside(first.clone()).unwrap();
        drop(journal);
        let journal = Journal::open(&path).unwrap();
        assert_eq!(journal.of("one"), Some(&first));
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
    fn a_name_is_set_aside_for_once_and_its_first_pieces_stand() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spoken.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        let first = aside("one", "north", vec![offer(0, 0..10)]);
        journal.set_aside(first.clone()).unwrap();
        journal.set_aside(aside("one", "south", vec![offer(0, 20..30)])).unwrap();
        assert_eq!(Journal::look(&path).unwrap(), [first]);
        assert!(Journal::look(&folder.path().join("none")).unwrap().is_empty());
    }

    #[test]
    fn others_may_hear_a_piece_again_only_where_the_site_says_so() {
        let lines = [aside("one", "north", vec![offer(0, 0..10)]), aside("two", "south", vec![offer(0, 20..30)])];
        let heard = |recipients: &[&str], again| {
            let recipients: Vec<String> = recipients.iter().map(|one| (*one).to_owned()).collect();
            let used = used(&lines, &recipients, again);
            [used.has("a", 0..10), used.has("a", 20..30)]
        };
        assert_eq!(heard(&["east"], false), [true, true]);
        assert_eq!(heard(&["east"], true), [false, false]);
        assert_eq!(heard(&["north", "east"], true), [true, false]);
        assert_eq!(heard(&["north", "south"], true), [true, true]);
    }

    #[test]
    fn a_line_that_was_cut_short_counts_for_nothing_and_a_damaged_one_stops_everything() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spoken.jsonl");
        let (one, two) = (aside("one", "north", vec![offer(0, 0..10)]), aside("two", "north", vec![offer(1, 0..10)]));
        Journal::open(&path).unwrap().set_aside(one.clone()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let half = [whole.as_slice(), &whole[..whole.len() / 2]].concat();
        std::fs::write(&path, half).unwrap();
        let mut journal = Journal::open(&path).unwrap();
        journal.set_aside(two.clone()).unwrap();
        drop(journal);
        assert_eq!(Journal::look(&path).unwrap(), [one, two]);
        std::fs::write(&path, [b"{}\n".as_slice(), &whole].concat()).unwrap();
        assert!(matches!(Journal::open(&path), Err(RecordedError::Journal { line: 1, .. })));
        assert!(Journal::look(&path).is_err());
    }
}
