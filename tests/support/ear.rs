//! The recognition of the loopback clouds: PocketSphinx, run as the worker runs it.

use std::env;
use std::sync::Arc;

use undertone_worker::speech::transcribe::recognize::SpeechRecognizer as _;
use undertone_worker::speech::transcribe::recognize::pocketsphinx::PocketSphinx;
use undertone_worker::speech::transcribe::wav;

use crate::clouds::Ear;
use crate::stage::TestResult;

/// Starts `processes` recognizers behind one ear; `None` where `UNDERTONE_ALIGNER` names no Python with PocketSphinx. A
/// failed recognition yields no words, as at a cloud. Call it in a runtime that outlives the ear.
///
/// # Errors
/// When PocketSphinx does not start.
pub fn pocketsphinx(processes: usize) -> TestResult<Option<Ear>> {
    let Some(python) = env::var_os("UNDERTONE_ALIGNER").filter(|python| !python.is_empty()) else { return Ok(None) };
    let recognizer = PocketSphinx::new(python).start(processes)?;
    let runtime = tokio::runtime::Handle::current();
    let ear: Ear = Arc::new(move |file: &[u8]| {
        let Ok(samples) = wav::read(file) else { return Vec::new() };
        let recognition = runtime.block_on(recognizer.transcribe(&samples)).unwrap_or_default();
        recognition.words.into_iter().map(|word| (word.text, word.start, word.end)).collect()
    });
    Ok(Some(ear))
}
