//! `undertone-server`: the command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use undertone_server::ctx::{Clock, Random};
use undertone_server::service::setup;
use undertone_server::{Config, Ctx, build, telemetry};

/// The server of an Undertone consortium.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// Configuration file (TOML). Every key can also be set in the environment: `UNDERTONE_HTTP`, `UNDERTONE_TLS__MODE`.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve REST, dashboard and workers until interrupted.
    Serve,
    /// Show a whole consortium with its workers on this machine.
    Demo(undertone_server::demo::Options),
    /// Bring the database up to date and stop.
    Migrate,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("undertone-server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let built_in = match &arguments.command {
        Command::Demo(_) => undertone_server::demo::built_in(),
        Command::Serve | Command::Migrate => Config::default(),
    };
    let config = built_in.overlaid(arguments.config.as_deref())?;
    telemetry::start(&config.log)?;
    match arguments.command {
        Command::Serve => {
            let app = build(config, Clock::system(), Random::system()).await?;
            stop_when_told(app.ctx.clone());
            println!("Undertone is at {}", app.ctx.addresses.http);
            if let Some(link) = setup::operator_link(&app.ctx).await? {
                println!("Nobody runs this server yet. Become its operator, once, within 7 days:\n    {link}");
            }
            app.serve().await?;
        }
        Command::Demo(options) => undertone_server::demo::run(options, config, stop_when_told).await?,
        Command::Migrate => {
            let db = undertone_server::db::Db::connect(&config.database()).await?;
            db.migrate().await?;
            db.close().await?;
            println!("The database is up to date.");
        }
    }
    Ok(())
}

/// Stops the server when the terminal (or whatever started it) says so.
fn stop_when_told(ctx: Ctx) {
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
