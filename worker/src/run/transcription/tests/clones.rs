//! Dummies in imitations of the speakers' voices, by a real program that is given a real voice.
//!
//! The program does not imitate; it says with flite what it is to say, and notes what it was given: which is what is claimed here.

use std::collections::{BTreeMap, BTreeSet};

use undertone_api::job::transcription::Voice;

use super::place::{Death, Place};
use crate::run::RunError;
use crate::speech::transcribe::speak::reference::{LEAST, MOST};
use crate::speech::transcribe::wav;

/// Keeps its reference, notes who may read it, says its text.
const CLONER: &str = "text=$(cat); name=${1##*/}; cp \"$1\" \"$0/$name.$$\"; mv \"$0/$name.$$\" \"$0/$name\"; \
    { ls -ld \"$1\" \"${1%/*}\" | cut -c1-10; } >> \"$0/modes\"; echo \"$name $text\" >> \"$0/said\"; \
    exec flite -voice slt -t \"$text\" -o /dev/stdout";

/// Needs flite; nothing without.
fn place() -> Option<Place> {
    Some(Place::new(|spec| spec.voice = Voice::Cloned)?.cloning_with(CLONER))
}

/// Where `part` lies in the samples of `whole`.
fn lies_in(part: &[u8], whole: &[u8]) -> bool {
    whole.windows(part.len()).step_by(2).any(|window| window == part)
}

/// What the program said, and in whose voice, sorted.
fn said(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.cloner().join("said")).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// The file of the voice in a line of what was said.
fn voice_of(line: &str) -> String {
    line.split(' ').next().unwrap_or_default().to_owned()
}

/// The voices that the program was given.
fn voices(place: &Place) -> BTreeMap<String, Vec<u8>> {
    let names = ["0.wav", "1.wav"].into_iter().filter(|name| place.cloner().join(name).exists());
    names.map(|name| (name.to_owned(), std::fs::read(place.cloner().join(name)).unwrap())).collect()
}

#[test]
fn true_pieces_leave_as_they_were_recorded_and_dummies_after_the_voice_of_their_recording() {
    let Some(place) = place() else { return };
    place.live().unwrap();
    assert_eq!(place.paid(), 1);
    let recordings = ["first", "second"].map(|name| place.recorded(name));
    for (provider, received) in place.outcome().providers.iter().zip(place.received()) {
        let as_recorded = |wav: &&Vec<u8>| recordings.iter().any(|whole| lies_in(&wav[wav::HEADER..], whole));
        assert_eq!(received.iter().filter(as_recorded).count() as u64, provider.pieces);
        assert!(provider.dummies > 0);
    }
    // Each imitated recording has a file of its own speech and of nothing else.
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
    place.die(Death::Paid);
    assert!(matches!(place.live(), Err(RunError::Stopped(_))));
    assert!(!place.has_voices(), "they are gone before anything is paid");
    let (manners, first) = (place.kept("manners.json"), said(&place));
    let before = voices(&place);
    assert!(!before.is_empty());
    std::fs::remove_file(place.cloner().join("said")).unwrap();
    place.die(Death::Noted);
    assert!(matches!(place.live(), Err(RunError::Stopped(_))));
    assert_eq!((place.kept("manners.json"), said(&place)), (manners, first));
    assert_eq!(voices(&place), before, "the same voices, to the bit");
    // What is sealed is sent as it is, and nobody speaks for it again.
    std::fs::remove_file(place.cloner().join("said")).unwrap();
    place.live().unwrap();
    assert!(!place.cloner().join("said").exists());
    assert_eq!(place.paid(), 1);
}

#[test]
fn a_program_that_fails_costs_nothing_and_leaves_no_voice() {
    let Some(place) = Place::new(|spec| spec.voice = Voice::Cloned) else { return };
    let place = place.cloning_with("echo nothing");
    assert!(matches!(place.live(), Err(RunError::Failed(_))));
    assert_eq!((place.paid(), place.received().concat().len(), place.has_voices()), (0, 0, false));
}

#[test]
fn a_program_that_says_more_than_the_longest_piece_holds_costs_nothing() {
    let Some(place) = Place::new(|spec| spec.voice = Voice::Cloned) else { return };
    let long = "somebody who is asked for a word and talks on and on about the weather".repeat(3);
    let place = place.cloning_with(&format!("cat > /dev/null; exec flite -voice slt -t '{long}' -o /dev/stdout"));
    let Err(RunError::Failed(said)) = place.live() else { panic!("it does not keep to the rate") };
    assert!(said.contains("longer than any piece"), "{said}");
    assert_eq!((place.paid(), place.received().concat().len(), place.has_voices()), (0, 0, false));
}

#[test]
fn imitations_may_go_through_the_one_voice_too() {
    let Some(place) = Place::new(|_| ()) else { return };
    let place = place.cloning_with(CLONER);
    place.live().unwrap();
    let recordings = ["first", "second"].map(|name| place.recorded(name));
    let received = place.received().concat();
    let as_recorded = |wav: &&Vec<u8>| recordings.iter().any(|whole| lies_in(&wav[wav::HEADER..], whole));
    assert_eq!(received.iter().filter(as_recorded).count(), 0, "true pieces leave in the one voice");
    assert!(!voices(&place).is_empty(), "and dummies after their voices");
}
