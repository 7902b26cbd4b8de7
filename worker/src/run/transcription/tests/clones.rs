//! Dummies in imitations of the speakers' voices, by a real program with a real voice.
//!
//! The program does not imitate; it speaks its text with flite, and records its inputs, which the tests check.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use undertone_api::job::transcription::{OutputVoice, Spec};

use super::place::{Death, Place};
use crate::run::RunError;
use crate::speech::transcribe::speak::reference::{LEAST, MOST};
use crate::speech::transcribe::wav;

/// Stores its reference, records its readers' rights, speaks its text.
const CLONER: &str = "text=$(cat); name=${1##*/}; cp \"$1\" \"$0/$name.$$\"; mv \"$0/$name.$$\" \"$0/$name\"; \
    { ls -ld \"$1\" \"${1%/*}\" | cut -c1-10; } >> \"$0/modes\"; echo \"$name $text\" >> \"$0/said\"; \
    exec flite -voice slt -t \"$text\" -o /dev/stdout";

/// Makes a site with that program; it needs flite, and returns `None` without.
fn place() -> Option<Place> {
    Some(Place::new(cloned)?.cloning_with(CLONER))
}

/// Sets a job that pays for both providers together: imitations reveal to each provider the voices in the other's
/// pieces.
fn cloned(spec: &mut Spec) {
    together(spec);
    spec.voice = OutputVoice::Cloned;
}

fn together(spec: &mut Spec) {
    spec.colluding = NonZeroU32::new(2).unwrap();
}

/// Returns whether `part` lies in the samples of `whole`.
fn lies_in(part: &[u8], whole: &[u8]) -> bool {
    whole.windows(part.len()).step_by(2).any(|window| window == part)
}

/// The number of samples that identify a sound: several times the longest period of a voice.
const KNOWN: usize = 1_200;

/// Returns whether the loudest part of `part` occurs in `whole`, at any loudness.
fn is_said_in(part: &[u8], whole: &[u8]) -> bool {
    let numbers = |bytes: &[u8]| -> Vec<f32> {
        bytes.chunks_exact(2).map(|pair| f32::from(i16::from_le_bytes([pair[0], pair[1]]))).collect()
    };
    let (part, whole) = (numbers(part), numbers(whole));
    let power = |sound: &[f32]| sound.iter().map(|sample| sample * sample).sum::<f32>();
    let loudest = (0..part.len() - KNOWN)
        .step_by(KNOWN / 4)
        .max_by(|one, other| power(&part[*one..*one + KNOWN]).total_cmp(&power(&part[*other..*other + KNOWN])));
    let Some(start) = loudest else { return false };
    let known = &part[start..start + KNOWN];
    let places = 0..KNOWN;
    let highest = places.clone().max_by(|one, other| known[*one].total_cmp(&known[*other])).unwrap();
    let lowest = places.min_by(|one, other| known[*one].total_cmp(&known[*other])).unwrap();
    let alike = |window: &[f32]| {
        // Few places agree in two samples, which avoids a full comparison of all.
        let (one, other) = (window[highest] / known[highest], window[lowest] / known[lowest]);
        if one <= 0.0 || (one / other - 1.0).abs() > 0.1 {
            return false;
        }
        let product: f32 = known.iter().zip(window).map(|(one, other)| one * other).sum();
        product > 0.98 * (power(known) * power(window)).sqrt()
    };
    whole.windows(KNOWN).any(alike)
}

/// Returns the texts that the program spoke, with their voices, sorted.
fn said(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.cloner().join("said")).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Returns the file of the voice in a line of the program's record.
fn voice_of(line: &str) -> String {
    line.split(' ').next().unwrap_or_default().to_owned()
}

/// Returns the voices that the program received.
fn voices(place: &Place) -> BTreeMap<String, Vec<u8>> {
    let names = ["0.wav", "1.wav"].into_iter().filter(|name| place.cloner().join(name).exists());
    names.map(|name| (name.to_owned(), std::fs::read(place.cloner().join(name)).unwrap())).collect()
}

#[test]
fn true_pieces_keep_their_voices_and_dummies_imitate_a_recording() {
    let Some(place) = place() else { return };
    place.live().unwrap();
    assert_eq!(place.paid(), 1);
    let recordings = ["first", "second"].map(|name| place.recorded(name));
    for (provider, received) in place.outcome().providers.iter().zip(place.received()) {
        let as_recorded = |wav: &&Vec<u8>| recordings.iter().any(|whole| is_said_in(&wav[wav::HEADER..], whole));
        assert_eq!(received.iter().filter(as_recorded).count() as u64, provider.pieces);
        assert!(provider.dummies > 0);
    }
    // Each imitated recording has a separate file of its own speech alone.
    let voices = voices(&place);
    assert_eq!(
        said(&place).iter().map(|line| voice_of(line)).collect::<BTreeSet<_>>(),
        voices.keys().cloned().collect::<BTreeSet<_>>()
    );
    for (voice, file) in &voices {
        let whole = if voice == "0.wav" { &recordings[0] } else { &recordings[1] };
        let samples = wav::read(file).unwrap().len();
        assert!((LEAST..=MOST).contains(&samples), "{voice}: {samples}");
        assert!(lies_in(&file[wav::HEADER..][..3_200], whole), "{voice}: its first 0.1 s were said in that recording");
    }
    let modes = std::fs::read_to_string(place.cloner().join("modes")).unwrap();
    assert_eq!(modes.lines().collect::<BTreeSet<_>>(), BTreeSet::from(["-rw-------", "drwx------"]));
    assert!(place.left_behind().is_empty(), "no voice is left: {:?}", place.left_behind());
}

#[test]
fn what_is_made_again_is_made_in_the_same_voices_and_no_voice_stays_between() {
    let Some(place) = place() else { return };
    place.die(Death::Cleared);
    assert!(matches!(place.live(), Err(RunError::Stopped(_))));
    assert!(!place.has_voices(), "they are gone before anything is paid");
    let (manners, first) = (place.kept("manners.json"), said(&place));
    let before = voices(&place);
    assert!(!before.is_empty());
    std::fs::remove_file(place.cloner().join("said")).unwrap();
    place.die(Death::Paid);
    assert!(matches!(place.live(), Err(RunError::Stopped(_))));
    assert_eq!((place.kept("manners.json"), said(&place)), (manners, first));
    assert_eq!(voices(&place), before, "the same voices, to the bit");
    // Sealed sounds are sent unchanged, and the program does not run again.
    std::fs::remove_file(place.cloner().join("said")).unwrap();
    place.live().unwrap();
    assert!(!place.cloner().join("said").exists());
    assert_eq!(place.paid(), 1);
}

#[test]
fn a_program_that_fails_costs_nothing_and_leaves_no_voice() {
    let Some(place) = Place::new(cloned) else { return };
    let place = place.cloning_with("echo nothing");
    assert!(matches!(place.live(), Err(RunError::Failed(_))));
    assert_eq!((place.paid(), place.received().concat().len(), place.has_voices()), (0, 0, false));
}

#[test]
fn a_program_that_says_more_than_the_longest_piece_holds_costs_nothing() {
    let Some(place) = Place::new(cloned) else { return };
    let long = "somebody who is asked for a word and talks on and on about the weather".repeat(3);
    let place = place.cloning_with(&format!("cat > /dev/null; exec flite -voice slt -t '{long}' -o /dev/stdout"));
    let Err(RunError::Failed(said)) = place.live() else { panic!("it does not keep to the rate") };
    assert!(said.contains("longer than any piece"), "{said}");
    assert_eq!((place.paid(), place.received().concat().len(), place.has_voices()), (0, 0, false));
}

#[test]
fn imitations_are_charged_for_all_recognizers_together() {
    let Some(place) = Place::new(|spec| spec.voice = OutputVoice::Cloned) else { return };
    let place = place.cloning_with(CLONER);
    let Err(RunError::Refused(said)) = place.live() else { panic!("they tell of pieces that others hear") };
    assert!(said.contains("2 colluding recognizers"), "{said}");
    assert_eq!((place.paid(), place.heard_at_the_site(), place.received().concat().len()), (0, 0, 0));
}

#[test]
fn imitations_may_go_through_the_one_voice_too() {
    let Some(place) = Place::new(together) else { return };
    let place = place.cloning_with(CLONER);
    place.live().unwrap();
    let recordings = ["first", "second"].map(|name| place.recorded(name));
    let received = place.received().concat();
    let as_recorded = |wav: &&Vec<u8>| recordings.iter().any(|whole| is_said_in(&wav[wav::HEADER..], whole));
    assert_eq!(received.iter().filter(as_recorded).count(), 0, "true pieces leave in the one voice");
    assert!(!voices(&place).is_empty(), "and dummies after their voices");
}
