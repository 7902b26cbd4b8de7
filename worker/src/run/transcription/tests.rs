#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

mod clones;
mod place;
mod recorded;
mod sound;

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use undertone_api::job::transcription::{Provider, ProviderProtocol, Report, Spec};
use undertone_privacy::{Delta, Epsilon};

use super::dummies::mechanism;
use crate::fault::{self, FailureKind, FailurePlan};
use crate::run::RunError;
use crate::speech::transcribe::noise::DummyMechanism;
use crate::speech::transcribe::vocabulary::WordDisclosure;
use place::{Death, Place};

/// Needs flite; passes without.
#[test]
fn recordings_become_transcripts_and_each_sound_leaves_once() {
    let Some(place) = Place::new(|_| ()) else { return };
    place.live().unwrap();
    let outcome = place.outcome();
    assert_eq!(place.paid(), 1);
    assert_eq!(place.report(), Some(Report::from_plan(&place.spec()).unwrap()), "the server is told the plan alone");
    assert_eq!((outcome.recordings, outcome.words), (2, 3));
    assert!(outcome.sensitive + outcome.crowded + outcome.unanswered <= outcome.pieces && outcome.pieces >= 4);
    let mut sent = 0;
    for (provider, received) in outcome.providers.iter().zip(place.received()) {
        assert_eq!(provider.pieces + provider.dummies, received.len() as u64, "each sound once");
        sent += provider.pieces;
        let heard: u64 = received.iter().map(|wav| (wav.len() as u64 - 44) / 2).sum();
        assert!((provider.seconds - heard as f64 / 16_000.0).abs() < 1e-9);
        assert!(provider.dummies > 0 && provider.histogram.iter().map(|bin| bin.heard).sum::<u64>() == 3);
        assert!(received.iter().all(|wav| wav.len() - 44 == 2 * 72_000), "their lengths tell nothing");
        assert!(received.iter().all(|wav| wav[..4] == *b"RIFF" && wav[36..40] == *b"data"), "nothing but the sound");
    }
    assert_eq!(sent, outcome.pieces - outcome.sensitive - outcome.crowded);
    // A provider answers with the loud length of a sound: each word of a transcript identifies the piece at that place.
    let words = place.words();
    let by_providers: Vec<_> = words.iter().filter(|word| word["source"] == "provider").collect();
    assert_eq!(by_providers.len() as u64, sent - outcome.unanswered);
    for word in &by_providers {
        let samples: u64 = word["word"].as_str().unwrap().trim_start_matches('w').parse().unwrap();
        let times = (word["start"].as_f64().unwrap(), word["end"].as_f64().unwrap());
        assert!((times.1 - times.0 - samples as f64 / 16_000.0).abs() < 0.002, "{word}");
    }
    let stay = words.iter().filter(|word| word["sensitive"] == true);
    assert!(stay.clone().all(|word| word["word"] == "twenty") && stay.count() as u64 <= outcome.sensitive);
    assert!(
        outcome
            .errors
            .is_some_and(|errors| errors.ours.words == 3 && errors.offline.words == 3 && errors.cloud.is_none())
    );
    assert!(place.left_behind().is_empty(), "nothing private is left in the work folder: {:?}", place.left_behind());
    assert!(place.is_for_its_owner_alone());
    // A repetition changes nothing and sends nothing.
    place.live().unwrap();
    assert_eq!((place.paid(), place.outcome()), (1, outcome));
}

/// Needs flite; passes without.
#[test]
fn a_run_that_is_stopped_anywhere_goes_on_and_pays_once() {
    let Some(place) = Place::new(|_| ()) else { return };
    let (mut lives, mut looks) = (0, 1);
    loop {
        place.stop_after(looks);
        lives += 1;
        match place.live() {
            Ok(()) => break,
            Err(RunError::Stopped(_)) => looks *= 2,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(lives > 3, "{lives}");
    assert_eq!(place.paid(), 1);
    let sounds: Vec<u64> = place.outcome().providers.iter().map(|one| one.pieces + one.dummies).collect();
    let received: Vec<u64> = place.received().iter().map(|all| all.len() as u64).collect();
    assert_eq!(sounds, received, "nothing was sent before it was sealed, and nothing twice");
}

/// Needs flite; passes without.
#[test]
fn full_disk_pauses_a_run_that_goes_on_and_pays_once() {
    let Some(place) = Place::new(|_| ()) else { return };
    let (mut pauses, mut after) = (0, 1);
    loop {
        fault::plan(Some(FailurePlan { accident: FailureKind::Disk, after }));
        let end = place.live();
        fault::plan(None);
        match end {
            Ok(()) => break,
            Err(RunError::Disk(_)) => pauses += 1,
            Err(other) => panic!("{after}: {other}"),
        }
        after += 3;
    }
    assert!(pauses > 3, "{pauses}");
    assert_eq!(place.paid(), 1);
    let sounds: Vec<u64> = place.outcome().providers.iter().map(|one| one.pieces + one.dummies).collect();
    let distinct = |all: Vec<Vec<u8>>| all.into_iter().collect::<BTreeSet<_>>().len() as u64;
    let received: Vec<u64> = place.received().into_iter().map(distinct).collect();
    assert_eq!(sounds, received, "a sound whose answer could not be noted is sent again, and no other one is made");
}

/// Needs flite; passes without.
#[test]
fn crash_after_clearing_or_paying_sends_the_same_bits_once_paid() {
    for death in [Death::Cleared, Death::Paid, Death::Sent] {
        let Some(place) = Place::new(|_| ()) else { return };
        place.die(death);
        assert!(matches!(place.live(), Err(RunError::Stopped(_))), "{death:?}");
        let before = place.received();
        assert_eq!(before.iter().all(Vec::is_empty), death != Death::Sent, "{death:?}");
        place.live().unwrap();
        assert_eq!(place.paid(), 1, "{death:?}");
        for (before, after) in before.iter().zip(place.received()) {
            assert!(
                after.starts_with(before),
                "{death:?}: what was answered is not sent again, and nothing else is made"
            );
        }
        let sounds: u64 = place.outcome().providers.iter().map(|one| one.pieces + one.dummies).sum();
        assert_eq!(sounds, place.received().iter().map(|all| all.len() as u64).sum::<u64>(), "{death:?}");
    }
}

/// Needs flite; passes without.
#[test]
fn a_batch_that_was_paid_and_is_gone_is_not_made_again() {
    let Some(place) = Place::new(|_| ()) else { return };
    place.die(Death::Paid);
    assert!(matches!(place.live(), Err(RunError::Stopped(_))));
    place.lose_batch();
    assert!(matches!(place.live(), Err(RunError::Refused(reason)) if reason.contains("propose a new job")));
    assert_eq!((place.paid(), place.received().concat().len()), (1, 0));
}

/// Needs flite; passes without.
#[test]
fn recordings_that_were_replaced_since_the_job_began_do_not_leave() {
    for death in [Death::Cleared, Death::Paid] {
        let Some(place) = Place::new(|_| ()) else { return };
        place.die(death);
        assert!(matches!(place.live(), Err(RunError::Stopped(_))));
        place.replace_recordings();
        assert!(
            matches!(place.live(), Err(RunError::Failed(said)) if said.contains("recordings are others")),
            "{death:?}"
        );
        assert_eq!(place.received().concat().len(), 0, "{death:?}");
    }
}

/// Needs flite; passes without.
#[test]
fn names_that_are_in_each_others_way_end_a_job_before_anything_is_heard_or_paid() {
    let Some(place) = Place::new(|_| ()) else { return };
    place.rename_recording("second", "first.txt/second");
    let Err(RunError::Failed(said)) = place.live() else { panic!("a file is no folder") };
    assert!(said.contains("add the recordings again") && !said.contains("first"), "{said}");
    assert_eq!((place.paid(), place.heard_at_the_site(), place.received().concat().len()), (0, 0, 0));
}

/// Needs flite; passes without.
#[test]
fn what_was_listed_since_the_plan_was_drawn_does_not_leave() {
    for death in [Death::Cleared, Death::Paid] {
        let Some(place) = Place::new(|_| ()) else { return };
        place.die(death);
        assert!(matches!(place.live(), Err(RunError::Stopped(_))));
        place.list("medicine|window|garden|breathing");
        assert!(matches!(place.live(), Err(RunError::Failed(said)) if said.contains("must not leave")), "{death:?}");
        assert_eq!(place.received().concat().len(), 0, "{death:?}");
    }
}

/// Needs flite; passes without.
#[test]
fn dummies_are_the_same_bits_whatever_was_recorded() {
    let sent = |turned: bool| {
        let place = Place::new(|_| ())?;
        place.draw_with(7);
        if turned {
            place.turn_recordings();
        }
        place.live().unwrap();
        let dummies: Vec<u64> = place.outcome().providers.iter().map(|one| one.dummies).collect();
        Some((place.received(), dummies))
    };
    let (Some((before, dummies)), Some((after, again))) = (sent(false), sent(true)) else { return };
    assert_eq!(dummies, again, "how many there are was drawn with the same seed");
    for ((before, after), dummies) in before.iter().zip(&after).zip(dummies) {
        let sounds: BTreeSet<&Vec<u8>> = before.iter().collect();
        let same = after.iter().filter(|sound| sounds.contains(sound)).count() as u64;
        assert_eq!(same, dummies, "a dummy tells nothing of the recordings, nor of pieces that others hear");
    }
}

/// Sets one provider, which receives everything, and some sixty dummies.
fn attacked(spec: &mut Spec) {
    spec.providers.truncate(1);
    spec.participant.epsilon = Epsilon::new(6.0).unwrap();
}

/// Needs flite; passes without.
#[test]
fn each_adversary_is_played_on_what_its_provider_heard_and_the_server_hears_nothing_of_it() {
    let Some(place) = Place::saying(6, attacked) else { return };
    place.live().unwrap();
    let outcome = place.outcome();
    let (pieces, dummies) = (outcome.providers[0].pieces as f64, outcome.providers[0].dummies as f64);
    let names: Vec<&str> = outcome.attacks.iter().map(|attack| attack.name.as_str()).collect();
    let of = |learner: &str, known: &str| format!("true or dummy at one: {learner}, by {known}");
    let [line, layer] = ["logistic regression", "hidden layer"];
    let [sound, words] = ["sound", "sound and words"];
    assert_eq!(names, [of(line, sound), of(layer, sound), of(line, words), of(layer, words)]);
    for attack in &outcome.attacks {
        let [low, high] = attack.interval;
        assert!(0.0 <= low && low <= attack.accuracy && attack.accuracy <= high && high <= 1.0 && low < high);
        assert!((attack.chance - pieces.max(dummies) / (pieces + dummies)).abs() < 1e-12);
    }
    assert!(outcome.stages.iter().any(|stage| stage.name == "attacks"));
    assert!(outcome.untried.is_empty());
    assert!(place.report().is_some_and(|report| report.outcome.is_none()), "the recordings are not public");
}

/// Needs flite; passes without.
#[test]
fn of_too_few_answers_nothing_is_learned_and_the_report_says_so() {
    let Some(place) = Place::saying(6, attacked) else { return };
    place.refuse(0);
    place.live().unwrap();
    let outcome = place.outcome();
    assert!(outcome.attacks.is_empty());
    let [untried] = outcome.untried.as_slice() else { panic!("{:?}", outcome.untried) };
    assert_eq!(untried.provider, "one");
    assert!(untried.why.contains("fewer than 10"), "{untried:?}");
}

/// Needs flite; passes without.
#[test]
fn a_provider_that_refuses_leaves_its_pieces_the_offline_words() {
    let Some(place) = Place::new(|_| ()) else { return };
    place.refuse(0);
    place.live().unwrap();
    let outcome = place.outcome();
    assert_eq!((place.paid(), outcome.unanswered), (1, outcome.providers[0].pieces));
    let unanswered = place.words().iter().filter(|word| word["why"] == "unanswered").count() as u64;
    assert!(unanswered <= outcome.unanswered);
}

/// Needs flite; passes without.
#[test]
fn of_public_recordings_everything_is_told() {
    let Some(place) = Place::new(|_| ()) else { return };
    place.publish();
    place.live().unwrap();
    let told = place.report().unwrap();
    assert_eq!(told.outcome.as_deref(), Some(&place.outcome()));
    assert_eq!(told, Report::from_plan(&place.spec()).unwrap().with_outcome(place.outcome()));
}

/// Needs flite; passes without.
#[test]
fn what_the_site_is_not_set_up_for_is_refused_before_anything_is_heard_or_paid() {
    type Change = fn(&mut Spec);
    let changes: [(Change, &str); 9] = [
        (|spec| spec.participant.distance = NonZeroU32::new(5).unwrap(), "one spoken word changes up to 6 counts"),
        (|spec| spec.providers[0].name = "three".to_owned(), "three"),
        (|spec| spec.providers[0].protocol = ProviderProtocol::Google, "asked otherwise"),
        (|spec| spec.voice = undertone_api::job::transcription::OutputVoice::Url, "[transcription.voice]"),
        (|spec| spec.voice = undertone_api::job::transcription::OutputVoice::Cloned, "{reference}"),
        (|spec| spec.recognizer = undertone_api::job::transcription::SiteRecognizer::Pocketsphinx, "recognizer"),
        (|spec| spec.language = "fr".to_owned(), "transcription.sensitive"),
        // German lists would find nothing in English recordings.
        (|spec| spec.language = "de".to_owned(), "transcription.sensitive.languages"),
        (|spec| spec.dummies.corpus = undertone_api::job::transcription::DummyCorpus::Site, "[transcription.dummies]"),
    ];
    for (change, named) in changes {
        let Some(place) = Place::new(change) else { return };
        let Err(RunError::Refused(said)) = place.live() else { panic!("{named}") };
        assert!(said.contains(named), "{said}");
        assert_eq!((place.paid(), place.heard_at_the_site(), place.received().concat().len()), (0, 0, 0));
    }
}

/// Needs flite; passes without.
#[test]
fn a_manifest_that_charges_another_release_is_refused() {
    let Some(place) = Place::new(|_| ()) else { return };
    place.charge_otherwise();
    assert!(matches!(place.live(), Err(RunError::Refused(said)) if said.contains("another release")));
    assert_eq!((place.paid(), place.received().concat().len()), (0, 0));
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`), flite and espeak-ng; passes without.
#[test]
fn with_a_real_recognizer_and_another_speaker_numbers_stay_at_the_site() {
    let Some(aligner) = crate::speech::fixture::aligner() else { return };
    if std::process::Command::new("espeak-ng").arg("--version").output().is_err() {
        return;
    }
    let real = |spec: &mut Spec| spec.recognizer = undertone_api::job::transcription::SiteRecognizer::Pocketsphinx;
    let Some(place) = Place::new(real) else { return };
    let place = place.hearing_with(aligner);
    place.live().unwrap();
    assert_eq!((place.paid(), place.heard_at_the_site()), (1, 0));
    let words = place.words();
    let ten = words.iter().find(|word| word["word"] == "ten").expect("\"go forward ten meters\" is what it hears best");
    assert!(ten["sensitive"] == true && ten["source"] == "offline", "{ten}");
    let outcome = place.outcome();
    assert!(outcome.sensitive > 0 && outcome.providers.iter().all(|provider| provider.dummies > 0));
}

#[test]
fn the_noise_that_is_drawn_is_the_noise_that_is_charged_to_the_bit() {
    for (epsilon, delta, distance, providers, colluding) in [
        (0.1, 1e-6, 1, 1, 1),
        (1.0, 1e-5, 4, 3, 1),
        (1.0, 1e-5, 15, 3, 2),
        (2.5, 1e-8, 40, 5, 5),
        (8.0, 1e-2, 2, 16, 7),
    ] {
        let count = |count| NonZeroU32::new(count).unwrap();
        let mut spec = place::spec();
        spec.participant.epsilon = Epsilon::new(epsilon).unwrap();
        spec.participant.delta = Delta::new(delta).unwrap();
        spec.participant.distance = count(distance);
        spec.colluding = count(colluding);
        spec.providers = (0..providers)
            .map(|number| Provider { name: format!("p{number}"), protocol: ProviderProtocol::Openai, price: None })
            .collect();
        let made = mechanism(&spec).unwrap();
        let party = spec.participant;
        let calibrated =
            DummyMechanism::calibrated(party.epsilon, party.delta, party.distance, spec.partition().unwrap()).unwrap();
        assert_eq!((made, made.event(WordDisclosure::Nothing).unwrap()), (calibrated, spec.event().unwrap()));
    }
}
