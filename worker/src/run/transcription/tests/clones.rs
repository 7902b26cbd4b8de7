//! Dummies in imitations of the speakers' voices, by a real program with a real voice.
//!
//! The program does not imitate; it speaks its text with flite, and records its inputs, which the tests check.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use undertone_api::job::transcription::{OutputVoice, Spec};

use super::transcription::TestTranscription;
use crate::run::RunError;
use crate::run::fake::CrashPoint;
use crate::speech::transcribe::speak::reference::{LEAST, MOST};
use crate::speech::transcribe::wav;

/// Stores its reference, records its readers' rights, speaks its text.
const CLONER: &str = "text=$(cat); name=${1##*/}; cp \"$1\" \"$0/$name.$$\"; mv \"$0/$name.$$\" \"$0/$name\"; \
    { ls -ld \"$1\" \"${1%/*}\" | cut -c1-10; } >> \"$0/modes\"; echo \"$name $text\" >> \"$0/said\"; \
    exec flite -voice kal16 -t \"$text\" -o /dev/stdout";

/// Makes a site with that program; it needs flite, and returns `None` without.
fn cloning_job() -> Option<TestTranscription> {
    Some(TestTranscription::new(with_cloned_voices)?.with_cloner(CLONER))
}

/// Sets a job that pays for both providers together: imitations reveal to each provider the voices in the other's
/// pieces.
fn with_cloned_voices(spec: &mut Spec) {
    with_collusion(spec);
    spec.voice = OutputVoice::Cloned;
}

fn with_collusion(spec: &mut Spec) {
    spec.colluding = NonZeroU32::new(2).unwrap();
}

/// Returns whether `part` lies in the samples of `whole`.
fn contains_samples(part: &[u8], whole: &[u8]) -> bool {
    whole.windows(part.len()).step_by(2).any(|window| window == part)
}

/// The number of samples that identify a sound: several times the longest period of a voice.
const WINDOW: usize = 1_200;

/// Returns whether the loudest part of `part` occurs in `whole`, at any loudness.
fn contains_speech(part: &[u8], whole: &[u8]) -> bool {
    let numbers = |bytes: &[u8]| -> Vec<f32> {
        bytes.chunks_exact(2).map(|pair| f32::from(i16::from_le_bytes([pair[0], pair[1]]))).collect()
    };
    let part = numbers(part);
    let whole = numbers(whole);
    let power = |sound: &[f32]| sound.iter().map(|sample| sample * sample).sum::<f32>();
    let loudest = (0..part.len() - WINDOW)
        .step_by(WINDOW / 4)
        .max_by(|one, other| power(&part[*one..*one + WINDOW]).total_cmp(&power(&part[*other..*other + WINDOW])));
    let Some(start) = loudest else { return false };
    let pattern = &part[start..start + WINDOW];
    let places = 0..WINDOW;
    let highest = places.clone().max_by(|one, other| pattern[*one].total_cmp(&pattern[*other])).unwrap();
    let lowest = places.min_by(|one, other| pattern[*one].total_cmp(&pattern[*other])).unwrap();
    let alike = |window: &[f32]| {
        // Few places agree in two samples, which avoids a full comparison of all.
        let one = window[highest] / pattern[highest];
        let other = window[lowest] / pattern[lowest];
        if one <= 0.0 || (one / other - 1.0).abs() > 0.1 {
            return false;
        }
        let product: f32 = pattern.iter().zip(window).map(|(one, other)| one * other).sum();
        product > 0.98 * (power(pattern) * power(window)).sqrt()
    };
    whole.windows(WINDOW).any(alike)
}

/// Returns the texts that the program spoke, with their voices, sorted.
fn spoken_lines(job: &TestTranscription) -> Vec<String> {
    let text = std::fs::read_to_string(job.cloner_folder().join("said")).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Returns the file of the voice in a line of the program's record.
fn voice_file(line: &str) -> String {
    line.split(' ').next().unwrap_or_default().to_owned()
}

/// Returns the voices that the program received.
fn cloner_voices(job: &TestTranscription) -> BTreeMap<String, Vec<u8>> {
    let names = ["0.wav", "1.wav"].into_iter().filter(|name| job.cloner_folder().join(name).exists());
    names.map(|name| (name.to_owned(), std::fs::read(job.cloner_folder().join(name)).unwrap())).collect()
}

#[test]
fn pieces_keep_their_voices_and_dummies_imitate_them() {
    let Some(job) = cloning_job() else { return };
    job.run_process().unwrap();
    assert_eq!(job.payments(), 1);
    let recordings = ["first", "second"].map(|name| job.recording_samples(name));
    for (provider, sounds) in job.outcome().providers.iter().zip(job.provider_sounds()) {
        let as_recorded = |wav: &&Vec<u8>| recordings.iter().any(|whole| contains_speech(&wav[wav::HEADER..], whole));
        assert_eq!(sounds.iter().filter(as_recorded).count() as u64, provider.pieces);
        assert!(provider.dummies > 0);
    }
    // Each imitated recording has a separate file of its own speech alone.
    let voices = cloner_voices(&job);
    assert_eq!(
        spoken_lines(&job).iter().map(|line| voice_file(line)).collect::<BTreeSet<_>>(),
        voices.keys().cloned().collect::<BTreeSet<_>>()
    );
    for (voice, file) in &voices {
        let whole = if voice == "0.wav" { &recordings[0] } else { &recordings[1] };
        let samples = wav::read(file).unwrap().len();
        assert!((LEAST..=MOST).contains(&samples), "{voice}: {samples}");
        assert!(
            contains_samples(&file[wav::HEADER..][..3_200], whole),
            "{voice}: its first 0.1 s were said in that recording"
        );
    }
    let modes = std::fs::read_to_string(job.cloner_folder().join("modes")).unwrap();
    assert_eq!(modes.lines().collect::<BTreeSet<_>>(), BTreeSet::from(["-rw-------", "drwx------"]));
    assert!(job.work_files().is_empty(), "no voice is left: {:?}", job.work_files());
}

#[test]
fn repeated_dummies_have_the_same_voices_and_none_stays() {
    let Some(job) = cloning_job() else { return };
    job.crash_at(CrashPoint::Cleared);
    assert!(matches!(job.run_process(), Err(RunError::Stopped(_))));
    assert!(!job.has_voices(), "they are gone before anything is paid");
    let manners = job.read_work_file("manners.json");
    let lines = spoken_lines(&job);
    let before = cloner_voices(&job);
    assert!(!before.is_empty());
    std::fs::remove_file(job.cloner_folder().join("said")).unwrap();
    job.crash_at(CrashPoint::Stored);
    assert!(matches!(job.run_process(), Err(RunError::Stopped(_))));
    assert_eq!((job.read_work_file("manners.json"), spoken_lines(&job)), (manners, lines));
    assert_eq!(cloner_voices(&job), before, "the same voices, to the bit");
    // Sealed sounds are sent unchanged, and the program does not run again.
    std::fs::remove_file(job.cloner_folder().join("said")).unwrap();
    job.run_process().unwrap();
    assert!(!job.cloner_folder().join("said").exists());
    assert_eq!(job.payments(), 1);
}

#[test]
fn failing_cloner_costs_nothing_and_leaves_no_voice() {
    let Some(job) = TestTranscription::new(with_cloned_voices) else { return };
    let job = job.with_cloner("echo nothing");
    assert!(matches!(job.run_process(), Err(RunError::Failed(_))));
    assert_eq!((job.payments(), job.provider_sounds().concat().len(), job.has_voices()), (0, 0, false));
}

#[test]
fn cloner_that_speaks_too_long_costs_nothing() {
    let Some(job) = TestTranscription::new(with_cloned_voices) else { return };
    let long = "a person who talks on and on about the weather of the whole last week".repeat(3);
    let job = job.with_cloner(&format!("cat > /dev/null; exec flite -voice kal16 -t '{long}' -o /dev/stdout"));
    let Err(RunError::Failed(problem)) = job.run_process() else { panic!("it does not keep to the rate") };
    assert!(problem.to_string().contains("longer than any piece"), "{problem}");
    assert_eq!((job.payments(), job.provider_sounds().concat().len(), job.has_voices()), (0, 0, false));
}

#[test]
fn imitations_need_a_charge_for_all_recognizers() {
    let Some(job) = TestTranscription::new(|spec| spec.voice = OutputVoice::Cloned) else { return };
    let job = job.with_cloner(CLONER);
    let Err(RunError::Refused(problem)) = job.run_process() else { panic!("they reveal pieces of others") };
    assert!(problem.to_string().contains("2 colluding recognizers"), "{problem}");
    assert_eq!((job.payments(), job.recognizer_requests(), job.provider_sounds().concat().len()), (0, 0, 0));
}

#[test]
fn imitations_can_pass_through_the_one_voice() {
    let Some(job) = TestTranscription::new(with_collusion) else { return };
    let job = job.with_cloner(CLONER);
    job.run_process().unwrap();
    let recordings = ["first", "second"].map(|name| job.recording_samples(name));
    let sounds = job.provider_sounds().concat();
    let as_recorded = |wav: &&Vec<u8>| recordings.iter().any(|whole| contains_speech(&wav[wav::HEADER..], whole));
    assert_eq!(sounds.iter().filter(as_recorded).count(), 0, "true pieces leave in the one voice");
    assert!(!cloner_voices(&job).is_empty(), "and dummies after their voices");
}
