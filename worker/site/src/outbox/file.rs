//! A stored release as a file: a header line, then the bytes in the form of the wire. The header distinguishes an
//! unreferenced file from a damaged one.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::folder::{FolderError, write_durably};

/// The beginning of the header line. Files of older workers have none.
const MARK: &[u8] = b"undertone-release 1 ";

/// The content of a file.
pub(super) struct ReleaseFile {
    /// The bytes in the form of the wire.
    pub(super) bytes: Vec<u8>,
    /// SHA-256 of the bytes, hex.
    pub(super) digest: String,
    /// The number of values or questions, by the header; `None` when it is missing or does not match the bytes.
    pub(super) length: Option<u64>,
}

/// Writes a release; durable when this returns. Returns the SHA-256 of its bytes, hex.
pub(super) fn write(path: &Path, bytes: &[u8], length: u64) -> Result<String, FolderError> {
    let digest = hex::encode(Sha256::digest(bytes));
    let mut content = MARK.to_vec();
    content.extend(format!("{digest} {length}\n").bytes());
    content.extend(bytes);
    write_durably(path, &content)?;
    Ok(digest)
}

/// Reads a release; returns `None` when there is no file.
pub(super) fn read(path: &Path) -> Result<Option<ReleaseFile>, FolderError> {
    let content = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(FolderError::io("read", path))?,
    };
    let (bytes, announced) = parse(&content).map_or((&*content, None), |(bytes, line)| (bytes, Some(line)));
    let digest = hex::encode(Sha256::digest(bytes));
    let length = announced.filter(|line| line.0 == digest).map(|line| line.1);
    Ok(Some(ReleaseFile { bytes: bytes.to_vec(), digest, length }))
}

/// Splits the content into the bytes, and digest and length from the header.
fn parse(content: &[u8]) -> Option<(&[u8], (String, u64))> {
    let rest = content.strip_prefix(MARK)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let line = std::str::from_utf8(&rest[..end]).ok()?;
    let (digest, length) = line.split_once(' ')?;
    Some((&rest[end + 1..], (digest.to_owned(), length.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::{MARK, read, write};

    #[test]
    fn read_returns_the_bytes_and_length_written() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("private-1.vector");
        assert!(read(&path).expect("the folder is there").is_none());
        for bytes in [&b""[..], b"\n\n", MARK] {
            let digest = write(&path, bytes, 7).expect("the disk has room");
            let content = read(&path).expect("it is there").expect("it is there");
            assert_eq!((content.bytes.as_slice(), content.digest, content.length), (bytes, digest, Some(7)));
        }
    }

    #[test]
    fn file_of_an_older_worker_or_a_damaged_one_has_no_length() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("private-1.vector");
        std::fs::write(&path, [1, 2, 3]).expect("the folder is writable");
        let content = read(&path).expect("it is there").expect("it is there");
        assert_eq!((content.bytes, content.length), (vec![1, 2, 3], None));
        write(&path, &[1, 2, 3], 3).expect("the disk has room");
        let mut damaged = std::fs::read(&path).expect("it is there");
        *damaged.last_mut().expect("it has bytes") ^= 1;
        std::fs::write(&path, damaged).expect("the folder is writable");
        assert_eq!(read(&path).expect("it is there").expect("it is there").length, None);
    }
}
