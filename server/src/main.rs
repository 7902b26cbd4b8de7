//! `undertone-server`: the command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use undertone_certificate::escape_line;
use undertone_server::serving::ServingLock;
use undertone_server::terminal::verify;
use undertone_server::{backup, build, doctor, stop_on_signal, telemetry, terminal};
use undertone_server_core::ctx::{Clock, Random};
use undertone_server_core::service::{restoration, setup};
use undertone_server_core::{Config, config};

/// The exit status of a verification with findings, as that of the other programs; 1 means that the command failed, and 2 that
/// its arguments are wrong.
const UNSOUND: u8 = 3;

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
    /// Apply pending database migrations and exit.
    Migrate,
    /// Verify certificates.
    #[command(subcommand)]
    Certificate(CertificateCommand),
    /// Write the egress dossier of a job: the questions of people who decide whether a result may leave, with answers, proofs and
    /// limits. The server may be running. The exit status is 3 if a proof does not hold or an item is
    /// incomplete.
    Dossier(terminal::dossier::DossierOptions),
    /// Write an encrypted backup of the database, keys and objects to one file. The server may be running.
    Backup(backup::command::BackupOptions),
    /// Restore a backup into an empty data folder, database and object store, and verify its ledger.
    Restore(backup::command::RestoreOptions),
    /// Record that the database was restored without `restore`, for example by point-in-time recovery. Run this before the server
    /// starts on that database; the sites then resend the receipts that it lacks.
    StateRestoration {
        /// The reason, which is sent to every site: 1 to 500 characters.
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Show the effective configuration and the source of each value, with secrets masked.
    Config(ConfigOptions),
    /// Verify the whole ledger, in the database or in a bundle: every chain, signature, head, price and sum. Writes nothing.
    Verify(verify::VerifyOptions),
    /// Check the configuration, data folder, database, object store, keys and alarms, and suggest a remedy for each fault. The server
    /// may be running. The exit status is 1 if a check failed.
    Doctor(doctor::DoctorOptions),
    /// Export the ledger.
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Restore access for an operator who cannot sign in. Each use is logged, and the operators are notified.
    #[command(subcommand)]
    Operator(terminal::OperatorCommand),
    /// Manage the server's keys for tokens, second factors and signatures.
    #[command(subcommand)]
    Keys(terminal::keys::KeysCommand),
}

#[derive(clap::Args)]
struct ConfigOptions {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Print a Markdown table of the configuration keys with their defaults and descriptions.
    #[arg(long, conflicts_with = "json")]
    table: bool,
    /// Print a Markdown table of the metrics that `/metrics` reports.
    #[arg(long, conflicts_with_all = ["json", "table"])]
    metrics: bool,
}

#[derive(Subcommand)]
enum LedgerCommand {
    /// Write a bundle to verify the ledger on another machine.
    Export {
        /// The bundle file (JSON lines).
        file: PathBuf,
    },
}

#[derive(Subcommand)]
enum CertificateCommand {
    /// Verify a certificate file: signatures, receipts, counts and every figure. Needs no server, database or network.
    Verify(undertone_server::terminal::certificate::CertificateOptions),
}

#[tokio::main]
async fn main() -> ExitCode {
    match Box::pin(run(Arguments::parse())).await {
        Ok(code) => code,
        Err(error) => {
            // An error can quote a file of unknown origin.
            let lines: Vec<String> = error.to_string().lines().map(escape_line).collect();
            eprintln!("undertone-server: {}", lines.join("\n"));
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
                    "This server has no operator yet. The first operator registers with this link, which is valid once, for 7 days:\n    {place}"
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
        ServerCommand::Dossier(options) => {
            let defects = terminal::dossier::run(config, &options).await?;
            for defect in &defects {
                eprintln!("undertone-server: {}", escape_line(defect));
            }
            if !defects.is_empty() {
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
            print!("{}", undertone_server_core::metrics::table());
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
                    "The ledger failed verification. The keys were not installed, so no server starts with this copy."
                );
                return Ok(ExitCode::from(UNSOUND));
            }
            println!(
                "The server is restored to this state, and its log records the restoration. Each site resends the receipts that this \
                 state lacks when it next connects; until then its datasets take part in no new job."
            );
        }
        ServerCommand::StateRestoration { reason } => {
            let _lock = ServingLock::take(&config)?;
            let stated = restoration::command(&config, &reason).await?;
            println!(
                "The log records a restoration to {} entries. Start the server: each site resends the receipts that this state lacks \
                 when it next connects.",
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
            println!("The ledger was exported to {}.", file.display());
            if changed > 0 {
                eprintln!("{changed} rows were modified after they were written: run `undertone-server verify`");
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
