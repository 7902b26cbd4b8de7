//! From a configuration to a running server.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum_server::Handle;
use axum_server::tls_rustls::RustlsConfig;
use tokio_util::sync::CancellationToken;

use crate::auth::provider::ProviderError;
use crate::auth::{Passwords, Provider};
use crate::config::Config;
use crate::ctx::{Addresses, Clock, Ctx, Parts, Random};
use crate::db::Db;
use crate::exchange::object;
use crate::metrics::Metrics;
use crate::service::{duty, log, round};
use crate::tls::{Shown, TlsError};
use crate::{dashboard, grpc, keys, metrics, rest, tls};

/// How long requests may go on after the server was told to stop.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// A server that listens and is ready to serve.
pub struct App {
    /// What its rules use.
    pub ctx: Ctx,
    /// REST and dashboard.
    pub router: Router,
    http: TcpListener,
    grpc: TcpListener,
    metrics: Option<TcpListener>,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file or folder cannot be used.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {source}; is another server running there?")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The object store cannot be opened.
    #[error("the object store cannot be opened: {0}")]
    Store(#[from] object_store::Error),
    /// The database cannot be reached or brought up to date.
    #[error("the database cannot be used: {0}")]
    Database(#[from] sea_orm::DbErr),
    /// The ledger's log is not this server's, or cannot be written.
    #[error("the ledger's log cannot be kept: {0}")]
    Log(#[source] crate::error::Error),
    /// There is no certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Nobody can be signed in at the provider that is configured.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The faces ended by themselves.
    #[error("serving failed: {0}")]
    Serve(#[source] io::Error),
}

/// Makes the whole: data folder, keys, certificate, tables, listeners. Nothing is served before [`App::serve`].
///
/// # Errors
/// [`StartError`] names what cannot be used.
pub async fn build(config: Config, clock: Clock, random: Random) -> Result<App, StartError> {
    // The process may have one already; both are ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    data_folder(&config)?;
    let tls = Shown::begin(&config, clock.now())?;
    let (http, grpc) = (listen(config.http)?, listen(config.grpc)?);
    let metrics = config.metrics.map(listen).transpose()?;
    let addresses = Addresses {
        http: address(config.public_url.as_deref(), &http, tls.is_some())?,
        grpc: address(config.public_grpc.as_deref(), &grpc, tls.is_some())?,
    };
    let ctx = open(config, clock, random, tls, addresses).await?;
    let dist = ctx.config.dist.clone();
    let pages = dashboard::router(&ctx, dist.as_deref())
        .map_err(|source| StartError::File { path: dist.unwrap_or_default(), source })?;
    let router = rest::outside(&ctx, rest::router(&ctx).merge(pages));
    Ok(App { ctx, router, http, grpc, metrics })
}

/// Makes what the rules stand on, without a face: data folder, keys, tables, files. The simulation opens a server so, and
/// opens it again after each death.
///
/// # Errors
/// [`StartError`] names what cannot be used.
pub async fn open(
    config: Config,
    clock: Clock,
    random: Random,
    tls: Option<Shown>,
    addresses: Addresses,
) -> Result<Ctx, StartError> {
    data_folder(&config)?;
    let in_data = |source| StartError::File { path: config.data_dir.clone(), source };
    let signer = keys::signing_key(&config.data_dir, &random).map_err(in_data)?;
    let token_key = keys::token_key(&config.data_dir, &random).map_err(in_data)?;
    let provider = Provider::of(&config.oidc)?;
    let factor_key = keys::factor_key(&config.data_dir, &random).map_err(in_data)?;
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
        token_key,
        factor_key,
        provider,
        store,
        tls,
        metrics,
        addresses,
        passwords: Passwords::default(),
        shutdown: CancellationToken::new(),
    });
    log::adopt(&ctx).await.map_err(StartError::Log)?;
    if let Err(error) = round::clear_all(&ctx).await {
        tracing::warn!(%error, "what jobs that are over left behind was not removed");
    }
    Ok(ctx)
}

/// Makes the data folder, with the place of vectors and files in it when they are kept there. One that is made here is its owner's alone:
/// the tables and the keys are in it.
fn data_folder(config: &Config) -> Result<(), StartError> {
    let objects = config.data_dir.join("objects");
    let folder = if config.store.url.is_some() { &config.data_dir } else { &objects };
    let mut folders = std::fs::DirBuilder::new();
    folders.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
    folders.create(folder).map_err(|source| StartError::File { path: folder.clone(), source })
}

fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    let listener = TcpListener::bind(address).map_err(|source| StartError::Listen { address, source })?;
    listener.set_nonblocking(true).map_err(|source| StartError::Listen { address, source })?;
    Ok(listener)
}

fn address(public: Option<&str>, listener: &TcpListener, tls: bool) -> Result<String, StartError> {
    if let Some(url) = public {
        return Ok(url.trim_end_matches('/').to_owned());
    }
    let scheme = if tls { "https" } else { "http" };
    Ok(format!("{scheme}://{}", listener.local_addr().map_err(StartError::Serve)?))
}

impl App {
    /// Serves both faces until `ctx.shutdown` is cancelled; requests under way get ten seconds to end.
    ///
    /// # Errors
    /// [`StartError::Serve`] when a face ends by itself.
    pub async fn serve(self) -> Result<(), StartError> {
        tracing::info!(http = self.ctx.addresses.http, grpc = self.ctx.addresses.grpc, "serving");
        let Self { ctx, router, http, grpc: workers, metrics: watchers } = self;
        tokio::spawn(duty::keep(ctx.clone()));
        let watched = async {
            match watchers {
                Some(listener) => metrics::serve(&ctx, listener).await,
                None => Ok(()),
            }
        };
        let all = tokio::try_join!(
            serve_http(&ctx, router, http),
            in_time(&ctx, grpc::serve(&ctx, workers)),
            in_time(&ctx, watched),
            tls::keep(&ctx)
        );
        ctx.shutdown.cancel();
        all.map_err(StartError::Serve)?;
        tracing::info!("stopped");
        Ok(())
    }
}

async fn serve_http(ctx: &Ctx, router: Router, listener: TcpListener) -> io::Result<()> {
    let handle = Handle::new();
    let (stop, told) = (handle.clone(), ctx.shutdown.clone());
    let stopper = tokio::spawn(async move {
        told.cancelled().await;
        stop.graceful_shutdown(Some(GRACE));
    });
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let served = match &ctx.tls {
        Some(shown) => {
            let tls = RustlsConfig::from_config(shown.handshake(&[b"h2", b"http/1.1"])?);
            axum_server::from_tcp_rustls(listener, tls)?.handle(handle).serve(service).await
        }
        None => axum_server::from_tcp(listener)?.handle(handle).serve(service).await,
    };
    stopper.abort();
    served
}

/// Serves to the end, or for [`GRACE`] after the server was told to stop.
async fn in_time(ctx: &Ctx, served: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    let late = async {
        ctx.shutdown.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        served = served => served,
        () = late => {
            tracing::warn!("calls that had not ended were cut off");
            Ok(())
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::data_folder;
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
    }
}
