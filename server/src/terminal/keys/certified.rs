//! The keys that a root certifies: `create-root`, `request`, `sign`, `install`.

use std::path::{Path, PathBuf};

use age::secrecy::SecretString;
use clap::Args;
use ed25519_dalek::{SigningKey, VerifyingKey};
use serde::Serialize;
use serde::de::DeserializeOwned;
use time::{Duration, OffsetDateTime};
use undertone_api::signed::RootIntroduction;

use super::KeysError;
use super::secrets::moment;
use crate::backup::SHORTEST_PASSPHRASE;
use undertone_server_core::config::Config;
use undertone_server_core::ctx::Random;
use undertone_server_core::keys::ceremony::{self, CeremonyError, KeyGrant, KeyRequest, KeyTerms};
use undertone_server_core::keys::online::OnlineFile;
use undertone_server_core::keys::{ExternalSigner, ServerSigner, verifying_key, write_secret};

/// The root's file and its passphrase.
#[derive(Args)]
pub struct RootFile {
    /// The root's file, sealed with a passphrase (age). It stays with its holder, on a machine without a network.
    #[arg(long, value_name = "FILE")]
    pub(super) root_file: PathBuf,
    /// A file whose first line is the passphrase: at least 12 characters.
    #[arg(long, value_name = "FILE")]
    pub(super) passphrase_file: PathBuf,
}

/// The options of `request`.
#[derive(Args)]
pub struct RequestOptions {
    /// Where the request is written.
    pub(super) file: PathBuf,
    /// The root's public key (64 hex digits), as `create-root` shows it. Known already after the first time.
    #[arg(long, value_name = "HEX")]
    pub(super) root: Option<String>,
}

/// The options of `sign`.
#[derive(Args)]
pub struct SignOptions {
    /// The request.
    pub(super) request: PathBuf,
    /// Where the certificates are written.
    pub(super) output: PathBuf,
    #[command(flatten)]
    pub(super) root: RootFile,
    /// Days for which the keys are valid.
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=825))]
    pub(super) days: u32,
    /// Minutes after which the keys are valid. Servers that do not share the data folder need its `online.key` before that.
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=10_080))]
    pub(super) after: u32,
    /// The serial of the certificates; one more than the greatest that the server knows when absent.
    #[arg(long)]
    pub(super) serial: Option<u64>,
    /// Revoke the certificates of before, and the first key: sites accept nothing of theirs any more.
    #[arg(long)]
    pub(super) revoke: bool,
}

/// The options of `install`.
#[derive(Args)]
pub struct InstallOptions {
    /// The certificates that the root has signed.
    pub(super) file: PathBuf,
}

impl RootFile {
    fn passphrase(&self) -> Result<SecretString, KeysError> {
        let text = std::fs::read_to_string(&self.passphrase_file).map_err(in_file(&self.passphrase_file))?;
        let first = text.lines().next().unwrap_or_default().trim_end();
        if first.chars().count() < SHORTEST_PASSPHRASE {
            let path = self.passphrase_file.display();
            return Err(KeysError::Failed(format!(
                "{path}: give a passphrase of at least {SHORTEST_PASSPHRASE} characters in the first line"
            )));
        }
        Ok(SecretString::from(first.to_owned()))
    }
}

/// Generates a root key in a new file.
pub(super) fn create_root(options: &RootFile, random: &Random) -> Result<String, KeysError> {
    if options.root_file.exists() {
        let path = options.root_file.display();
        return Err(KeysError::Failed(format!(
            "{path} is there already: a root is never overwritten, name another file"
        )));
    }
    let (root, file) = ceremony::make_root(options.passphrase()?, random)?;
    write_secret(&options.root_file, &file).map_err(in_file(&options.root_file))?;
    Ok(format!(
        "The root's public key is {}. Keep two copies of {} apart from each other, and the passphrase apart from both.",
        public_hex(&root),
        options.root_file.display()
    ))
}

/// Makes online keys, or names the key of the external signer, and the request for their certificates.
pub(super) async fn request(
    config: &Config,
    options: &RequestOptions,
    now: OffsetDateTime,
    random: &Random,
) -> Result<String, KeysError> {
    let (mut file, first) = (load(config)?, first_public_key(config)?);
    let known = file.root().map_err(CeremonyError::from)?;
    let root = options.root.clone().or(known);
    let root = root.ok_or_else(|| KeysError::Failed("give the root's public key with `--root`".to_owned()))?;
    let external = ExternalSigner::open(&config.signer).map_err(in_file(&config.data_dir))?;
    let introduction = if let Some(known) = ceremony::find_introduction(&file) {
        known
    } else {
        let signer = ServerSigner::load_existing(&config.data_dir, external.clone(), now);
        let signer = signer.map_err(in_file(&config.data_dir))?.ok_or_else(|| missing_first(config))?;
        let first = hex::encode(first.to_bytes());
        let unsigned = RootIntroduction { first, root: ceremony::check_root(&file, &root)? };
        signer.sign(&unsigned).await.map_err(CeremonyError::from)?
    };
    let external = match &external {
        Some(external) => Some(external.public_key().await.map_err(CeremonyError::from)?),
        None => None,
    };
    let request = ceremony::request(&mut file, introduction, &root, external, random)?;
    file.store(&config.data_dir).map_err(in_file(&config.data_dir))?;
    write_json(&options.file, &request)?;
    Ok(format!(
        "The request is in {}. Its digest is {}: compare it where the root signs.",
        options.file.display(),
        ceremony::digest_of(&request)
    ))
}

/// Certifies the keys of a request.
pub(super) fn sign(options: &SignOptions, now: OffsetDateTime) -> Result<String, KeysError> {
    let request: KeyRequest = read_json(&options.request)?;
    let sealed = std::fs::read(&options.root.root_file).map_err(in_file(&options.root.root_file))?;
    let root = ceremony::open_root(&sealed, options.root.passphrase()?)?;
    let from = now + Duration::minutes(i64::from(options.after));
    let terms = KeyTerms {
        serial: options.serial.unwrap_or(request.greatest_serial.saturating_add(1)),
        // Documents state whole seconds.
        from: from.replace_nanosecond(0).unwrap_or(from),
        days: options.days,
        revokes: options.revoke,
    };
    let grant = ceremony::grant(&request, &root, terms)?;
    write_json(&options.output, &grant)?;
    Ok(format!(
        "Request {} is signed with serial {}, for {} days from {}. Install {} at the server.",
        ceremony::digest_of(&request),
        terms.serial,
        terms.days,
        moment(terms.from),
        options.output.display()
    ))
}

/// Installs certificates in the data folder.
pub(super) fn install(config: &Config, options: &InstallOptions, now: OffsetDateTime) -> Result<String, KeysError> {
    let (mut file, first) = (load(config)?, first_public_key(config)?);
    let grant: KeyGrant = read_json(&options.file)?;
    let installed = ceremony::install(&mut file, &grant, &first, now)?;
    file.store(&config.data_dir).map_err(in_file(&config.data_dir))?;
    let lines: Vec<_> = installed
        .iter()
        .map(|certificate| {
            let (from, until) = (moment(certificate.from), moment(certificate.until));
            format!(
                "{:<10} {} serial {}, {from} to {until}",
                certificate.purpose.name(),
                certificate.key,
                certificate.serial
            )
        })
        .collect();
    Ok(lines.join("\n"))
}

fn load(config: &Config) -> Result<OnlineFile, KeysError> {
    OnlineFile::load(&config.data_dir).map_err(in_file(&config.data_dir))
}

fn first_public_key(config: &Config) -> Result<VerifyingKey, KeysError> {
    let key = verifying_key(&config.data_dir).map_err(in_file(&config.data_dir))?;
    key.ok_or_else(|| missing_first(config))
}

fn missing_first(config: &Config) -> KeysError {
    KeysError::Missing(config.data_dir.join("signing.key"))
}

fn public_hex(key: &SigningKey) -> String {
    hex::encode(key.verifying_key().to_bytes())
}

fn in_file(path: &Path) -> impl Fn(std::io::Error) -> KeysError {
    let path = path.to_owned();
    move |source| KeysError::File { path: path.clone(), source }
}

fn write_json(path: &Path, document: &impl Serialize) -> Result<(), KeysError> {
    let text = serde_json::to_vec_pretty(document).map_err(std::io::Error::other).map_err(in_file(path))?;
    std::fs::write(path, text).map_err(in_file(path))
}

fn read_json<D: DeserializeOwned>(path: &Path) -> Result<D, KeysError> {
    let text = std::fs::read_to_string(path).map_err(in_file(path))?;
    serde_json::from_str(&text).map_err(std::io::Error::other).map_err(in_file(path))
}
