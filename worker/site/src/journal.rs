//! Append-only journals: files of JSON lines that survive a crash at any moment.
//!
//! A line counts as soon as its line feed is on disk. A crash can truncate only the last line; later bytes than the last
//! line feed are no entry, and [`Journal::append`] overwrites them. After a failed call the same call may be repeated: it
//! overwrites what the failed one wrote. A crash between the two may leave the entry of the failed call, whole.
//!
//! The module does not decide what a complete line that cannot be parsed means. [`JournalLine`] passes it to the caller,
//! with its number.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Seek as _, SeekFrom, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fault;
use crate::folder::{FolderError, sync_folder};

/// A complete line of a journal.
#[derive(Debug)]
pub struct JournalLine<T> {
    /// The number of the line, from 1.
    pub number: usize,
    /// The entry, or the reason why the line is none.
    pub entry: Result<T, serde_json::Error>,
}

/// The content of a journal when it was opened.
#[derive(Debug)]
pub struct JournalContent<T> {
    /// The complete lines, without blank ones.
    pub lines: Vec<JournalLine<T>>,
    /// The bytes after the last complete line: the beginning of a line whose writer crashed.
    pub tail: Vec<u8>,
    /// The number of complete lines, with blank ones.
    count: usize,
    /// Length up to the last complete line.
    bytes: u64,
}

impl<T: DeserializeOwned> JournalContent<T> {
    const fn empty() -> Self {
        Self { lines: Vec::new(), tail: Vec::new(), count: 0, bytes: 0 }
    }

    /// Adds the tail to the lines, if it is not blank: for a journal whose last line may lack its line feed. The file is
    /// not changed; see [`Journal::rewrite`].
    pub fn push_tail(&mut self) {
        if !self.tail.trim_ascii().is_empty() {
            self.lines.push(JournalLine { number: self.count + 1, entry: serde_json::from_slice(&self.tail) });
        }
    }

    /// Returns the entries, oldest first.
    ///
    /// # Errors
    /// The number of the first line that is no entry.
    pub fn into_entries(self) -> Result<Vec<T>, usize> {
        self.lines.into_iter().map(|line| line.entry.map_err(|_| line.number)).collect()
    }
}

/// A journal, open for appending. Its file is readable by its owner only.
#[derive(Debug)]
pub struct Journal<T> {
    path: PathBuf,
    file: File,
    /// Length up to the last complete line; later bytes are a truncated line.
    bytes: u64,
    is_locked: bool,
    entries: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// Opens the journal at `path`, or creates it. The file is not locked: the caller is its only writer.
    ///
    /// # Errors
    /// [`FolderError`] when the disk refuses.
    pub fn open(path: &Path) -> Result<(Self, JournalContent<T>), FolderError> {
        Self::load(path, open_file(path)?, false)
    }

    /// Opens the journal at `path`, or creates it, and locks it until it is dropped; waits for other processes.
    ///
    /// # Errors
    /// [`FolderError`] when the disk refuses.
    pub fn open_locked(path: &Path) -> Result<(Self, JournalContent<T>), FolderError> {
        let file = open_file(path)?;
        file.lock().map_err(FolderError::io("lock", path))?;
        Self::load(path, file, true)
    }

    /// Does the same as [`Journal::open_locked`], and returns `None` when another process has the lock.
    ///
    /// # Errors
    /// [`FolderError`] when the disk refuses.
    pub fn try_open_locked(path: &Path) -> Result<Option<(Self, JournalContent<T>)>, FolderError> {
        let file = open_file(path)?;
        match file.try_lock() {
            Ok(()) => Self::load(path, file, true).map(Some),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(FolderError::io("lock", path)(source)),
        }
    }

    fn load(path: &Path, file: File, is_locked: bool) -> Result<(Self, JournalContent<T>), FolderError> {
        let mut journal = Self { path: path.to_owned(), file, bytes: 0, is_locked, entries: PhantomData };
        sync_folder(folder_of(path))?;
        let content = parse(&journal.file).map_err(FolderError::io("read", path))?;
        journal.bytes = content.bytes;
        Ok((journal, content))
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends an entry; it is on disk when this returns.
    ///
    /// # Errors
    /// [`FolderError`] when the disk refuses; the next call then overwrites the entry.
    pub fn append(&mut self, entry: &T) -> Result<(), FolderError> {
        let length = self.write_synced(entry).map_err(FolderError::io("write", &self.path))?;
        self.bytes += length;
        Ok(())
    }

    /// Appends an entry that is on disk only after the next [`Journal::sync`].
    ///
    /// # Errors
    /// [`FolderError`] when the disk refuses; the next call then overwrites the entry.
    pub fn append_unsynced(&mut self, entry: &T) -> Result<(), FolderError> {
        let length = self.write_line(entry).map_err(FolderError::io("write", &self.path))?;
        self.bytes += length;
        Ok(())
    }

    /// Makes all entries durable.
    ///
    /// # Errors
    /// [`FolderError`] when the disk refuses.
    pub fn sync(&self) -> Result<(), FolderError> {
        self.file.sync_all().map_err(FolderError::io("sync", &self.path))
    }

    /// Replaces all entries; durable when this returns. The file is replaced in one step, and stays locked if it is.
    ///
    /// # Errors
    /// [`FolderError`] when the disk refuses; the file then holds either the old entries or the new ones, all of them.
    pub fn rewrite(&mut self, entries: impl IntoIterator<Item = T>) -> Result<(), FolderError> {
        let mut text = Vec::new();
        for entry in entries {
            push_line(&mut text, &entry).map_err(FolderError::io("write", &self.path))?;
        }
        let file = self.replace(&text).map_err(FolderError::io("write", &self.path))?;
        self.file = file;
        self.bytes = text.len() as u64;
        sync_folder(folder_of(&self.path))
    }

    /// Writes a new file, locks it as this one, and renames it over this one.
    fn replace(&self, text: &[u8]) -> io::Result<File> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".partial");
        let partial = PathBuf::from(name);
        let mut file = file_options().truncate(true).open(&partial)?;
        file.write_all(text)?;
        if self.is_locked {
            file.lock()?;
        }
        file.sync_all()?;
        std::fs::rename(&partial, &self.path)?;
        Ok(file)
    }

    fn write_synced(&mut self, entry: &T) -> io::Result<u64> {
        let length = self.write_line(entry)?;
        fault::disk(fault::BEFORE_SYNC)?;
        self.file.sync_data()?;
        Ok(length)
    }

    /// Writes a line after the last complete one, and returns its length.
    fn write_line(&mut self, entry: &T) -> io::Result<u64> {
        let mut text = Vec::new();
        push_line(&mut text, entry)?;
        // Overwrites the partial line of a crash or of an earlier failed write.
        self.file.set_len(self.bytes)?;
        self.file.seek(SeekFrom::Start(self.bytes))?;
        self.file.write_all(&text)?;
        Ok(text.len() as u64)
    }
}

impl<T> Drop for Journal<T> {
    /// Unlocks explicitly. A lock belongs to the open file, which a child process shares until it executes its program,
    /// so closing alone would keep the file locked until then.
    fn drop(&mut self) {
        if self.is_locked {
            let _ = self.file.unlock();
        }
    }
}

/// Reads the journal at `path` without locking it; without a file it is empty.
///
/// # Errors
/// [`FolderError`] when the disk refuses.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<JournalContent<T>, FolderError> {
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(JournalContent::empty()),
        file => file.and_then(|file| parse(&file)).map_err(FolderError::io("read", path)),
    }
}

fn parse<T: DeserializeOwned>(file: &File) -> io::Result<JournalContent<T>> {
    let mut content = JournalContent::empty();
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            content.tail = line;
            return Ok(content);
        }
        content.count += 1;
        content.bytes += length as u64;
        if !line.trim_ascii().is_empty() {
            content.lines.push(JournalLine { number: content.count, entry: serde_json::from_slice(&line) });
        }
    }
}

fn push_line(text: &mut Vec<u8>, entry: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *text, entry).map_err(io::Error::other)?;
    text.push(b'\n');
    Ok(())
}

fn open_file(path: &Path) -> Result<File, FolderError> {
    file_options().read(true).truncate(false).open(path).map_err(FolderError::io("open", path))
}

/// Returns the options of a file that its owner alone may read, and that is created where there is none.
fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::{Journal, read};
    use crate::fault::{self, FailureKind, FailurePlan};
    use crate::store::is_disk_failure;

    type NumberJournal = Journal<Vec<u32>>;

    fn entries(path: &std::path::Path) -> Vec<Vec<u32>> {
        read(path).unwrap().into_entries().unwrap()
    }

    #[test]
    fn truncated_journal_keeps_every_complete_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, content) = NumberJournal::open(&path).unwrap();
        assert!(content.lines.is_empty() && content.tail.is_empty());
        journal.append(&vec![1]).unwrap();
        journal.append(&vec![20, 30]).unwrap();
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(whole, b"[1]\n[20,30]\n");
        for length in 0..=whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let (mut journal, content) = NumberJournal::open(&path).unwrap();
            let lines = content.lines.len();
            assert_eq!(lines, whole[..length].split(|byte| *byte == b'\n').count() - 1);
            assert_eq!(content.tail, whole[length - content.tail.len()..length]);
            journal.append(&vec![4]).unwrap();
            assert_eq!(entries(&path).len(), lines + 1, "{length}");
            assert_eq!(entries(&path).last(), Some(&vec![4]));
        }
    }

    #[test]
    fn damaged_line_is_passed_on_with_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        std::fs::write(&path, "[1]\n\n{}\n[2]\n").unwrap();
        let content = read::<Vec<u32>>(&path).unwrap();
        let lines: Vec<_> = content.lines.iter().map(|line| (line.number, line.entry.is_ok())).collect();
        assert_eq!(lines, [(1, true), (3, false), (4, true)]);
        assert_eq!(content.into_entries(), Err(3));
    }

    #[test]
    fn line_without_line_feed_counts_where_the_caller_adds_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        std::fs::write(&path, "[1]\n\n[2]").unwrap();
        let mut content = read::<Vec<u32>>(&path).unwrap();
        assert_eq!(content.lines.len(), 1);
        content.push_tail();
        assert_eq!(content.lines.last().map(|line| line.number), Some(3));
        assert_eq!(content.into_entries().unwrap(), [[1], [2]]);
    }

    #[test]
    fn missing_journal_is_empty_and_is_not_made_by_reading() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        assert_eq!(entries(&path), Vec::<Vec<u32>>::new());
        assert!(!path.exists());
    }

    #[test]
    fn full_disk_leaves_the_journal_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, _) = NumberJournal::open(&path).unwrap();
        journal.append(&vec![1]).unwrap();
        fault::plan(Some(FailurePlan { accident: FailureKind::Disk, after: 1 }));
        let error = journal.append(&vec![2]).unwrap_err();
        assert!(is_disk_failure(&error), "the job pauses: {error}");
        journal.append(&vec![3]).unwrap();
        assert_eq!(entries(&path), [[1], [3]]);
    }

    #[test]
    fn locked_journal_is_refused_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, _) = NumberJournal::open_locked(&path).unwrap();
        assert!(NumberJournal::try_open_locked(&path).unwrap().is_none());
        journal.append_unsynced(&vec![1]).unwrap();
        journal.sync().unwrap();
        journal.rewrite([vec![7], vec![8]]).unwrap();
        assert!(NumberJournal::try_open_locked(&path).unwrap().is_none(), "also after it was rewritten");
        journal.append(&vec![9]).unwrap();
        drop(journal);
        let (_journal, content) = NumberJournal::try_open_locked(&path).unwrap().unwrap();
        assert_eq!(content.into_entries().unwrap(), [[7], [8], [9]]);
    }

    #[cfg(unix)]
    #[test]
    fn journal_is_readable_by_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, _) = NumberJournal::open(&path).unwrap();
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        journal.rewrite([vec![1]]).unwrap();
        assert_eq!(mode(), 0o600);
    }
}
