#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

mod clones;
mod recorded;
mod sound;
pub(crate) mod transcription;

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use undertone_api::job::transcription::{Provider, ProviderProtocol, Report, Spec, Vocabulary, WordWeight};
use undertone_privacy::{Delta, Epsilon, Event};

use super::dummies::make_mechanism;
use super::received::read_received;
use super::sounds::EACH;
use crate::fault::{self, FailureKind, FailurePlan};
use crate::run::RunError;
use crate::run::fake::CrashPoint;
use crate::speech::transcribe::noise::DummyMechanism;
use crate::speech::transcribe::vocabulary::WordDisclosure;
use transcription::TestTranscription;

/// Needs flite; passes without.
#[test]
fn recordings_become_transcripts_and_each_sound_leaves_once() {
    let Some(job) = TestTranscription::new(|_| ()) else { return };
    job.run_process().unwrap();
    let outcome = job.outcome();
    assert_eq!(job.payments(), 1);
    assert_eq!(job.report(), Some(Report::from_plan(&job.spec()).unwrap()), "the server receives the plan alone");
    assert_eq!((outcome.recordings, outcome.words), (2, 3));
    assert!(outcome.sensitive + outcome.crowded + outcome.unanswered <= outcome.pieces && outcome.pieces >= 4);
    let mut pieces = 0;
    for (provider, sounds) in outcome.providers.iter().zip(job.provider_sounds()) {
        assert_eq!(provider.pieces + provider.dummies, sounds.len() as u64, "each sound once");
        pieces += provider.pieces;
        let samples: u64 = sounds.iter().map(|wav| (wav.len() as u64 - 44) / 2).sum();
        assert!((provider.seconds - samples as f64 / 16_000.0).abs() < 1e-9);
        assert!(provider.dummies > 0 && provider.histogram.iter().map(|bin| bin.heard).sum::<u64>() == 3);
        assert!(sounds.iter().all(|wav| wav.len() - 44 == 2 * 72_000), "their lengths reveal nothing");
        assert!(sounds.iter().all(|wav| wav[..4] == *b"RIFF" && wav[36..40] == *b"data"), "nothing but the sound");
    }
    assert_eq!(pieces, outcome.pieces - outcome.sensitive - outcome.crowded);
    // A provider answers with the loud length of a sound: each word of a transcript identifies the piece at that place.
    let words = job.transcript_words();
    let by_providers: Vec<_> = words.iter().filter(|word| word["source"] == "provider").collect();
    assert_eq!(by_providers.len() as u64, pieces - outcome.unanswered);
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
    assert!(job.work_files().is_empty(), "nothing private is left in the work folder: {:?}", job.work_files());
    assert!(job.has_private_results());
    kept_sounds_are_some_of_each_provider(&job);
    // A repetition changes nothing and sends nothing.
    job.run_process().unwrap();
    assert_eq!((job.payments(), job.outcome()), (1, outcome));
}

/// Checks that the site keeps up to five true pieces and five dummies of each provider, to the bit as they were sent.
fn kept_sounds_are_some_of_each_provider(job: &TestTranscription) {
    let received = read_received(&job.transcription_site().results).unwrap().unwrap();
    assert_eq!(received.planned, Report::from_plan(&job.spec()).unwrap());
    for ((provider, result), sounds) in
        job.spec().providers.iter().zip(job.outcome().providers).zip(job.provider_sounds())
    {
        for (is_dummy, sent) in [(false, result.pieces), (true, result.dummies)] {
            let kept = received.sounds.iter();
            let kept: Vec<_> = kept.filter(|one| one.provider == provider.name && one.is_dummy == is_dummy).collect();
            assert_eq!(kept.len() as u64, sent.min(EACH as u64), "{} {is_dummy}", provider.name);
            for sound in kept {
                let file = received.read_sound(sound.number).unwrap().unwrap();
                assert!(sounds.contains(&file) && sound.answer.starts_with('w'), "{sound:?}");
            }
        }
        let heard: u64 = received.counts.iter().filter(|one| one.provider == provider.name).map(|one| one.heard).sum();
        assert!(heard > 0 && received.counts.iter().all(|one| one.said <= one.heard));
    }
    assert!(received.read_sound(received.sounds.len() as u32 + 1).unwrap().is_none());
}

/// Needs flite; passes without.
#[test]
fn run_stopped_anywhere_resumes_and_pays_once() {
    let Some(job) = TestTranscription::new(|_| ()) else { return };
    let mut processes = 0;
    let mut checks = 1;
    loop {
        job.stop_after(checks);
        processes += 1;
        match job.run_process() {
            Ok(()) => break,
            Err(RunError::Stopped(_)) => checks *= 2,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(processes > 3, "{processes}");
    assert_eq!(job.payments(), 1);
    let sounds: Vec<u64> = job.outcome().providers.iter().map(|one| one.pieces + one.dummies).collect();
    let requests: Vec<u64> = job.provider_sounds().iter().map(|all| all.len() as u64).collect();
    assert_eq!(sounds, requests, "nothing was sent before it was sealed, and nothing twice");
}

/// Needs flite; passes without.
#[test]
fn full_disk_pauses_a_run_that_resumes_and_pays_once() {
    let Some(job) = TestTranscription::new(|_| ()) else { return };
    let mut pauses = 0;
    let mut after = 1;
    loop {
        fault::plan(Some(FailurePlan { accident: FailureKind::Disk, after }));
        let end = job.run_process();
        fault::plan(None);
        match end {
            Ok(()) => break,
            Err(RunError::Disk(_)) => pauses += 1,
            Err(other) => panic!("{after}: {other}"),
        }
        after += 3;
    }
    assert!(pauses > 3, "{pauses}");
    assert_eq!(job.payments(), 1);
    let sounds: Vec<u64> = job.outcome().providers.iter().map(|one| one.pieces + one.dummies).collect();
    let distinct = |all: Vec<Vec<u8>>| all.into_iter().collect::<BTreeSet<_>>().len() as u64;
    let requests: Vec<u64> = job.provider_sounds().into_iter().map(distinct).collect();
    assert_eq!(sounds, requests, "a sound whose answer was not stored is sent again, and no other one is made");
}

/// Needs flite; passes without.
#[test]
fn crash_after_clearing_or_paying_sends_the_same_bits_once_paid() {
    for point in [CrashPoint::Cleared, CrashPoint::Stored, CrashPoint::Accepted] {
        let Some(job) = TestTranscription::new(|_| ()) else { return };
        job.crash_at(point);
        assert!(matches!(job.run_process(), Err(RunError::Stopped(_))), "{point:?}");
        let before = job.provider_sounds();
        assert_eq!(before.iter().all(Vec::is_empty), point != CrashPoint::Accepted, "{point:?}");
        job.run_process().unwrap();
        assert_eq!(job.payments(), 1, "{point:?}");
        for (before, after) in before.iter().zip(job.provider_sounds()) {
            assert!(
                after.starts_with(before),
                "{point:?}: what was answered is not sent again, and nothing else is made"
            );
        }
        let sounds: u64 = job.outcome().providers.iter().map(|one| one.pieces + one.dummies).sum();
        assert_eq!(sounds, job.provider_sounds().iter().map(|all| all.len() as u64).sum::<u64>(), "{point:?}");
    }
}

/// Returns a choice of two of five candidates, with ε = 6.
fn chosen_words(weight: WordWeight) -> Vocabulary {
    let candidates = ["medicine", "window", "breathing", "harbour", "lantern"].map(str::to_owned).to_vec();
    Vocabulary::Selected { choose: 2, epsilon: Epsilon::new(6.0).unwrap(), weight, candidates, words: Vec::new() }
}

/// Needs flite; passes without.
#[test]
fn words_chosen_with_noise_are_drawn_and_paid_once() {
    let change = |spec: &mut Spec| spec.vocabulary = chosen_words(WordWeight::Frequency);
    let Some(job) = TestTranscription::new(change) else { return };
    let event = job.spec().event().unwrap();
    let Event::Composed { events } = &event else { panic!("{event:?}") };
    assert_eq!(events[0], Event::Pure { epsilon: Epsilon::new(6.0).unwrap() });
    let mut stored = BTreeSet::new();
    for point in [CrashPoint::Cleared, CrashPoint::Stored, CrashPoint::Accepted] {
        job.crash_at(point);
        assert!(matches!(job.run_process(), Err(RunError::Stopped(_))), "{point:?}");
        assert_eq!(job.payments() == 0, point == CrashPoint::Cleared, "{point:?}");
        stored.insert(job.read_work_file("vocabulary.json"));
    }
    job.run_process().unwrap();
    assert_eq!((stored.len(), job.payments(), job.outcome().words), (1, 1, 2));
    assert_eq!(job.report(), Some(Report::from_plan(&job.spec()).unwrap()), "the server does not receive the words");
}

/// Needs flite; passes without.
#[test]
fn words_chosen_with_noise_need_an_engine() {
    let change = |spec: &mut Spec| spec.vocabulary = chosen_words(WordWeight::Frequency);
    let Some(job) = TestTranscription::new(change) else { return };
    let job = job.with_speech("kind = \"recorded\"\n");
    let Err(RunError::Refused(problem)) = job.run_process() else { panic!("the speech may lack a chosen word") };
    assert!(problem.to_string().contains("`fill`"), "{problem}");
    assert_eq!((job.payments(), job.recognizer_requests()), (0, 0));
}

/// Needs flite; passes without.
#[test]
fn lost_paid_batch_is_not_made_again() {
    let Some(job) = TestTranscription::new(|_| ()) else { return };
    job.crash_at(CrashPoint::Stored);
    assert!(matches!(job.run_process(), Err(RunError::Stopped(_))));
    job.lose_batch();
    let Err(RunError::Refused(problem)) = job.run_process() else { panic!("the batch is lost") };
    assert!(problem.to_string().contains("propose a new job"), "{problem}");
    assert_eq!((job.payments(), job.provider_sounds().concat().len()), (1, 0));
}

/// Needs flite; passes without.
#[test]
fn recordings_replaced_during_the_job_do_not_leave() {
    for point in [CrashPoint::Cleared, CrashPoint::Stored] {
        let Some(job) = TestTranscription::new(|_| ()) else { return };
        job.crash_at(point);
        assert!(matches!(job.run_process(), Err(RunError::Stopped(_))));
        job.replace_recordings();
        let Err(RunError::Failed(problem)) = job.run_process() else { panic!("{point:?}: other recordings") };
        assert!(problem.to_string().contains("recordings are others"), "{point:?}: {problem}");
        assert_eq!(job.provider_sounds().concat().len(), 0, "{point:?}");
    }
}

/// Needs flite; passes without.
#[test]
fn conflicting_names_end_a_job_before_any_cost() {
    let Some(job) = TestTranscription::new(|_| ()) else { return };
    job.rename_recording("second", "first.txt/second");
    let Err(RunError::Failed(problem)) = job.run_process() else { panic!("a file is no folder") };
    let message = problem.with_causes();
    assert!(message.contains("add the recordings again") && !message.contains("first"), "{message}");
    assert_eq!((job.payments(), job.recognizer_requests(), job.provider_sounds().concat().len()), (0, 0, 0));
}

/// Needs flite; passes without.
#[test]
fn word_listed_after_the_plan_does_not_leave() {
    for point in [CrashPoint::Cleared, CrashPoint::Stored] {
        let Some(job) = TestTranscription::new(|_| ()) else { return };
        job.crash_at(point);
        assert!(matches!(job.run_process(), Err(RunError::Stopped(_))));
        job.add_sensitive_pattern("medicine|window|garden|breathing");
        let Err(RunError::Failed(problem)) = job.run_process() else { panic!("{point:?}: another list of words") };
        assert!(problem.to_string().contains("must not leave"), "{point:?}: {problem}");
        assert_eq!(job.provider_sounds().concat().len(), 0, "{point:?}");
    }
}

/// Needs flite; passes without.
#[test]
fn dummies_do_not_depend_on_the_recordings() {
    let sounds = |is_reversed: bool| {
        let job = TestTranscription::new(|_| ())?;
        job.set_seed(7);
        if is_reversed {
            job.reverse_recordings();
        }
        job.run_process().unwrap();
        let dummies: Vec<u64> = job.outcome().providers.iter().map(|one| one.dummies).collect();
        Some((job.provider_sounds(), dummies))
    };
    let Some((before, dummies)) = sounds(false) else { return };
    let Some((after, again)) = sounds(true) else { return };
    assert_eq!(dummies, again, "how many there are was drawn with the same seed");
    for ((before, after), dummies) in before.iter().zip(&after).zip(dummies) {
        let sounds: BTreeSet<&Vec<u8>> = before.iter().collect();
        let same = after.iter().filter(|sound| sounds.contains(sound)).count() as u64;
        assert_eq!(same, dummies, "a dummy reveals nothing of the recordings, nor of pieces that others receive");
    }
}

/// Sets one provider, which receives everything, and some sixty dummies.
fn with_one_provider(spec: &mut Spec) {
    spec.providers.truncate(1);
    spec.participant.epsilon = Epsilon::new(10.0).unwrap();
}

/// Needs flite; passes without.
#[test]
fn attacks_are_simulated_and_stay_at_the_site() {
    let Some(job) = TestTranscription::with_repeats(6, with_one_provider) else { return };
    job.run_process().unwrap();
    let outcome = job.outcome();
    let pieces = outcome.providers[0].pieces as f64;
    let dummies = outcome.providers[0].dummies as f64;
    let names: Vec<&str> = outcome.attacks.iter().map(|attack| attack.name.as_str()).collect();
    let name = |learner: &str, known: &str| format!("true or dummy at one: {learner}, by {known}");
    let [line, layer] = ["logistic regression", "hidden layer"];
    let [sound, words] = ["sound", "sound and words"];
    assert_eq!(names, [name(line, sound), name(layer, sound), name(line, words), name(layer, words)]);
    for attack in &outcome.attacks {
        let [low, high] = attack.interval;
        assert!(0.0 <= low && low <= attack.accuracy && attack.accuracy <= high && high <= 1.0 && low < high);
        assert!((attack.chance - pieces.max(dummies) / (pieces + dummies)).abs() < 1e-12);
    }
    assert!(outcome.stages.iter().any(|stage| stage.name == "attacks"));
    assert!(outcome.untried.is_empty());
    assert!(job.report().is_some_and(|report| report.outcome.is_none()), "the recordings are not public");
}

/// Needs flite; passes without.
#[test]
fn too_few_answers_leave_the_attack_untried() {
    let Some(job) = TestTranscription::with_repeats(6, with_one_provider) else { return };
    job.reject_key(0);
    job.run_process().unwrap();
    let outcome = job.outcome();
    assert!(outcome.attacks.is_empty());
    let [untried] = outcome.untried.as_slice() else { panic!("{:?}", outcome.untried) };
    assert_eq!(untried.provider, "one");
    assert!(untried.why.contains("fewer than 10"), "{untried:?}");
}

/// Needs flite; passes without.
#[test]
fn pieces_of_a_refusing_provider_keep_the_offline_words() {
    let Some(job) = TestTranscription::new(|_| ()) else { return };
    job.reject_key(0);
    job.run_process().unwrap();
    let outcome = job.outcome();
    assert_eq!((job.payments(), outcome.unanswered), (1, outcome.providers[0].pieces));
    let unanswered = job.transcript_words().iter().filter(|word| word["why"] == "unanswered").count() as u64;
    assert!(unanswered <= outcome.unanswered);
}

/// Needs flite; passes without.
#[test]
fn outcome_of_public_recordings_is_reported() {
    let Some(job) = TestTranscription::new(|_| ()) else { return };
    job.publish();
    job.run_process().unwrap();
    let report = job.report().unwrap();
    assert_eq!(report.outcome.as_deref(), Some(&job.outcome()));
    assert_eq!(report, Report::from_plan(&job.spec()).unwrap().with_outcome(job.outcome()));
}

/// Needs flite; passes without.
#[test]
fn job_that_the_site_cannot_do_is_refused_before_any_cost() {
    type Change = fn(&mut Spec);
    let changes: [(Change, &str); 10] = [
        (|spec| spec.vocabulary = chosen_words(WordWeight::TfIdf), "`baseline`"),
        (|spec| spec.participant.distance = NonZeroU32::new(9).unwrap(), "one spoken word changes up to 10 counts"),
        (|spec| spec.providers[0].name = "three".to_owned(), "three"),
        (|spec| spec.providers[0].protocol = ProviderProtocol::Google, "another protocol"),
        (|spec| spec.voice = undertone_api::job::transcription::OutputVoice::Url, "[transcription.voice]"),
        (|spec| spec.voice = undertone_api::job::transcription::OutputVoice::Cloned, "{reference}"),
        (|spec| spec.recognizer = undertone_api::job::transcription::SiteRecognizer::Pocketsphinx, "recognizer"),
        (|spec| spec.language = "fr".to_owned(), "transcription.sensitive"),
        // German lists would find nothing in English recordings.
        (|spec| spec.language = "de".to_owned(), "transcription.sensitive.languages"),
        (|spec| spec.dummies.corpus = undertone_api::job::transcription::DummyCorpus::Site, "[transcription.dummies]"),
    ];
    for (change, part) in changes {
        let Some(job) = TestTranscription::new(change) else { return };
        let Err(RunError::Refused(problem)) = job.run_process() else { panic!("{part}") };
        assert!(problem.to_string().contains(part), "{problem}");
        assert_eq!((job.payments(), job.recognizer_requests(), job.provider_sounds().concat().len()), (0, 0, 0));
    }
}

/// Needs flite; passes without.
#[test]
fn manifest_that_charges_another_release_is_refused() {
    let Some(job) = TestTranscription::new(|_| ()) else { return };
    job.set_other_charge();
    assert!(
        matches!(job.run_process(), Err(RunError::Refused(problem)) if problem.to_string().contains("another release"))
    );
    assert_eq!((job.payments(), job.provider_sounds().concat().len()), (0, 0));
}

/// Needs PocketSphinx (`UNDERTONE_ALIGNER`), flite and espeak-ng; passes without.
#[test]
fn numbers_stay_at_a_site_with_a_real_recognizer() {
    let Some(aligner) = crate::speech::fixture::aligner() else { return };
    if std::process::Command::new("espeak-ng").arg("--version").output().is_err() {
        return;
    }
    let real = |spec: &mut Spec| spec.recognizer = undertone_api::job::transcription::SiteRecognizer::Pocketsphinx;
    let Some(job) = TestTranscription::new(real) else { return };
    let job = job.with_aligner(aligner);
    job.run_process().unwrap();
    assert_eq!((job.payments(), job.recognizer_requests()), (1, 0));
    let words = job.transcript_words();
    let ten = words.iter().find(|word| word["word"] == "ten").expect("it recognizes \"go forward ten meters\" best");
    assert!(ten["sensitive"] == true && ten["source"] == "offline", "{ten}");
    let outcome = job.outcome();
    assert!(outcome.sensitive > 0 && outcome.providers.iter().all(|provider| provider.dummies > 0));
}

#[test]
fn drawn_noise_equals_the_charged_noise_to_the_bit() {
    for (epsilon, delta, distance, providers, colluding) in [
        (0.1, 1e-6, 1, 1, 1),
        (1.0, 1e-5, 4, 3, 1),
        (1.0, 1e-5, 15, 3, 2),
        (2.5, 1e-8, 40, 5, 5),
        (8.0, 1e-2, 2, 16, 7),
    ] {
        let count = |count| NonZeroU32::new(count).unwrap();
        let mut spec = transcription::spec();
        spec.participant.epsilon = Epsilon::new(epsilon).unwrap();
        spec.participant.delta = Delta::new(delta).unwrap();
        spec.participant.distance = count(distance);
        spec.colluding = count(colluding);
        spec.providers = (0..providers)
            .map(|number| Provider { name: format!("p{number}"), protocol: ProviderProtocol::Openai, price: None })
            .collect();
        let mechanism = make_mechanism(&spec).unwrap();
        let party = spec.participant;
        let calibrated =
            DummyMechanism::calibrated(party.epsilon, party.delta, party.distance, spec.partition().unwrap()).unwrap();
        assert_eq!((mechanism, mechanism.event(WordDisclosure::Nothing).unwrap()), (calibrated, spec.event().unwrap()));
        let choice = Epsilon::new(0.05).unwrap();
        spec.vocabulary = Vocabulary::Selected {
            choose: 1,
            epsilon: choice,
            weight: WordWeight::Frequency,
            candidates: ["one", "two"].map(str::to_owned).to_vec(),
            words: Vec::new(),
        };
        let rest = make_mechanism(&spec).unwrap();
        assert_eq!(rest.event(WordDisclosure::Selected(choice)).unwrap(), spec.event().unwrap());
        assert!(rest.noise().mean() > mechanism.noise().mean(), "the counts have the rest of ε");
    }
}
