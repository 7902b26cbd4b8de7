//! Opens the consortium: data folder, keys, tables, files.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use crate::auth::provider::ProviderError;
use crate::auth::{Passwords, Provider};
use crate::config::Config;
use crate::ctx::{Addresses, Clock, Ctx, Parts, Random};
use crate::db::Db;
use crate::exchange::object;
use crate::keys::{self, ExternalSigner, LiveKeys, ServerSigner};
use crate::metrics::Metrics;
use crate::service::{audit_log, log, round, site_key};
use crate::tls::{ServedCertificate, TlsError};

/// A reason why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file or folder cannot be used.
    #[error("{path}: {source}")]
    File {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The server cannot listen at an address.
    #[error("cannot listen at {address}: {source}; is another server running there?")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The object store cannot be opened.
    #[error("the object store cannot be opened: {0}")]
    Store(#[from] object_store::Error),
    /// The database cannot be reached or brought up to date.
    #[error("the database cannot be used: {0}")]
    Database(#[from] sea_orm::DbErr),
    /// A running server's data cannot be used by another program beside it.
    #[error("{0}")]
    Unusable(String),
    /// The ledger's log is not this server's, or cannot be written.
    #[error("the ledger's log cannot be kept: {0}")]
    Log(#[source] crate::error::Error),
    /// There is no certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A configured identity provider cannot be used.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The HTTP, gRPC or metrics server ended with an error.
    #[error("serving failed: {0}")]
    Serve(#[source] io::Error),
}

/// Opens the service layer without any interface: data folder, keys, tables, files. The simulation opens a server this
/// way and reopens it after each crash.
///
/// # Errors
/// [`StartError`] names the part that cannot be used.
pub async fn open(
    config: Config,
    clock: Clock,
    random: Random,
    tls: Option<ServedCertificate>,
    addresses: Addresses,
) -> Result<Ctx, StartError> {
    data_folder(&config)?;
    let in_data = |source| StartError::File { path: config.data_dir.clone(), source };
    let external = ExternalSigner::open(&config.signer).map_err(in_data)?;
    let signer = ServerSigner::load(&config.data_dir, external, &random, clock.now()).await.map_err(in_data)?;
    if let Err(error) = signer.probe(clock.now()).await {
        tracing::error!(%error, "the external signer does not sign: what needs a signature is answered with 503 until it does");
    }
    let keys = LiveKeys::load(&config.data_dir, &random).map_err(in_data)?;
    let providers = Provider::load_all(&config)?;
    let db = Db::connect(&config.database()).await?;
    db.migrate().await?;
    let store = object::open(&config)?;
    object::answers(&store).await?;
    let metrics = Metrics::new(db.timings().clone());
    let ctx = Ctx::new(Parts {
        config,
        db,
        clock,
        random,
        signer,
        keys,
        providers,
        store,
        tls,
        passwords: Passwords::new(metrics.queues()),
        metrics,
        addresses,
        shutdown: CancellationToken::new(),
    });
    log::adopt(&ctx).await.map_err(StartError::Log)?;
    let adopted = site_key::adopt_keys(&ctx).await.map_err(StartError::Log)?;
    if adopted > 0 {
        tracing::info!(workers = adopted, "the keys of workers from before have their places in the signed log");
    }
    let sealed = audit_log::seal(&ctx).await.map_err(StartError::Log)?;
    if sealed > 0 {
        tracing::info!(entries = sealed, "the audit entries that waited have their places in the signed log");
    }
    if let Err(error) = round::clear_all(&ctx).await {
        tracing::warn!(%error, "what jobs that are over left behind was not removed");
    }
    Ok(ctx)
}

/// Opens the database and the keys of a server that may be running, for the commands of its terminal. Nothing is made, no table is
/// brought up to date, and the object store and the providers are left alone: what is stored meanwhile goes nowhere.
///
/// # Errors
/// [`StartError`] when there is no such server, or its tables are of another program.
pub async fn open_tables(
    config: Config,
    clock: Clock,
    random: Random,
    addresses: Addresses,
) -> Result<Ctx, StartError> {
    let in_data = |source| StartError::File { path: config.data_dir.clone(), source };
    let external = ExternalSigner::open(&config.signer).map_err(in_data)?;
    let signer = ServerSigner::load_existing(&config.data_dir, external, clock.now()).map_err(in_data)?;
    let has_tokens = keys::find_token_keys(&config.data_dir).map_err(in_data)?.is_some();
    let has_factors = keys::find_factor_keys(&config.data_dir).map_err(in_data)?.is_some();
    let signer = signer.filter(|_| has_tokens && has_factors).ok_or_else(|| {
        let folder = config.data_dir.display();
        StartError::Unusable(format!(
            "{folder} lacks signing.key, token.key or factor.key: name the server's data folder by `--config` or UNDERTONE_DATA_DIR"
        ))
    })?;
    let keys = LiveKeys::load(&config.data_dir, &random).map_err(in_data)?;
    // Looked at first: to connect for writing would make a missing SQLite file.
    let tables = Db::inspect(&config.database()).await?;
    let applied = tables.migrations().await;
    tables.close().await?;
    check_tables(&applied?)?;
    let db = Db::connect(&config.database()).await?;
    let metrics = Metrics::new(db.timings().clone());
    Ok(Ctx::new(Parts {
        config,
        db,
        clock,
        random,
        signer,
        keys,
        providers: Vec::new(),
        store: object::nowhere(),
        tls: None,
        passwords: Passwords::new(metrics.queues()),
        metrics,
        addresses,
        shutdown: CancellationToken::new(),
    }))
}

/// Refuses tables that are not those of this program.
fn check_tables(applied: &[String]) -> Result<(), StartError> {
    let expected = Db::list_migrations();
    let origin = if applied.iter().any(|one| !expected.contains(one)) {
        "a later"
    } else if applied.len() < expected.len() {
        "an earlier"
    } else {
        return Ok(());
    };
    Err(StartError::Unusable(format!(
        "the tables are of {origin} program than this one: run the command with the program that serves from them"
    )))
}

/// Creates the data folder, and in it the folder of objects if they are stored locally. A new folder is accessible to
/// its owner only, because it contains the tables and the keys.
///
/// # Errors
/// [`StartError::File`] when it cannot be made.
pub fn data_folder(config: &Config) -> Result<(), StartError> {
    let objects = config.data_dir.join("objects");
    let folder = if config.store.url.is_some() { &config.data_dir } else { &objects };
    let mut folders = std::fs::DirBuilder::new();
    folders.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
    folders.create(folder).map_err(|source| StartError::File { path: folder.clone(), source })?;
    if let Some(mode) = open_mode(&config.data_dir) {
        let remedy = format!("chmod 700 {}", config.data_dir.display());
        tracing::warn!(
            mode,
            remedy,
            "other users of this machine can enter the data folder: the keys and the tables are in it"
        );
    }
    Ok(())
}

/// Returns the mode of a folder that users other than its owner can access.
pub fn open_mode(folder: &Path) -> Option<String> {
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(folder).ok()?.permissions()) & 0o777;
        (mode & 0o077 != 0).then(|| format!("{mode:o}"))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::{data_folder, open_mode};
    use crate::config::Config;

    #[test]
    fn a_data_folder_that_is_made_is_its_owners_alone() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let config = Config { data_dir: dir.path().join("data"), ..Config::default() };
        data_folder(&config).expect("the folder is writable");
        for folder in [config.data_dir.clone(), config.data_dir.join("objects")] {
            let mode = std::fs::metadata(&folder).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", folder.display());
        }
        assert_eq!(open_mode(&config.data_dir), None);
        for (mode, told) in [(0o750, Some("750")), (0o701, Some("701")), (0o700, None)] {
            std::fs::set_permissions(&config.data_dir, std::fs::Permissions::from_mode(mode))
                .expect("the folder is ours");
            assert_eq!(open_mode(&config.data_dir).as_deref(), told);
        }
    }
}
