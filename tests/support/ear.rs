//! Who hears in the clouds on loopback: PocketSphinx, as the worker runs it.

use std::env;
use std::sync::Arc;

use undertone_worker::speech::transcribe::recognize::SpeechRecognizer as _;
use undertone_worker::speech::transcribe::recognize::pocketsphinx::PocketSphinx;
use undertone_worker::speech::transcribe::wav;

use crate::clouds::Ear;
use crate::stage::Staged;

/// As many recognizers as `processes`, behind one ear; `None` where `UNDERTONE_ALIGNER` names no Python with PocketSphinx. What
/// cannot be heard is silence, as it is for a cloud. To be called in a runtime, which must outlive the ear.
///
/// # Errors
/// When PocketSphinx does not start.
pub fn pocketsphinx(processes: usize) -> Staged<Option<Ear>> {
    let Some(python) = env::var_os("UNDERTONE_ALIGNER").filter(|python| !python.is_empty()) else { return Ok(None) };
    let recognizer = PocketSphinx::new(python).start(processes)?;
    let runtime = tokio::runtime::Handle::current();
    let ear: Ear = Arc::new(move |file: &[u8]| {
        let Ok(samples) = wav::read(file) else { return Vec::new() };
        let heard = runtime.block_on(recognizer.transcribe(&samples)).unwrap_or_default();
        heard.words.into_iter().map(|word| (word.text, word.start, word.end)).collect()
    });
    Ok(Some(ear))
}
