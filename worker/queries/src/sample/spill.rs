//! The kept rows, in a file without a name: written once, read once, never in memory as a whole.
//!
//! A row is the length of its text in bytes (u32), its number of kept copies (u64), both little-endian, and the text.
//! Only the process that wrote the file reads it, so it needs no version.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};

/// Bytes of the buffers of writing and reading.
const BUFFER: usize = 1 << 18;

/// Writes rows.
pub(super) struct SpillWriter(BufWriter<File>);

impl SpillWriter {
    pub(super) fn new(file: File) -> Self {
        Self(BufWriter::with_capacity(BUFFER, file))
    }

    /// Appends a row.
    pub(super) fn push(&mut self, text: &str, copies: u64) -> io::Result<()> {
        let length = u32::try_from(text.len()).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        self.0.write_all(&length.to_le_bytes())?;
        self.0.write_all(&copies.to_le_bytes())?;
        self.0.write_all(text.as_bytes())
    }

    /// Rewinds to the first row.
    pub(super) fn finish(self) -> io::Result<SpillReader> {
        let mut file = self.0.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(SpillReader { file: BufReader::with_capacity(BUFFER, file), text: String::new() })
    }
}

/// Reads the rows back in their order.
pub(super) struct SpillReader {
    file: BufReader<File>,
    text: String,
}

impl SpillReader {
    /// Returns the next row.
    pub(super) fn next(&mut self) -> io::Result<Option<(&str, u64)>> {
        if self.file.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let (mut length, mut copies) = ([0; 4], [0; 8]);
        self.file.read_exact(&mut length)?;
        self.file.read_exact(&mut copies)?;
        let length = u64::from(u32::from_le_bytes(length));
        self.text.clear();
        if (&mut self.file).take(length).read_to_string(&mut self.text)? as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some((&self.text, u64::from_le_bytes(copies))))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a temporary file can be written")]

    use std::io::{Seek as _, Write as _};

    use super::SpillWriter;

    #[test]
    fn spilled_rows_read_back_unchanged() {
        let mut file = SpillWriter::new(tempfile::tempfile().unwrap());
        let long = "ä".repeat(400_000);
        let rows = [("", 1), ("where is my card", 3), ("übermäßig", u64::MAX), (&*long, 7), ("end", 1)];
        for (text, copies) in rows {
            file.push(text, copies).unwrap();
        }
        let mut back = file.finish().unwrap();
        for row in rows {
            assert_eq!(back.next().unwrap(), Some(row));
        }
        assert_eq!(back.next().unwrap(), None);
    }

    #[test]
    fn truncated_spill_file_is_an_error() {
        let mut file = SpillWriter::new(tempfile::tempfile().unwrap());
        file.push("where is my card", 3).unwrap();
        let mut back = file.finish().unwrap();
        let mut inner = back.file.into_inner();
        inner.set_len(20).unwrap();
        inner.rewind().unwrap();
        inner.flush().unwrap();
        back.file = std::io::BufReader::new(inner);
        assert!(back.next().is_err());
    }
}
