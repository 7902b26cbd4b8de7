//! Builds a running server from a configuration.

use std::io;
use std::net::{SocketAddr, TcpListener};

use axum::Router;

use crate::connections::{ConnectionLimits, SHUTDOWN_GRACE, ServedListener, open_files};
use crate::{connections, dashboard, grpc, metrics, rest};
use undertone_server_core::config::Config;
use undertone_server_core::ctx::{Addresses, Clock, Ctx, Random};
use undertone_server_core::service::{change, delivery, scheduler};
use undertone_server_core::tls::ServedCertificate;
use undertone_server_core::{StartError, certificate_renewal, data_folder, open};

/// A server that listens and is ready to serve.
pub struct App {
    /// The context of the service layer.
    pub ctx: Ctx,
    /// REST and dashboard.
    pub router: Router,
    http: TcpListener,
    grpc: TcpListener,
    metrics: Option<TcpListener>,
}

/// Builds the server: data folder, keys, certificate, tables, listeners. It serves no request before [`App::serve`].
///
/// # Errors
/// [`StartError`] names the part that cannot be used.
pub async fn build(config: Config, clock: Clock, random: Random) -> Result<App, StartError> {
    // The process may already have a default provider, which is also ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match open_files::raise_limit() {
        Ok(files) => tracing::debug!(files, "raised the limit of open files"),
        Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
    }
    data_folder(&config)?;
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let tls = ServedCertificate::begin(&config, clock.now())?;
    let http = listen(config.http)?;
    let grpc = listen(config.grpc)?;
    let metrics = config.metrics.map(listen).transpose()?;
    let addresses = Addresses {
        http: address(config.public_url.as_deref(), &http, tls.is_some())?,
        grpc: address(config.public_grpc.as_deref(), &grpc, tls.is_some())?,
    };
    let ctx = open(config, clock, random, tls, addresses).await?;
    let router = router(&ctx)?;
    Ok(App { ctx, router, http, grpc, metrics })
}

/// Builds the router of REST and dashboard.
pub(crate) fn router(ctx: &Ctx) -> Result<Router, StartError> {
    let dist = ctx.config.dist.clone();
    let pages = dashboard::router(ctx, dist.as_deref())
        .map_err(|source| StartError::File { path: dist.unwrap_or_default(), source })?;
    Ok(rest::outside(ctx, rest::router(ctx).merge(pages)))
}

fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    connections::listen(address).map_err(|source| StartError::Listen { address, source })
}

fn address(public: Option<&str>, listener: &TcpListener, tls: bool) -> Result<String, StartError> {
    if let Some(url) = public {
        return Ok(url.trim_end_matches('/').to_owned());
    }
    let scheme = if tls { "https" } else { "http" };
    Ok(format!("{scheme}://{}", listener.local_addr().map_err(StartError::Serve)?))
}

impl App {
    /// Serves HTTP and gRPC until `ctx.shutdown` is cancelled; open requests then have ten seconds to finish.
    ///
    /// # Errors
    /// [`StartError::Serve`] if one of the servers ends by itself.
    pub async fn serve(self) -> Result<(), StartError> {
        tracing::info!(http = self.ctx.addresses.http, grpc = self.ctx.addresses.grpc, "serving");
        let Self { ctx, router, http, grpc: workers, metrics: watchers } = self;
        tokio::spawn(scheduler::keep(ctx.clone()));
        tokio::spawn(delivery::keep(ctx.clone()));
        tokio::spawn(change::keep(ctx.clone()));
        let watched = async {
            match watchers {
                Some(listener) => metrics::serve(&ctx, listener).await,
                None => Ok(()),
            }
        };
        let all = tokio::try_join!(
            serve_http(&ctx, router, http),
            grpc::serve(&ctx, workers),
            in_time(&ctx, watched),
            certificate_renewal::keep(&ctx)
        );
        ctx.shutdown.cancel();
        all.map_err(StartError::Serve)?;
        tracing::info!("stopped");
        Ok(())
    }
}

/// Serves REST and dashboard until `ctx.shutdown` is cancelled.
async fn serve_http(ctx: &Ctx, router: Router, listener: TcpListener) -> io::Result<()> {
    let tls = ctx.tls.as_ref().map(|shown| shown.handshake(&[b"h2", b"http/1.1"])).transpose()?;
    let limits = ConnectionLimits::new(ctx.config.connections, ctx.config.http_behind_proxy, false);
    let served = ServedListener { name: "http", listener, tls, router, limits };
    served.serve(ctx.metrics.clone(), ctx.shutdown.clone(), SHUTDOWN_GRACE).await
}

/// Runs the server to its end, but for at most [`SHUTDOWN_GRACE`] after shutdown begins.
async fn in_time(ctx: &Ctx, served: impl Future<Output = io::Result<()>>) -> io::Result<()> {
    let late = async {
        ctx.shutdown.cancelled().await;
        tokio::time::sleep(SHUTDOWN_GRACE).await;
    };
    tokio::select! {
        served = served => served,
        () = late => {
            tracing::warn!("aborted unfinished calls at shutdown");
            Ok(())
        }
    }
}

/// Begins the shutdown of a server when the process receives an interrupt or a termination signal.
pub fn stop_on_signal(ctx: Ctx) {
    tokio::spawn(async move {
        let interrupt = tokio::signal::ctrl_c();
        #[cfg(unix)]
        {
            let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) else {
                return;
            };
            tokio::select! {
                _ = interrupt => {}
                _ = terminate.recv() => {}
            }
        }
        #[cfg(not(unix))]
        let _ = interrupt.await;
        ctx.shutdown.cancel();
    });
}
