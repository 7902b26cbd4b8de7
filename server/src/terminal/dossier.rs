//! `undertone-server dossier`: the egress dossier of a job, as a page or as JSON.

mod html;

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use undertone_api::id::JobId;
use undertone_server_core::config::Config;
use undertone_server_core::ctx::{Clock, Ctx, Random};
use undertone_server_core::error::Error;
use undertone_server_core::service::certificate::verify::TrustedInputs;
use undertone_server_core::service::dossier::{self, EgressDossier};
use undertone_server_core::{StartError, open_tables};

use super::certificate::{CertificateCommandError, digest};

/// The options of `dossier`.
#[derive(Debug, clap::Args)]
pub struct DossierOptions {
    /// The id of the job.
    pub job: JobId,
    /// Write JSON instead of HTML.
    #[arg(long)]
    pub json: bool,
    /// The file to write; the standard output if it is missing.
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The model file that is to leave; the dossier then shows whether it is the job's.
    #[arg(long, value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// A site's public key in hex; may be repeated. If set, each site must have one of these keys.
    #[arg(long, value_name = "HEX")]
    pub site_key: Vec<String>,
}

/// The reason why there is no dossier.
#[derive(Debug, thiserror::Error)]
pub enum DossierError {
    /// The server's data cannot be opened.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The model cannot be read.
    #[error(transparent)]
    Model(#[from] CertificateCommandError),
    /// There is no such job, or nothing to decide about.
    #[error("{0}")]
    Refused(String),
    /// The dossier cannot be written.
    #[error("cannot write {path}: {source}")]
    Output {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl From<Error> for DossierError {
    fn from(error: Error) -> Self {
        Self::Refused(error.into_problem().detail)
    }
}

/// Writes the dossier of a job from the database and the keys of a server, which may run meanwhile; returns its defects.
///
/// # Errors
/// [`DossierError`] when there is no dossier.
pub async fn run(config: Config, options: &DossierOptions) -> Result<Vec<String>, DossierError> {
    let addresses = super::addresses(&config);
    let ctx = open_tables(config, Clock::system(), Random::system(), addresses).await?;
    let dossier = assemble(&ctx, options).await;
    // The transaction is committed; a connection that does not close ends with the process.
    let _ = ctx.db.clone().close().await;
    let dossier = dossier?;
    write(&dossier, options)?;
    Ok(dossier.list_defects())
}

/// Assembles a dossier with the keys and the model of the caller.
pub(crate) async fn assemble(ctx: &Ctx, options: &DossierOptions) -> Result<EgressDossier, DossierError> {
    let trusted = TrustedInputs {
        server_key: None,
        site_keys: options.site_key.iter().map(|key| key.to_lowercase()).collect(),
        model: options.model.as_deref().map(digest).transpose()?,
    };
    Ok(dossier::assemble_at_terminal(ctx, options.job, trusted).await?)
}

fn write(dossier: &EgressDossier, options: &DossierOptions) -> Result<(), DossierError> {
    let path = options.output.clone().unwrap_or_else(|| "the standard output".into());
    let in_file = |source| DossierError::Output { path: path.clone(), source };
    let text = if options.json {
        serde_json::to_string_pretty(dossier).map_err(|error| in_file(error.into()))? + "\n"
    } else {
        html::format_page(dossier)
    };
    match &options.output {
        Some(file) => write_private(file, &text).map_err(in_file),
        None => io::stdout().write_all(text.as_bytes()).map_err(in_file),
    }
}

/// Writes a file, which is created for its owner alone: the text names members.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::write_private;

    #[test]
    fn new_file_is_readable_by_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("dossier.html");
        for text in ["a long text", "short"] {
            write_private(&path, text).expect("written");
            assert_eq!(std::fs::read_to_string(&path).expect("readable"), text);
        }
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
