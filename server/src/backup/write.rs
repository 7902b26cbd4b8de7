//! Writes a backup. The stream passes through tar, zstd and age into the file; memory holds one chunk of it at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use age::secrecy::SecretString;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use tar::{Builder, Header};
use tokio::runtime::Handle;

use super::database::DatabaseKind;
use super::{BackupContents, BackupEnd, BackupError, FORMAT, VERSION, file_error, tree};
use undertone_server_core::config::Config;
use undertone_server_core::ctx::Clock;
use undertone_server_core::db::Db;
use undertone_server_core::exchange::object::{self, Store};
use undertone_server_core::service::log;

/// The compression level: zstd's default.
const LEVEL: i32 = 3;
/// The scrypt work factor: 2^17 steps and 128 MiB, above the recommendation for interactive logins.
const WORK: u8 = 17;

/// Writes a complete backup of the configured server to a file, or none.
///
/// # Errors
/// [`BackupError`].
pub async fn write(
    config: &Config,
    to: &Path,
    passphrase: SecretString,
) -> Result<(BackupContents, BackupEnd), BackupError> {
    let kind = DatabaseKind::from_config(config);
    let db = Db::inspect(&config.database()).await?;
    let staged = staged_copy_path(to);
    // The head is read before the tables are copied, so that the copy contains at least this head.
    let contents = contents(&kind, &db).await;
    db.close().await?;
    let contents = contents?;
    let written = match kind.copy(&staged).await {
        Ok(()) => sealed(config, &kind, contents, &staged, to, passphrase).await,
        Err(error) => Err(error),
    };
    let _ = std::fs::remove_file(&staged);
    written
}

async fn sealed(
    config: &Config,
    kind: &DatabaseKind,
    contents: BackupContents,
    staged: &Path,
    to: &Path,
    passphrase: SecretString,
) -> Result<(BackupContents, BackupEnd), BackupError> {
    let store = object::open(config)?;
    let data_dir = config.data_dir.clone();
    let staged = staged.to_owned();
    let to = to.to_owned();
    let database = if let DatabaseKind::Sqlite(path) = kind { Some(path.clone()) } else { None };
    let handle = Handle::current();
    let written = tokio::task::spawn_blocking(move || {
        let part = to.with_extension("part");
        let keys = tree::files(&data_dir, database.as_deref())?;
        let members = |archive: &mut Builder<_>| members(archive, &contents, &staged, &keys, &store, &handle, &part);
        let written = seal(&part, passphrase, members);
        let placed = written.and_then(|end| std::fs::rename(&part, &to).map_err(file_error(&to)).map(|()| end));
        if placed.is_err() {
            let _ = std::fs::remove_file(&part);
        }
        placed.map(|end| (contents, end))
    });
    written
        .await
        .map_err(|error| BackupError::Read(undertone_server_core::error::Error::internal("writing a backup", error)))?
}

type Sealing = zstd::Encoder<'static, age::stream::StreamWriter<BufWriter<File>>>;

/// Writes an archive through zstd and age into a file.
fn seal(
    part: &Path,
    passphrase: SecretString,
    members: impl FnOnce(&mut Builder<Sealing>) -> Result<BackupEnd, BackupError>,
) -> Result<BackupEnd, BackupError> {
    let file = private(part).map_err(file_error(part))?;
    let mut recipient = age::scrypt::Recipient::new(passphrase);
    recipient.set_work_factor(WORK);
    let sealing = age::Encryptor::with_recipients(std::iter::once(&recipient as _))
        .map_err(|error| BackupError::Sealed { path: part.to_owned(), why: error.to_string() })?;
    let sealing = sealing.wrap_output(BufWriter::new(file)).map_err(file_error(part))?;
    let mut archive = Builder::new(zstd::Encoder::new(sealing, LEVEL).map_err(file_error(part))?);
    let end = members(&mut archive)?;
    let sealing = archive.into_inner().and_then(zstd::Encoder::finish).map_err(file_error(part))?;
    let file = sealing.finish().and_then(|file| file.into_inner().map_err(io::IntoInnerError::into_error));
    file.and_then(|file| file.sync_all()).map_err(file_error(part))?;
    Ok(end)
}

/// Returns the description of a backup that is made now.
async fn contents(kind: &DatabaseKind, db: &Db) -> Result<BackupContents, BackupError> {
    Ok(BackupContents {
        format: FORMAT.to_owned(),
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        at: Clock::system().now(),
        database: kind.name().to_owned(),
        migrations: db.migrations().await?,
        head: log::newest_of(db).await.map_err(BackupError::Read)?,
    })
}

fn members<W: Write>(
    archive: &mut Builder<W>,
    contents: &BackupContents,
    database: &Path,
    keys: &[PathBuf],
    store: &Store,
    handle: &Handle,
    part: &Path,
) -> Result<BackupEnd, BackupError> {
    json(archive, "backup.json", contents).map_err(file_error(part))?;
    let mut end = BackupEnd::default();
    for (path, name) in std::iter::once((database, "database".to_owned())).chain(
        keys.iter()
            .map(|path| (path.as_path(), format!("keys/{}", path.file_name().unwrap_or_default().to_string_lossy()))),
    ) {
        let file = File::open(path).map_err(file_error(path))?;
        let size = file.metadata().map_err(file_error(path))?.len();
        append(archive, &name, size, file.take(size)).map_err(file_error(path))?;
    }
    end.keys = keys.len() as u64;
    let listed: Vec<_> = handle.block_on(store.list(None).try_collect())?;
    for object in listed {
        let stored = match handle.block_on(store.get(&object.location)) {
            Ok(stored) => stored,
            Err(object_store::Error::NotFound { .. }) => {
                end.gone += 1;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let size = stored.meta.size;
        let bytes =
            ChunkReader { stream: stored.into_stream().boxed(), piece: Vec::new(), at: 0, handle: handle.clone() };
        append(archive, &format!("objects/{}", object.location), size, bytes).map_err(file_error(part))?;
        end.objects += 1;
        end.bytes += size;
    }
    json(archive, "end.json", &end).map_err(file_error(part))?;
    Ok(end)
}

fn json<W: Write>(archive: &mut Builder<W>, name: &str, value: &impl serde::Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(value)?;
    append(archive, name, text.len() as u64, text.as_slice())
}

fn append<W: Write>(archive: &mut Builder<W>, name: &str, size: u64, mut data: impl Read) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o600);
    let mut reader = CountingReader { inner: &mut data, read: 0 };
    archive.append_data(&mut header, name, &mut reader)?;
    if reader.read == size {
        return Ok(());
    }
    Err(io::Error::other(format!("{name} became shorter during the backup: repeat the backup")))
}

struct CountingReader<'a, R> {
    inner: &'a mut R,
    read: u64,
}

impl<R: Read> Read for CountingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read += count as u64;
        Ok(count)
    }
}

/// The chunks of an object as one reader.
struct ChunkReader<S> {
    stream: S,
    piece: Vec<u8>,
    at: usize,
    handle: Handle,
}

impl<S, B> Read for ChunkReader<S>
where
    S: Stream<Item = object_store::Result<B>> + Unpin,
    B: AsRef<[u8]>,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            match self.handle.block_on(self.stream.next()) {
                Some(piece) => {
                    self.piece = piece.map_err(io::Error::other)?.as_ref().to_vec();
                    self.at = 0;
                }
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.piece.len() - self.at);
        buffer[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Creates a file that only its owner can read.
fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Returns the path of the temporary copy of the tables: next to the backup, where there is enough space.
fn staged_copy_path(to: &Path) -> PathBuf {
    to.with_extension(format!("{}.database", std::process::id()))
}
