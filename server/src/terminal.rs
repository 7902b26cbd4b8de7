//! The command line of operators: `undertone-server operator invite` and `undertone-server operator reset`. [`keys`]
//! contains the commands that replace keys.
//!
//! Break glass: a person with access to the data folder lets an operator in when no operator can sign in. Both commands work while
//! the server runs, and need its database and keys alone. Both are written to the server's audit log as done at the terminal, and announced to all operators.

pub mod certificate;
pub mod dossier;
pub mod keys;
pub mod verify;

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use clap::{Args, Subcommand};

use undertone_server_core::config::Config;
use undertone_server_core::ctx::{Addresses, Clock, Ctx, Random};
use undertone_server_core::error::Error;
use undertone_server_core::service::operator;
use undertone_server_core::service::setup::LINK_FILE;
use undertone_server_core::{StartError, open_tables};

/// The commands.
#[derive(Subcommand)]
pub enum OperatorCommand {
    /// Create a one-time link that registers another operator.
    Invite(InviteOptions),
    /// Create a one-time link that lets an operator set a new password.
    Reset(ResetOptions),
}

/// The options of `invite`.
#[derive(Args)]
pub struct InviteOptions {
    /// A label for the list of links, such as the name of the recipient.
    #[arg(long, value_name = "TEXT", default_value = "made at the terminal")]
    label: String,
}

/// The options of `reset`.
#[derive(Args)]
pub struct ResetOptions {
    /// The operator's e-mail address.
    #[arg(long, value_name = "EMAIL")]
    email: String,
    /// Also remove the second factor.
    #[arg(long)]
    clear_second_factor: bool,
}

/// A reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// The server's data cannot be opened.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The operation was refused.
    #[error("{0}")]
    Refused(String),
}

impl From<Error> for TerminalError {
    fn from(error: Error) -> Self {
        Self::Refused(error.into_problem().detail)
    }
}

/// Runs a command on the database and the keys of a server, which may run meanwhile; returns its text for the terminal. Neither the
/// object store nor a provider of sign-ins is asked, and no table is changed beside the command's own rows.
///
/// # Errors
/// [`TerminalError`]; in that case nothing changes.
pub async fn run(config: Config, command: &OperatorCommand) -> Result<String, TerminalError> {
    run_with(config, Clock::system(), Random::system(), command).await
}

async fn run_with(
    config: Config,
    clock: Clock,
    random: Random,
    command: &OperatorCommand,
) -> Result<String, TerminalError> {
    let addresses = addresses(&config);
    let ctx = open_tables(config, clock, random, addresses).await?;
    let text = execute(&ctx, command).await;
    // The transaction is committed; a connection that does not close ends with the process.
    let _ = ctx.db.clone().close().await;
    Ok(text?)
}

/// Returns the text with the first operator's link: the link itself at a terminal; elsewhere the path of a file that
/// only the server's user can read, so that journals do not contain the link.
///
/// # Errors
/// If the file cannot be written.
pub fn announce_first_link(data_dir: &Path, link: &str) -> std::io::Result<String> {
    if std::io::stdout().is_terminal() {
        return Ok(link.to_owned());
    }
    let path = data_dir.join(LINK_FILE);
    write_link(&path, link)?;
    Ok(format!("the link is in {}", path.display()))
}

/// Writes a link to a file for its owner only.
fn write_link(path: &Path, link: &str) -> std::io::Result<()> {
    // An earlier file may have another mode.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    writeln!(file, "{link}")?;
    file.sync_all()
}

/// Runs a command on an open server.
///
/// # Errors
/// As the operations of [`operator`].
pub(crate) async fn execute(ctx: &Ctx, command: &OperatorCommand) -> Result<String, Error> {
    match command {
        OperatorCommand::Invite(options) => {
            let link = operator::invite_at_terminal(ctx, &options.label).await?;
            Ok(format!("Another operator registers with this link, which is valid once, for 7 days:\n    {link}"))
        }
        OperatorCommand::Reset(options) => {
            let reset = operator::reset_at_terminal(ctx, &options.email, options.clear_second_factor).await?;
            Ok(format!(
                "The operator sets a new password with this link, which is valid once, for 24 hours:\n    {}",
                reset.link
            ))
        }
    }
}

/// Returns the addresses of the configured server; this process does not listen there.
fn addresses(config: &Config) -> Addresses {
    let scheme = if config.speaks_tls() { "https" } else { "http" };
    let address = |public: Option<&str>, listened| {
        public.map_or_else(|| format!("{scheme}://{listened}"), |url| url.trim_end_matches('/').to_owned())
    };
    Addresses {
        http: address(config.public_url.as_deref(), config.http),
        grpc: address(config.public_grpc.as_deref(), config.grpc),
    }
}

#[cfg(test)]
mod tests {
    use super::{InviteOptions, OperatorCommand, TerminalError, run, run_with, write_link};
    use crate::testing::{TestApp, newcomer, on_both, tamper};
    use undertone_server_core::Config;
    use undertone_server_core::ctx::Random;
    use undertone_server_core::service::setup::{self, LINK_FILE};

    fn invite() -> OperatorCommand {
        OperatorCommand::Invite(InviteOptions { label: "break glass".to_owned() })
    }

    /// Invites an operator by the clock of the server's tests.
    async fn invite_at(app: &TestApp, config: Config) -> Result<String, TerminalError> {
        run_with(config, app.clock.clock(), Random::seeded(7), &invite()).await
    }

    on_both! {
        async fn operator_command_needs_neither_store_nor_provider(app: &TestApp) {
            app.operator().await;
            let mut config = app.ctx.config.clone();
            config.store.url = Some("s3://bucket/prefix".to_owned());
            config.store.endpoint = Some("http://127.0.0.1:9".to_owned());
            config.oidc.issuer = Some("http://127.0.0.1:9".to_owned());
            config.oidc.client_id = "undertone".to_owned();
            let text = invite_at(app, config).await.expect("made");
            let link = text.lines().last().expect("a link").trim();
            assert!(app.accept(link, newcomer("Deputy", None)).await.session.member.operator);
        }

        async fn operator_command_refuses_tables_of_another_program(app: &TestApp) {
            let missing = "DELETE FROM seaql_migrations WHERE version = (SELECT MAX(version) FROM seaql_migrations)";
            let later = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m99991231_000000_later', 1)";
            for (change, message) in [(later, "later program"), (missing, "earlier program")] {
                tamper(&app.ctx, "seaql_migrations", change).await;
                let before = app.ctx.db.migrations().await.expect("read");
                let refused = invite_at(app, app.ctx.config.clone()).await.expect_err("other tables").to_string();
                assert!(refused.contains(message), "{refused}");
                assert_eq!(app.ctx.db.migrations().await.expect("read"), before, "nothing was migrated");
                let undo = "DELETE FROM seaql_migrations WHERE version = 'm99991231_000000_later'";
                tamper(&app.ctx, "seaql_migrations", undo).await;
            }
        }
    }

    #[tokio::test]
    async fn operator_command_makes_no_server() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let config = Config { data_dir: dir.path().join("data"), ..Config::default() };
        let refused = run(config, &invite()).await.expect_err("no server").to_string();
        assert!(refused.contains("signing.key"), "{refused}");
        assert!(!dir.path().join("data").exists(), "nothing is made");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn used_first_link_is_removed_from_its_file() {
        let app = TestApp::sqlite().await;
        let path = app.data_dir().join(LINK_FILE);
        let link = setup::operator_link(&app.ctx).await.expect("asked").expect("nobody yet");
        write_link(&path, "https://undertone.example.org/accept/another").expect("written");
        app.accept(&link, newcomer("Operator", None)).await;
        assert!(path.exists(), "it holds another link");
        assert_eq!(setup::operator_link(&app.ctx).await.expect("asked"), None);
        assert!(!path.exists(), "there is an operator");

        let app = TestApp::sqlite().await;
        let path = app.data_dir().join(LINK_FILE);
        let link = setup::operator_link(&app.ctx).await.expect("asked").expect("nobody yet");
        write_link(&path, &link).expect("written");
        app.accept(&link, newcomer("Operator", None)).await;
        assert!(!path.exists(), "the link was used");
    }

    #[cfg(unix)]
    #[test]
    fn first_link_file_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("operator-link");
        std::fs::write(&path, "an older link").expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("changed");
        write_link(&path, "https://undertone.example.org/accept/5d1f").expect("written");
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "https://undertone.example.org/accept/5d1f\n");
    }
}
