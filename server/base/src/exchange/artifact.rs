//! The locations of a job's files. A file's path contains its digest, so rewriting a name never changes bytes that a
//! client is reading.

use object_store::path::Path;
use undertone_api::id::JobId;

/// The highest number of bytes of a file: 2 GiB.
pub const MAX_SIZE: u64 = 2 << 30;
/// The highest number of files of one job, by name.
pub const MAX_FILES: u64 = 10_000;

/// The folder of all files of jobs, in the object store.
pub const FOLDER: &str = "artifacts";

/// Returns the folder of the files of `job`.
pub fn folder(job: JobId) -> Path {
    Path::from(format!("{FOLDER}/{job}"))
}

/// Returns the path of the file of `job` with this SHA-256 (hex).
pub fn path(job: JobId, digest: &str) -> Path {
    Path::from(format!("{FOLDER}/{job}/{}", digest.to_ascii_lowercase()))
}

/// Returns the job of the file at `path`.
pub fn job_of(path: &Path) -> Option<JobId> {
    let mut parts = path.parts();
    (parts.next()?.as_ref() == FOLDER).then_some(())?;
    parts.next()?.as_ref().parse().ok().map(JobId)
}

/// Returns whether a text can be the name of a file: 1 to 100 of `a-z A-Z 0-9 . _ -`, not beginning with a dot.
pub fn is_name(name: &str) -> bool {
    (1..=100).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn a_name_cannot_lead_out_of_its_job() {
        assert!(is_name("model.safetensors") && is_name("private-0010.ckpt"));
        for name in ["", ".", "..", "a/b", "../x", ".hidden", "a b", &"x".repeat(101)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
