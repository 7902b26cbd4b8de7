//! JSON Lines in one zstd frame, read line by line.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;
use undertone_api::question::MOST_CHARACTERS;
use zstd::stream::read::Decoder;
use zstd::stream::write::Encoder;

use super::{LEVEL, MAX_SIZE, MAX_UNPACKED, QuestionError};

/// The largest accepted window, 2²³ bytes: [`pack`] uses no larger one.
const WINDOW_LOG: u32 = 23;
/// The largest size of a line: a longest text with every character escaped as two units of UTF-16, and the surrounding
/// JSON.
const MAX_LINE: u64 = 12 * MOST_CHARACTERS as u64 + 256;

fn packed(error: &io::Error) -> QuestionError {
    QuestionError::Packed(error.to_string())
}

/// Packs values, a line each.
pub(super) fn pack<T: Serialize>(values: &[T]) -> Result<Vec<u8>, QuestionError> {
    let mut encoder = Encoder::new(Vec::new(), LEVEL).map_err(|error| packed(&error))?;
    for (line, value) in (1..).zip(values) {
        serde_json::to_writer(&mut encoder, value)
            .map_err(|error| QuestionError::Line { line, detail: error.to_string() })?;
        encoder.write_all(b"\n").map_err(|error| packed(&error))?;
    }
    let bytes = encoder.finish().map_err(|error| packed(&error))?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(QuestionError::TooLong(bytes.len() as u64));
    }
    Ok(bytes)
}

/// The lines of a frame. The iterator ends after the first error.
pub(super) struct LineReader<'a, T> {
    unpacked: Option<BufReader<Decoder<'a, &'a [u8]>>>,
    left: u64,
    line: u64,
    buffer: Vec<u8>,
    value: PhantomData<T>,
}

impl<'a, T: DeserializeOwned> LineReader<'a, T> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, QuestionError> {
        if bytes.len() as u64 > MAX_SIZE {
            return Err(QuestionError::TooLong(bytes.len() as u64));
        }
        let mut decoder = Decoder::with_buffer(bytes).map_err(|error| packed(&error))?.single_frame();
        decoder.window_log_max(WINDOW_LOG).map_err(|error| packed(&error))?;
        let unpacked = Some(BufReader::with_capacity(64 << 10, decoder));
        Ok(Self { unpacked, left: MAX_UNPACKED, line: 0, buffer: Vec::new(), value: PhantomData })
    }

    /// Returns the next line; `None` at the end of the frame, which must be the end of the bytes.
    fn line(&mut self) -> Result<Option<T>, QuestionError> {
        let Some(unpacked) = &mut self.unpacked else { return Ok(None) };
        self.buffer.clear();
        let read = unpacked.take(MAX_LINE).read_until(b'\n', &mut self.buffer).map_err(|error| packed(&error))?;
        if read == 0 {
            let rest = self.unpacked.take().map_or(0, |unpacked| unpacked.into_inner().finish().len());
            let after = || QuestionError::Packed(format!("{rest} bytes follow the frame"));
            return if rest == 0 { Ok(None) } else { Err(after()) };
        }
        self.line += 1;
        self.left = self.left.checked_sub(read as u64).ok_or(QuestionError::Unpacked)?;
        let detail = if self.buffer.pop() == Some(b'\n') {
            match serde_json::from_slice(&self.buffer) {
                Ok(value) => return Ok(Some(value)),
                // The parser's message could repeat the line's content, which is confidential.
                Err(error) => format!("{:?} error at column {}", error.classify(), error.column()),
            }
        } else {
            format!("it has no end within {MAX_LINE} bytes")
        };
        Err(QuestionError::Line { line: self.line, detail })
    }
}

impl<T: DeserializeOwned> Iterator for LineReader<'_, T> {
    type Item = Result<T, QuestionError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.line();
        if next.is_err() {
            self.unpacked = None;
        }
        next.transpose()
    }
}
