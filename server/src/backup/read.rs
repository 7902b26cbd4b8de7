//! Restores a backup. It is first extracted to a separate folder, then the ledger is verified, and only then are the
//! keys put where a server finds them.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use age::secrecy::SecretString;
use ed25519_dalek::VerifyingKey;
use futures::TryStreamExt as _;
use object_store::{ObjectStore as _, WriteMultipart};
use object_store::{ObjectStoreExt as _, path::Path as ObjectPath};
use tar::Archive;
use time::OffsetDateTime;
use tokio::runtime::Handle;

use super::database::Kind;
use super::{BackupError, Contents, End, FORMAT, VERSION, at};
use crate::terminal::verify as command;
use undertone_server_core::config::Config;
use undertone_server_core::ctx::Clock;
use undertone_server_core::db::Db;
use undertone_server_core::exchange::object::{self, Store};
use undertone_server_core::keys::{self, ExternalSigner, ServerSigner};
use undertone_server_core::service::restoration::state_restoration;
use undertone_server_core::service::{bundle, factor};
use undertone_server_core::verify::{Pins, Report};

/// Bytes of an object that are read at a time.
const PIECE: usize = 1 << 20;
/// The highest accepted scrypt work factor: 32 times that of [`write`](super::write) (4 GiB), for backups of later
/// versions.
const MOST_WORK: u8 = 22;

/// Restores a backup into the configured places, which must be empty.
///
/// # Errors
/// [`BackupError`]. In that case no part of the backup remains, except the tables on PostgreSQL.
pub async fn read(
    config: &Config,
    from: &Path,
    passphrase: SecretString,
    heads: &[PathBuf],
    reason: &str,
) -> Result<Report, BackupError> {
    let (kind, heads) = (Kind::of(config), heads.iter().map(|path| head(path)).collect::<Result<Vec<_>, _>>()?);
    std::fs::create_dir_all(&config.data_dir).map_err(at(&config.data_dir))?;
    vacant(config, &kind).await?;
    let store = object::open(&with_folder(config)?)?;
    if store.list(None).try_next().await?.is_some() {
        return Err(BackupError::Occupied { place: "the object store".to_owned() });
    }
    let staged = config.data_dir.join("restoring.part");
    // The remains of an interrupted attempt.
    let _ = std::fs::remove_dir_all(&staged);
    std::fs::create_dir(&staged).map_err(at(&staged))?;
    let restored = restored(config, &kind, from, passphrase, &Stated { heads: &heads, reason }, &staged, &store).await;
    if !restored.as_ref().is_ok_and(Report::holds) {
        let _ = object::remove_all(&store, &ObjectPath::default()).await;
    }
    let _ = std::fs::remove_dir_all(&staged);
    restored
}

/// The operator's statements about the backup.
struct Stated<'a> {
    /// Heads that sites have stored; the restored log must continue them.
    heads: &'a [Pins],
    /// The reason of the restoration.
    reason: &'a str,
}

async fn restored(
    config: &Config,
    kind: &Kind,
    from: &Path,
    passphrase: SecretString,
    stated: &Stated<'_>,
    staged: &Path,
    store: &Store,
) -> Result<Report, BackupError> {
    let (path, to, objects, handle) = (from.to_owned(), staged.to_owned(), store.clone(), Handle::current());
    let name = kind.name();
    let taken_out = tokio::task::spawn_blocking(move || take_out(&path, passphrase, name, &to, &objects, &handle));
    taken_out.await.map_err(|error| {
        BackupError::Read(undertone_server_core::error::Error::internal("reading a backup", error))
    })??;
    let address = kind.stage(&staged.join("database")).await?;
    let db = Db::connect(&address).await?;
    db.migrate().await?;
    let key = own_key(&staged.join("keys"), from)?;
    own_secrets(&db, &staged.join("keys"), from).await?;
    let now = Clock::system().now();
    let examine = async |pins: Pins| bundle::examine(&db, &key, pins, now).await.map_err(BackupError::Read);
    let mut report = examine(Pins::default()).await?;
    for pins in stated.heads {
        if report.holds() {
            report = examine(pins.clone()).await?;
        }
    }
    if report.holds() {
        let signer = own_signer(config, &staged.join("keys"), from, now)?;
        state_restoration(&db, &signer, now, stated.reason).await.map_err(BackupError::Read)?;
    }
    db.close().await?;
    if report.holds() {
        kind.place(&staged.join("database"))?;
        place_keys(&staged.join("keys"), &config.data_dir)?;
    }
    Ok(report)
}

/// Creates the folder of objects, which must exist to be opened.
fn with_folder(config: &Config) -> Result<Config, BackupError> {
    if config.store.url.is_none() {
        let objects = config.data_dir.join("objects");
        std::fs::create_dir_all(&objects).map_err(at(&objects))?;
    }
    Ok(config.clone())
}

/// Refuses to overwrite an existing server.
async fn vacant(config: &Config, kind: &Kind) -> Result<(), BackupError> {
    let key = config.data_dir.join("signing.key");
    if key.exists() {
        return Err(BackupError::Occupied { place: config.data_dir.display().to_string() });
    }
    if kind.is_empty().await? {
        return Ok(());
    }
    Err(BackupError::Occupied { place: "the database".to_owned() })
}

/// Decrypts the file and extracts its members: files into `to`, objects into the store.
fn take_out(
    from: &Path,
    passphrase: SecretString,
    database: &str,
    to: &Path,
    store: &Store,
    handle: &Handle,
) -> Result<(), BackupError> {
    let sealed = |error: &dyn std::fmt::Display| BackupError::Sealed { path: from.to_owned(), why: error.to_string() };
    let wrong = |why: &str| BackupError::Contents { path: from.to_owned(), why: why.to_owned() };
    let file = BufReader::new(File::open(from).map_err(at(from))?);
    let opening = age::Decryptor::new_buffered(file).map_err(|error| sealed(&error))?;
    let mut identity = age::scrypt::Identity::new(passphrase);
    identity.set_max_work_factor(MOST_WORK);
    let opened = opening.decrypt(std::iter::once(&identity as _)).map_err(|error| sealed(&error))?;
    let mut archive = Archive::new(zstd::Decoder::new(opened).map_err(|error| sealed(&error))?);
    let (mut contents, mut end, mut found) = (None::<Contents>, None::<End>, End::default());
    std::fs::create_dir(to.join("keys")).map_err(at(to))?;
    for member in archive.entries().map_err(|error| sealed(&error))? {
        let mut member = member.map_err(|error| sealed(&error))?;
        let name = String::from_utf8_lossy(&member.path_bytes()).into_owned();
        if contents.is_none() {
            let read: Contents =
                serde_json::from_reader(&mut member).map_err(|_| wrong("it does not begin with backup.json"))?;
            check(&read, database).map_err(|why| wrong(&why))?;
            contents = Some(read);
        } else if name == "database" {
            copy(&mut member, &to.join("database")).map_err(at(to))?;
        } else if let Some(key) = name.strip_prefix("keys/").filter(|key| !key.contains('/') && !key.starts_with('.')) {
            copy(&mut member, &to.join("keys").join(key)).map_err(at(to))?;
            found.keys += 1;
        } else if let Some(object) = name.strip_prefix("objects/") {
            found.bytes += put(&mut member, object, store, handle, from)?;
            found.objects += 1;
        } else if name == "end.json" {
            end = Some(serde_json::from_reader(&mut member).map_err(|_| wrong("end.json cannot be read"))?);
        } else {
            return Err(wrong(&format!("nobody knows what its member {name} is")));
        }
    }
    let end = end.ok_or_else(|| wrong("its end is missing"))?;
    if (End { gone: end.gone, ..found }) == end && to.join("database").is_file() {
        return Ok(());
    }
    Err(wrong("members are missing"))
}

/// Checks that a backup can be restored here.
fn check(contents: &Contents, database: &str) -> Result<(), String> {
    if contents.format != FORMAT || contents.version != VERSION {
        return Err(format!("its format is {} {}, not {FORMAT} {VERSION}", contents.format, contents.version));
    }
    if contents.database != database {
        return Err(format!("its tables are of {}, and database_url names {database}", contents.database));
    }
    let known = Db::list_migrations();
    let applied = undertone_server_core::db::translate_steps(contents.migrations.clone());
    match applied.iter().find(|migration| !known.contains(migration)) {
        Some(newer) => {
            Err(format!("its tables are newer than this program ({newer}): use {} or later", contents.program))
        }
        None => Ok(()),
    }
}

fn copy(from: &mut impl Read, to: &Path) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(to)?;
    std::io::copy(from, &mut file)?;
    file.sync_all()
}

fn put(from: &mut impl Read, name: &str, store: &Store, handle: &Handle, file: &Path) -> Result<u64, BackupError> {
    let path = ObjectPath::from(name);
    let (mut piece, mut size) = (vec![0; PIECE], 0);
    let mut writer = WriteMultipart::new(handle.block_on(store.put_multipart(&path))?);
    loop {
        let count = from.read(&mut piece).map_err(at(file))?;
        if count == 0 {
            break;
        }
        handle.block_on(writer.wait_for_capacity(1))?;
        writer.write(&piece[..count]);
        size += count as u64;
    }
    handle.block_on(writer.finish())?;
    Ok(size)
}

/// Returns the key that verifies the ledger: the backup's own.
fn own_key(folder: &Path, from: &Path) -> Result<VerifyingKey, BackupError> {
    let key = keys::verifying_key(folder).map_err(at(folder))?;
    key.ok_or_else(|| BackupError::Contents { path: from.to_owned(), why: "it has no signing.key".to_owned() })
}

/// Returns the key that signs the statement of the restoration: the backup's own.
fn own_signer(config: &Config, folder: &Path, from: &Path, now: OffsetDateTime) -> Result<ServerSigner, BackupError> {
    let external = ExternalSigner::open(&config.signer).map_err(at(folder))?;
    let key = ServerSigner::load_existing(folder, external, now).map_err(at(folder))?;
    key.ok_or_else(|| BackupError::Contents { path: from.to_owned(), why: "it has no signing.key".to_owned() })
}

/// Checks the other secrets: each is readable, and the key of second factors decrypts every stored one. With another
/// key, every member with a second factor would be locked out.
async fn own_secrets(db: &Db, folder: &Path, from: &Path) -> Result<(), BackupError> {
    let wrong = |why: String| BackupError::Contents { path: from.to_owned(), why };
    let unreadable = |error: std::io::Error| wrong(error.to_string());
    keys::find_token_keys(folder).map_err(unreadable)?.ok_or_else(|| wrong("it has no token.key".to_owned()))?;
    let key = keys::find_factor_keys(folder).map_err(unreadable)?;
    let (all, locked) = factor::locked_out(db, key.as_ref()).await.map_err(BackupError::Read)?;
    if locked == 0 {
        return Ok(());
    }
    let key =
        if key.is_some() { "were sealed by another factor.key" } else { "cannot be opened: it has no factor.key" };
    Err(wrong(format!(
        "{locked} of {all} second factors {key}; put the right one into the data folder and make the backup again"
    )))
}

/// Moves the files of the data folder into place. The signing key is last, because no server exists without it.
fn place_keys(from: &Path, to: &Path) -> Result<(), BackupError> {
    let mut names: Vec<_> = std::fs::read_dir(from)
        .map_err(at(from))?
        .filter_map(|entry| entry.ok().map(|entry| entry.file_name()))
        .collect();
    names.sort_by_key(|name| name == "signing.key");
    for name in names {
        std::fs::rename(from.join(&name), to.join(&name)).map_err(at(to))?;
    }
    Ok(())
}

fn head(path: &Path) -> Result<Pins, BackupError> {
    let head = command::head(path);
    let head = head.map_err(|error| BackupError::Contents { path: path.to_owned(), why: error.to_string() })?;
    Ok(Pins { server_key: None, head: Some(head) })
}
