//! `undertone fetch`: the files of a job, with their digests compared.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use reqwest::Response;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use undertone_api::id::JobId;
use undertone_api::model::Artifact;
use utoipa::ToSchema;

use crate::client::RestClient;
use crate::output::StandardOutput;
use crate::{CommandAnswer, CommandResult};

/// The number of bytes of a file read at once.
const AT_ONCE: usize = 1 << 16;

/// The options of `fetch`.
#[derive(Debug, clap::Args)]
pub(crate) struct FetchOptions {
    /// The id of the job.
    job: JobId,
    /// The names of the files; without a name, each file of the job.
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    /// The folder for the files.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    into: PathBuf,
    /// Replace files that differ from the job's.
    #[arg(long)]
    force: bool,
}

/// A file of a job on this machine.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FetchedFile {
    /// Its name.
    name: String,
    /// Its path on this machine.
    path: String,
    /// Bytes.
    size: u64,
    /// SHA-256 of the content, hex: computed here, and equal to the server's record.
    digest: String,
    /// Whether it was downloaded now; it was here before otherwise.
    is_downloaded: bool,
}

/// The reason why a file was not fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    /// The job has no such file.
    #[error("the job has no file {name}; its files are: {files}")]
    Missing {
        /// The requested name.
        name: String,
        /// The names of its files.
        files: String,
    },
    /// The job has no files.
    #[error("the job has no files: they exist when it has finished")]
    Nothing,
    /// The bytes of the file were deleted.
    #[error("{name} was deleted by {by}: {reason}")]
    Deleted {
        /// The file.
        name: String,
        /// The member who deleted it.
        by: String,
        /// The reason.
        reason: String,
    },
    /// There is no folder for the files.
    #[error("--into: {path} is no folder: create it, or choose another folder")]
    NoFolder {
        /// The path.
        path: PathBuf,
    },
    /// The name could leave the folder.
    #[error("the server names a file {0:?}, which is refused: it could leave the folder")]
    Name(String),
    /// Another file is in its place.
    #[error("{path} is another file than the job's: choose another folder with --into, or replace it with --force")]
    Occupied {
        /// The file.
        path: PathBuf,
    },
    /// The bytes are not those of the server's record.
    #[error(
        "{name}: received {received} ({size} bytes) instead of {announced}; nothing was written. Repeat the command, and tell the operator if it fails again"
    )]
    Digest {
        /// The file.
        name: String,
        /// The digest of the received bytes.
        received: String,
        /// Their number.
        size: u64,
        /// The digest in the server's record.
        announced: String,
    },
    /// A file cannot be read or written.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Downloads files.
pub(crate) async fn run(options: &FetchOptions, out: &mut StandardOutput) -> CommandResult {
    check_folder(&options.into)?;
    let mut client = RestClient::open()?;
    let artifacts: Vec<Artifact> = client.get(&format!("/jobs/{}/artifacts", options.job)).await?;
    let artifacts = choose(artifacts, &options.files)?;
    let mut fetched = Vec::new();
    for artifact in artifacts {
        let path = options.into.join(check_name(&artifact.name)?);
        let is_downloaded = !is_present(&path, &artifact, options.force)?;
        if is_downloaded {
            // The server records each download, so that the place of the file is examined before the request.
            let file = tempfile::NamedTempFile::new_in(&options.into)
                .map_err(|source| FetchError::File { path: path.clone(), source })?;
            let response = client.download(&format!("/artifacts/{}/content", artifact.id)).await?;
            download(&client, response, &artifact, file, &path).await?;
        }
        fetched.push(FetchedFile {
            name: artifact.name,
            path: path.display().to_string(),
            size: artifact.size,
            digest: artifact.digest,
            is_downloaded,
        });
    }
    out.print(&fetched, |fetched| {
        let line = |file: &FetchedFile| {
            let note = if file.is_downloaded { "" } else { " (already present)" };
            format!("{}  {}{note}\n", file.digest, file.path)
        };
        fetched.iter().map(line).collect()
    })?;
    Ok(CommandAnswer::Positive)
}

/// Checks that there is a folder for the files.
fn check_folder(folder: &Path) -> Result<(), FetchError> {
    if folder.is_dir() { Ok(()) } else { Err(FetchError::NoFolder { path: folder.to_owned() }) }
}

/// Returns the files with the given names, or without a name each file that can be downloaded.
fn choose(artifacts: Vec<Artifact>, names: &[String]) -> Result<Vec<Artifact>, FetchError> {
    if artifacts.is_empty() {
        return Err(FetchError::Nothing);
    }
    if names.is_empty() {
        return Ok(artifacts.into_iter().filter(|artifact| artifact.deletion.is_none()).collect());
    }
    let choose_one = |name: &String| {
        let Some(artifact) = artifacts.iter().find(|artifact| artifact.name == *name) else {
            let files = artifacts.iter().map(|artifact| artifact.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(FetchError::Missing { name: name.clone(), files });
        };
        match &artifact.deletion {
            Some(deletion) => Err(FetchError::Deleted {
                name: name.clone(),
                by: deletion.by_name.clone(),
                reason: deletion.reason.clone(),
            }),
            None => Ok(artifact.clone()),
        }
    };
    names.iter().map(choose_one).collect()
}

/// Returns a name that stays in its folder and is no hidden file.
fn check_name(name: &str) -> Result<&str, FetchError> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if is_plain && !name.is_empty() && !name.starts_with('.') {
        Ok(name)
    } else {
        Err(FetchError::Name(name.to_owned()))
    }
}

/// Returns whether the file is here already; refuses to replace another one without `--force`.
fn is_present(path: &Path, artifact: &Artifact, force: bool) -> Result<bool, FetchError> {
    match digest_file(path) {
        Ok(present) if present == (artifact.size, artifact.digest.clone()) => Ok(true),
        Ok(_) if force => Ok(false),
        Ok(_) => Err(FetchError::Occupied { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(FetchError::File { path: path.to_owned(), source }),
    }
}

/// Writes a download to a new file beside its place, and moves it there once size and digest are those of the server's
/// record.
async fn download(
    client: &RestClient,
    mut response: Response,
    artifact: &Artifact,
    mut file: tempfile::NamedTempFile,
    path: &Path,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let in_file = |source| FetchError::File { path: path.to_owned(), source };
    let (mut hash, mut size) = (Sha256::new(), 0_u64);
    let transport = |source| client.transport(&format!("/artifacts/{}/content", artifact.id), source);
    while let Some(piece) = response.chunk().await.map_err(transport)? {
        size += piece.len() as u64;
        if size > artifact.size {
            break;
        }
        hash.update(&piece);
        file.write_all(&piece).map_err(in_file)?;
    }
    let received = hex::encode(hash.finalize());
    if (size, &received) != (artifact.size, &artifact.digest) {
        let (name, announced) = (artifact.name.clone(), artifact.digest.clone());
        return Err(FetchError::Digest { name, received, size, announced }.into());
    }
    file.as_file().sync_all().map_err(in_file)?;
    file.persist(path).map_err(|error| in_file(error.error))?;
    Ok(())
}

/// Returns the size and SHA-256 of a file, which may be larger than the memory.
pub(crate) fn digest_file(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let (mut hash, mut size) = (Sha256::new(), 0);
    let mut buffer = vec![0; AT_ONCE];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((size, hex::encode(hash.finalize())));
        }
        size += read as u64;
        hash.update(&buffer[..read]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use undertone_api::model::Artifact;

    use super::{FetchError, check_folder, check_name, choose, digest_file, is_present};

    fn artifact(name: &str, content: &[u8]) -> Artifact {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("content");
        std::fs::write(&path, content).expect("written");
        let (size, digest) = digest_file(&path).expect("read");
        let id = "00000000-0000-0000-0000-000000000001";
        let document = json!({
            "id": id, "job": id, "name": name, "size": size, "digest": digest, "created_at": "2026-01-01T00:00:00Z",
        });
        serde_json::from_value(document).expect("a file")
    }

    #[test]
    fn server_names_no_file_outside_the_folder() {
        for name in ["", ".", "..", "../x", "/etc/passwd", "a/b", ".bashrc", "a\\b", "a b"] {
            assert!(matches!(check_name(name), Err(FetchError::Name(_))), "{name}");
        }
        assert_eq!(check_name("model-2.safetensors").expect("a name"), "model-2.safetensors");
    }

    #[test]
    fn missing_folder_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(check_folder(folder.path()).is_ok());
        let message = check_folder(&folder.path().join("results")).expect_err("no folder").to_string();
        assert!(message.starts_with("--into: ") && message.contains("results is no folder: create it"), "{message}");
    }

    #[test]
    fn other_file_is_replaced_on_demand_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model");
        let artifact = artifact("model", b"right");
        assert!(!is_present(&path, &artifact, false).expect("absent"));
        std::fs::write(&path, b"wrong").expect("written");
        assert!(matches!(is_present(&path, &artifact, false), Err(FetchError::Occupied { .. })));
        assert!(!is_present(&path, &artifact, true).expect("replaced"));
        std::fs::write(&path, b"right").expect("written");
        assert!(is_present(&path, &artifact, false).expect("present"));
    }

    #[test]
    fn missing_and_deleted_files_are_named() {
        let mut deleted = artifact("old", b"x");
        deleted.deletion = serde_json::from_value(json!({
            "at": "2026-01-01T00:00:00Z", "by": deleted.id, "by_name": "Ada", "reason": "superseded",
        }))
        .ok();
        let files = vec![artifact("model", b"y"), deleted];
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let missing = choose(files.clone(), &names(&["report"])).expect_err("none").to_string();
        assert_eq!(missing, "the job has no file report; its files are: model, old");
        let message = choose(files.clone(), &names(&["old"])).expect_err("deleted").to_string();
        assert_eq!(message, "old was deleted by Ada: superseded");
        assert_eq!(choose(files, &[]).expect("the rest").len(), 1);
        assert!(matches!(choose(Vec::new(), &[]), Err(FetchError::Nothing)));
    }
}
