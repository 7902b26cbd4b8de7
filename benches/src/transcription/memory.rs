//! Tests that peak memory does not grow with a recording. Two recordings, one ten times as long, are each processed in
//! a process of its own that cuts twice, converts the voice and prepares the sounds on the disk.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use support::stage::TestResult;
use undertone_worker::speech::audio::{RATE, Stream};
use undertone_worker::speech::transcribe::outbound::BatchDraft;
use undertone_worker::speech::transcribe::piece::Piece;
use undertone_worker::speech::transcribe::segment::cut::extract_pieces;
use undertone_worker::speech::transcribe::segment::{SegmentLimits, segment};
use undertone_worker::speech::transcribe::voice::VoiceConfig;
use undertone_worker::speech::transcribe::wav;

use super::sizes::TranscriptionSizes;
use super::{document, rounded, say};
use crate::dp_step::peak;
use crate::report::Report;

/// The ratio of the recordings' lengths.
const TIMES: u32 = 10;
/// The highest ratio of their memory: the pieces' positions, and random variation.
const MOST: f64 = 1.2;
const LONGEST: f64 = 360_000.0;
/// The frequency of a synthetic vowel, used where there are no recordings, Hz.
const VOWEL: f64 = 140.0;

/// # Errors
/// When the longer recording takes more memory.
pub(super) fn measure(report: &mut Report, sizes: &TranscriptionSizes) -> TestResult<()> {
    let folder = tempfile::tempdir()?;
    let speech = speech(sizes)?;
    let mut peaks = Vec::new();
    for seconds in [sizes.memory_seconds, TIMES * sizes.memory_seconds] {
        let path = folder.path().join(format!("{seconds}.wav"));
        recording(&path, &speech, seconds)?;
        let output = Command::new(std::env::current_exe()?).args(["transcription", "memory"]).arg(&path).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let text = String::from_utf8(output.stdout)?;
        let line: Value = serde_json::from_str(text.lines().last().ok_or("nothing was measured")?)?;
        peaks.push(line["measured"]["peak_mebibytes"].as_f64().ok_or("the system does not tell the peak")?);
        let mut row = line["measured"].clone();
        row["memory"] = json!("one recording");
        row["seconds"] = json!(seconds);
        say(report, row)?;
    }
    let [short, long] = peaks[..] else { return Err("two recordings".into()) };
    say(report, json!({ "memory": "ten times as long", "ratio": rounded(long / short), "most": MOST }))?;
    if long > MOST * short { Err(format!("{long:.1} MiB instead of {short:.1} MiB").into()) } else { Ok(()) }
}

/// Runs the measurement in a process of its own: `transcription memory FILE`.
///
/// # Errors
/// When the file is not a recording.
pub(super) fn alone(report: &mut Report) -> TestResult<()> {
    let path = std::env::args().nth(3).ok_or("usage: transcription memory FILE")?;
    let path = Path::new(&path);
    let began = Instant::now();
    let mut pieces: Vec<Piece> = Vec::new();
    for spoken in segment(Stream::open(path, LONGEST)?, SegmentLimits::default())? {
        pieces.push(spoken?.piece);
    }
    let folder = tempfile::tempdir()?;
    let voice = VoiceConfig::default().start()?;
    let count = u32::try_from(pieces.len())?;
    let mut draft = BatchDraft::begin(&folder.path().join("batch"), vec![("nobody".to_owned(), count)])?;
    for (place, spoken) in (0..).zip(extract_pieces(Stream::open(path, LONGEST)?, pieces)) {
        draft.add(0, place, &wav::write(&voice.convert(&spoken?.audio)?))?;
    }
    if draft.missing() > 0 {
        return Err("a piece was lost".into());
    }
    let measured = json!({
        "pieces": count, "peak_mebibytes": peak().map(rounded), "machine_seconds": rounded(began.elapsed().as_secs_f64()),
    });
    say(report, json!({ "measured": measured }))
}

/// Returns some speech: real where there are data, otherwise a synthetic vowel with pauses.
fn speech(sizes: &TranscriptionSizes) -> TestResult<Vec<f32>> {
    if document::data().is_ok() {
        let documents = document::read(&TranscriptionSizes { readers: 1, seconds: 60.0, ..sizes.clone() })?;
        return Ok(documents.into_iter().flat_map(|document| document.samples).collect());
    }
    let period = (f64::from(RATE) / VOWEL) as usize;
    let sample = |n: usize| {
        let within = n % (2 * RATE as usize);
        if within > RATE as usize { 0.0 } else { 0.5 * (1.0 - (within % period) as f32 / period as f32) - 0.25 }
    };
    Ok((0..20 * RATE as usize).map(sample).collect())
}

/// Writes a recording of so many seconds in pieces, so that this process does not grow either.
fn recording(path: &Path, speech: &[f32], seconds: u32) -> TestResult<()> {
    let data = 2 * seconds * RATE;
    let once = wav::write(speech);
    let (mut header, samples) = (once[..wav::HEADER].to_vec(), &once[wav::HEADER..]);
    header[4..8].copy_from_slice(&(data + wav::HEADER as u32 - 8).to_le_bytes());
    header[wav::HEADER - 4..].copy_from_slice(&data.to_le_bytes());
    let mut file = File::create(path)?;
    file.write_all(&header)?;
    let mut remaining = data as usize;
    while remaining > 0 {
        let now = remaining.min(samples.len());
        file.write_all(&samples[..now])?;
        remaining -= now;
    }
    Ok(())
}
