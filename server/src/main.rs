//! `undertone-server`: the command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use undertone_server::serving::ServingLock;
use undertone_server::terminal::verify;
use undertone_server::{backup, build, doctor, stop_on_signal, telemetry, terminal};
use undertone_server_core::ctx::{Clock, Random};
use undertone_server_core::service::{restoration, setup};
use undertone_server_core::{Config, Ctx, config};

/// The exit status of a verification with findings; 1 means that the command failed.
const UNSOUND: u8 = 2;

/// The server of an Undertone consortium.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// Configuration file (TOML). Every key can also be set in the environment: `UNDERTONE_HTTP`, `UNDERTONE_TLS__MODE`.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: ServerCommand,
}

#[derive(Subcommand)]
enum ServerCommand {
    /// Serve REST, dashboard and workers until interrupted.
    Serve,
    /// Bring the database up to date and stop.
    Migrate,
    /// What concerns certificates.
    #[command(subcommand)]
    Certificate(CertificateCommand),
    /// Write everything that this server consists of into one sealed file; it may run meanwhile.
    Backup(backup::command::BackupOptions),
    /// Make a server of a backup, in an empty data folder, database and store, and examine its ledger.
    Restore(backup::command::RestoreOptions),
    /// State that the database was put back to an earlier state by other means than `restore`, such as point-in-time recovery. Run it
    /// before the server starts on that database: the sites then give back the receipts that it lacks.
    StateRestoration {
        /// The reason, stated to every site: 1 to 500 characters.
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Show the configuration in force and where each value comes from; secrets are masked.
    Config(ConfigOptions),
    /// Examine the whole ledger, in the database or in a bundle: every chain, signature, head, price and sum. Writes nothing.
    Verify(verify::VerifyOptions),
    /// Examine what this server needs, from its configuration to its alarms, and name a remedy for each fault. Works beside the
    /// running server. The exit status is 1 when a check failed.
    Doctor(doctor::DoctorOptions),
    /// What concerns the ledger.
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Let an operator in when none can sign in. Logged, and announced to the operators.
    #[command(subcommand)]
    Operator(terminal::OperatorCommand),
    /// Replace the server's keys: those of tokens, of second factors and of signatures.
    #[command(subcommand)]
    Keys(terminal::keys::KeysCommand),
}

#[derive(clap::Args)]
struct ConfigOptions {
    /// As one JSON document.
    #[arg(long)]
    json: bool,
    /// Every key with what is built in and what it means, as a table of Markdown, instead.
    #[arg(long, conflicts_with = "json")]
    table: bool,
    /// Every metric that `/metrics` has, as a table of Markdown, instead.
    #[arg(long, conflicts_with_all = ["json", "table"])]
    metrics: bool,
}

#[derive(Subcommand)]
enum LedgerCommand {
    /// Write everything that somebody elsewhere needs to verify the ledger into a file.
    Export {
        /// The bundle: JSON lines.
        file: PathBuf,
    },
}

#[derive(Subcommand)]
enum CertificateCommand {
    /// Check a certificate's file: signatures, receipts, counts, every figure. Needs no server, database or network.
    Verify(undertone_server::terminal::certificate::CertificateOptions),
}

#[tokio::main]
async fn main() -> ExitCode {
    match Box::pin(run(Arguments::parse())).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("undertone-server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn std::error::Error>> {
    // Before the configuration is read, because its errors are findings too.
    if let ServerCommand::Doctor(options) = &arguments.command {
        return Ok(examine(arguments.config.as_deref(), options).await);
    }
    let built_in = Config::default();
    let file = arguments.config.as_deref();
    let config = built_in.overlaid(file)?;
    // Lives until the end, when the last traces are sent.
    let _traces = telemetry::start(&config.log)?;
    match arguments.command {
        ServerCommand::Serve => {
            let mut lock = ServingLock::take(&config)?;
            let app = build(config, Clock::system(), Random::system()).await?;
            lock.describe(&app.ctx.addresses.http)?;
            stop_on_signal(app.ctx.clone());
            println!("Undertone is at {}", app.ctx.addresses.http);
            if let Some(link) = setup::operator_link(&app.ctx).await? {
                let place = terminal::announce_first_link(&app.ctx.config.data_dir, &link)?;
                println!(
                    "This server has no operator yet. Its first operator comes in by a link, once, within 7 days:\n    {place}"
                );
            }
            app.serve().await?;
        }
        ServerCommand::Operator(command) => println!("{}", terminal::run(config, &command).await?),
        ServerCommand::Keys(command) => println!("{}", terminal::keys::run(&config, &command).await?),
        ServerCommand::Certificate(CertificateCommand::Verify(options)) => {
            let verdict = undertone_server::terminal::certificate::run(&options)?;
            print!("{verdict}");
            if !verdict.holds() {
                return Ok(ExitCode::from(UNSOUND));
            }
        }
        ServerCommand::Migrate => {
            let db = undertone_server_core::db::Db::connect(&config.database()).await?;
            db.migrate().await?;
            db.close().await?;
            println!("The database is up to date.");
        }
        ServerCommand::Config(ConfigOptions { table: true, .. }) => print!("{}", config::keys::table()),
        ServerCommand::Config(ConfigOptions { metrics: true, .. }) => {
            print!("{}", undertone_server_core::metrics::table())
        }
        ServerCommand::Config(ConfigOptions { json: true, .. }) => {
            println!("{}", serde_json::to_string_pretty(&built_in.settings(file)?)?);
        }
        ServerCommand::Config(_) => {
            for config::Setting { key, value, source } in built_in.settings(file)? {
                println!("{key:<26} {source:<12} {value}");
            }
        }
        ServerCommand::Backup(options) => println!("{}", backup::command::backup(&config, &options).await?),
        ServerCommand::Restore(options) => {
            let report = backup::command::restore(&config, &options).await?;
            println!("{report}");
            if !report.holds() {
                eprintln!(
                    "The ledger does not hold: the keys were not put in place, and no server starts with this copy."
                );
                return Ok(ExitCode::from(UNSOUND));
            }
            println!(
                "The server is restored to this state, and its log states that. Each site gives back the receipts that this state \
                 lacks when it next reaches the server; until then its datasets take part in no new job."
            );
        }
        ServerCommand::StateRestoration { reason } => {
            let _lock = ServingLock::take(&config)?;
            let stated = restoration::command(&config, &reason).await?;
            println!(
                "The log states that it was put back to {} entries. Start the server: each site gives back the receipts that this \
                 state lacks when it next reaches the server.",
                stated.size
            );
        }
        ServerCommand::Verify(options) => {
            let report = verify::verify(&config, &options).await?;
            println!("{report}");
            if !report.holds() {
                return Ok(ExitCode::from(UNSOUND));
            }
        }
        // Handled above.
        ServerCommand::Doctor(_) => {}
        ServerCommand::Ledger(LedgerCommand::Export { file }) => {
            let changed = verify::export(&config, &file).await?;
            println!("The ledger is in {}.", file.display());
            if changed > 0 {
                eprintln!("{changed} rows are not those that were written: run `undertone-server verify`");
                return Ok(ExitCode::from(UNSOUND));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks the server of a configuration and prints the results.
async fn examine(file: Option<&Path>, options: &doctor::DoctorOptions) -> ExitCode {
    let report = doctor::run(file, &Clock::system()).await;
    if options.json {
        println!("{:#}", report.to_json());
    } else {
        println!("{report}");
    }
    if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
