//! The format of a backup: a tar archive that begins with `about.json`, which lists every other file with its digest.
//! It is sealed in the `age` format where there is a passphrase. Any `tar` and `age` can open it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use age::secrecy::SecretString;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use super::{FILES, LEDGER, RestoreError};
use crate::books::LedgerBooks;
use crate::clock::format_time;
use crate::dataset_meta::META_FILE;
use crate::folder::{Folder, FolderError, check_name, create_private, sync_folder};
use crate::passphrase::seal_with;
use crate::store::Store;

/// The name of the format.
const FORMAT: &str = "undertone/site-backup/1";
/// The first file.
const ABOUT: &str = "about.json";
/// The largest size of [`ABOUT`], bytes.
const LONGEST_ABOUT: u64 = 16 << 20;
/// The folder of the descriptions of datasets, `<name>.json`.
pub(super) const DESCRIPTIONS: &str = "descriptions";

/// The metadata of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackupMetadata {
    format: String,
    /// Version of the worker that wrote it.
    worker_version: String,
    /// The time of the backup (RFC 3339).
    pub(super) at: String,
    pub(super) receipts: u64,
    /// Digest of the last receipt; empty without one.
    pub(super) last: String,
    pub(super) datasets: u64,
    /// Every other file, with the SHA-256 of its content.
    files: BTreeMap<String, String>,
}

/// Reasons why an archive cannot be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The disk failed.
    Folder(FolderError),
    /// The file is not a backup, or incomplete.
    Broken(String),
}

impl From<FolderError> for ReadError {
    fn from(error: FolderError) -> Self {
        Self::Folder(error)
    }
}

/// Writes the archive of the site in `folder` to `out`, with the copied ledger at `ledger`.
pub(super) fn write(
    folder: &Folder,
    ledger: &Path,
    out: &File,
    passphrase: Option<SecretString>,
    now: OffsetDateTime,
) -> Result<BackupMetadata, RestoreError> {
    let mut all: Vec<(String, PathBuf)> = FILES
        .into_iter()
        .map(|name| (name.to_owned(), folder.root().join(name)))
        .filter(|(_, path)| path.exists())
        .collect();
    let described = descriptions(folder)?;
    let datasets = described.len() as u64;
    all.extend(described);
    all.push((LEDGER.to_owned(), ledger.to_owned()));
    // Open the ledger before its digest is computed: opening a copy writes its journal mode into the file's header.
    let books = Store::open(ledger)?.read(LedgerBooks::read)?;
    let mut files = BTreeMap::new();
    for (name, path) in &all {
        files.insert(name.clone(), digest(path)?);
    }
    let about = BackupMetadata {
        format: FORMAT.to_owned(),
        worker_version: env!("CARGO_PKG_VERSION").to_owned(),
        at: format_time(now),
        receipts: books.receipts.sequence,
        last: books.receipts.hash,
        datasets,
        files,
    };
    let failed = FolderError::io("write", Path::new("the backup"));
    let outcome = match passphrase {
        None => write_tar(out, &about, &all).map(drop),
        Some(passphrase) => seal_with(passphrase)
            .and_then(|sealing| sealing.wrap_output(out))
            .and_then(|sealed| write_tar(sealed, &about, &all))
            .and_then(age::stream::StreamWriter::finish)
            .map(drop),
    };
    outcome.map_err(failed)?;
    Ok(about)
}

fn write_tar<W: Write>(out: W, about: &BackupMetadata, files: &[(String, PathBuf)]) -> io::Result<W> {
    let mut tar = tar::Builder::new(out);
    let text = serde_json::to_vec_pretty(about).map_err(io::Error::other)?;
    let header = |size: u64| {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o600);
        header.set_size(size);
        header
    };
    tar.append_data(&mut header(text.len() as u64), ABOUT, text.as_slice())?;
    for (name, path) in files {
        let file = File::open(path)?;
        tar.append_data(&mut header(file.metadata()?.len()), name, file)?;
    }
    tar.into_inner()
}

fn descriptions(folder: &Folder) -> Result<Vec<(String, PathBuf)>, FolderError> {
    let data = folder.datasets();
    if !data.exists() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for item in fs::read_dir(&data).map_err(FolderError::io("read", &data))? {
        let item = item.map_err(FolderError::io("read", &data))?;
        let (name, meta) = (item.file_name().to_string_lossy().into_owned(), item.path().join(META_FILE));
        if check_name(&name).is_ok() && meta.is_file() {
            files.push((format!("{DESCRIPTIONS}/{name}.json"), meta));
        }
    }
    files.sort();
    Ok(files)
}

fn digest(path: &Path) -> Result<String, FolderError> {
    let mut hash = Sha256::new();
    let mut file = File::open(path).map_err(FolderError::io("read", path))?;
    let mut piece = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut piece).map_err(FolderError::io("read", path))?;
        if read == 0 {
            return Ok(hex::encode(hash.finalize()));
        }
        hash.update(&piece[..read]);
    }
}

/// Reads an archive into the empty folder `into`. Accepts only permitted files, complete, each with its digest.
pub(super) fn read(archive: impl Read, into: &Path) -> Result<BackupMetadata, ReadError> {
    let broken = |problem: &str| ReadError::Broken(problem.to_owned());
    let failed = |error: io::Error| ReadError::Broken(error.to_string());
    let mut tar = tar::Archive::new(archive);
    let mut entries = tar.entries().map_err(failed)?;
    let first = entries.next().ok_or_else(|| broken("it is empty"))?.map_err(failed)?;
    if first.path().map_err(failed)? != Path::new(ABOUT) {
        return Err(broken("it does not begin with about.json"));
    }
    let about: BackupMetadata = serde_json::from_reader(first.take(LONGEST_ABOUT))
        .map_err(|error| ReadError::Broken(format!("about.json: {error}")))?;
    if about.format != FORMAT {
        return Err(ReadError::Broken(format!("it is of the form `{}`, this worker reads `{FORMAT}`", about.format)));
    }
    create_private(&into.join(DESCRIPTIONS))?;
    let mut digests = BTreeMap::new();
    for entry in entries {
        let mut entry = entry.map_err(failed)?;
        let path = entry.path().map_err(failed)?.into_owned();
        let name = path.to_string_lossy().into_owned();
        if entry.header().entry_type() != tar::EntryType::Regular || !is_permitted(&path) {
            return Err(ReadError::Broken(format!("it has `{name}`, which no backup has")));
        }
        let to = into.join(&path);
        let mut options = fs::OpenOptions::new();
        options.create_new(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&to).map_err(FolderError::io("create", &to))?;
        io::copy(&mut entry, &mut file).map_err(failed)?;
        file.sync_all().map_err(FolderError::io("sync", &to))?;
        digests.insert(name, digest(&to)?);
    }
    if digests != about.files {
        return Err(broken("its files are not those that it names, or were changed"));
    }
    if !digests.contains_key(LEDGER) || !digests.contains_key("key") || !digests.contains_key("config.toml") {
        return Err(broken("a ledger, a key or a configuration is missing"));
    }
    sync_folder(into)?;
    Ok(about)
}

/// Returns whether a backup may contain a file of this name.
fn is_permitted(path: &Path) -> bool {
    let parts: Vec<_> = path.components().collect();
    let text = |part: &Component<'_>| match part {
        Component::Normal(name) => name.to_str().map(str::to_owned),
        _ => None,
    };
    match parts.as_slice() {
        [name] => text(name).is_some_and(|name| name == LEDGER || FILES.contains(&name.as_str())),
        [folder, name] => {
            text(folder).as_deref() == Some(DESCRIPTIONS)
                && text(name)
                    .is_some_and(|name| name.strip_suffix(".json").is_some_and(|name| check_name(name).is_ok()))
        }
        _ => false,
    }
}
