//! Word error rates: a cloud alone on the whole recording, the site's recognizer alone, and ours by voice. One run
//! through clouds with all dummies must yield exactly the same transcript as one without any.
//!
//! Pieces with several words of the vocabulary stay at the site unless they are sent ([`CrowdedPieces`]): both cases are
//! reported.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::{Value, json};
use support::stage::TestResult;
use undertone_worker::speech::transcribe::attack::topic;
use undertone_worker::speech::transcribe::piece::Recognition;
use undertone_worker::speech::transcribe::plan::{BatchItem, CrowdedPieces, Plan, PlanRandomness};
use undertone_worker::speech::transcribe::segment::SegmentLimits;
use undertone_worker::speech::transcribe::transcript::wer::WordErrors;
use undertone_worker::speech::transcribe::transcript::{OfflineReason, Transcript, TranscriptPart};
use undertone_worker::speech::transcribe::vocabulary::PieceWords;
use undertone_worker::speech::transcribe::{vocabulary, wav};

use super::document::{self, SpokenDocument};
use super::site::{self, MeasuredVoice, PreparedRecording, SiteTools, SoundNoise};
use super::sizes::TranscriptionSizes;
use super::stages::StageTimes;
use super::{cloud, histogram, rounded, say};
use crate::report::Report;

/// The pieces of a cloud alone: of the longest length that every provider accepts.
const WHOLE: SegmentLimits = SegmentLimits { rest: 8.0, margin: 0.3, threshold: 0.5 };

/// # Errors
/// When a module fails, or dummies change a transcript.
pub(super) async fn measure(
    report: &mut Report,
    sizes: &TranscriptionSizes,
    stages: &mut StageTimes,
) -> TestResult<()> {
    let tools = SiteTools::start(sizes)?;
    let voices = site::voices(sizes)?;
    let mut totals: BTreeMap<(&str, String), WordErrors> = BTreeMap::new();
    for (number, document) in document::all(sizes)?.iter().enumerate() {
        let prepared = site::prepare(&tools, document, stages).await?;
        say(report, document_report(&tools, document, &prepared)?)?;
        let mut transcripts = vec![
            ("cloud alone, whole".to_owned(), alone(&tools, document).await?),
            ("offline alone".to_owned(), text(&prepared.words)),
        ];
        let mut ours = BTreeMap::new();
        for voice in &voices {
            let answers = answers(&tools, &prepared, voice, stages).await?;
            for crowded in [CrowdedPieces::Keep, CrowdedPieces::Send] {
                let parts = staying(&prepared, crowded);
                let words = Transcript::assemble(&parts, answers.iter().cloned(), |_, piece| Some(piece));
                let way = if crowded == CrowdedPieces::Keep { "crowded kept" } else { "crowded sent" };
                transcripts.push((format!("ours, {}, {way}", voice.name), words.plain()));
            }
            ours.insert(voice.name.clone(), answers);
        }
        for (arm, transcript) in transcripts {
            let errors = WordErrors::count(&document.reference, &transcript);
            *totals.entry((document.kind, arm.clone())).or_default() += errors;
            say(report, line(&document.name, document.kind, &arm, errors))?;
        }
        if number == 0
            && let Some(voice) = voices.get(1)
        {
            let answers = ours.remove(&voice.name).ok_or("a voice that was heard")?;
            through_clouds(report, sizes, &tools, &prepared, voice, answers, stages).await?;
        }
    }
    for ((kind, arm), errors) in totals {
        say(report, line("all", kind, &arm, errors))?;
    }
    Ok(())
}

fn line(document: &str, kind: &str, arm: &str, errors: WordErrors) -> Value {
    json!({
        "document": document, "kind": kind, "transcript": arm, "words": errors.words,
        "word_error_rate": errors.rate().map(rounded), "substitutions": errors.substitutions,
        "insertions": errors.insertions, "deletions": errors.deletions,
    })
}

/// Returns the sounds of a document that leave, and the content of a vocabulary of its own.
fn document_report(tools: &SiteTools, document: &SpokenDocument, prepared: &PreparedRecording) -> TestResult<Value> {
    let count = |wanted: fn(&PieceWords) -> bool| prepared.candidates.iter().filter(|(_, held)| wanted(held)).count();
    let first = Recognition { words: prepared.words.clone() };
    let language = tools.vocabulary.language();
    let table = std::fs::read_to_string(document::data()?.join("docs/document_frequency_ami_icsi.tsv"))?;
    let baseline = vocabulary::BaselineCounts::parse(&table, language)?;
    // A document with hardly any recognized words has no vocabulary of its own.
    let own =
        vocabulary::from_transcripts(language, &[&first], &vocabulary::WordChoice::default(), &baseline, None).ok();
    Ok(json!({
        "document": document.name, "kind": document.kind, "seconds": rounded(document.seconds()),
        "pieces": prepared.pieces.len(), "spoken_seconds": rounded(prepared.seconds()), "kept": prepared.kept,
        "with_nothing": count(|held| *held == PieceWords::Nothing), "with_one": count(|held| matches!(held, PieceWords::One(_))),
        "crowded": count(|held| *held == PieceWords::Several), "public_vocabulary": tools.vocabulary.len(),
        "own_vocabulary": own.map(|own| json!({ "words": own.len(), "disclosure": own.disclosure() })),
    }))
}

/// Returns the transcript of a cloud that receives everything, in pieces of the longest accepted length.
async fn alone(tools: &SiteTools, document: &SpokenDocument) -> TestResult<String> {
    let whole = site::segment_document(document, WHOLE)?;
    let files: Vec<Vec<u8>> = whole.iter().map(|source| wav::write(&source.audio)).collect();
    let recognitions = cloud::hear(&tools.ear, &files, tools.at_once).await?;
    Ok(recognitions.iter().map(Recognition::text).collect::<Vec<_>>().join(" "))
}

/// Returns the recognition of every piece that may leave, without any dummy: provider 0, the piece, its words.
async fn answers(
    tools: &SiteTools,
    prepared: &PreparedRecording,
    voice: &MeasuredVoice,
    stages: &mut StageTimes,
) -> TestResult<Vec<(u32, u32, Recognition)>> {
    let mut sounds = Vec::new();
    for (id, _) in &prepared.candidates {
        sounds.push((SoundNoise::Piece(*id), prepared.piece(*id)?.audio.as_slice()));
    }
    let files = voice.leaving(&sounds, stages)?;
    let began = Instant::now();
    let recognitions = cloud::hear(&tools.ear, &files, tools.at_once).await?;
    stages.add("heard in the cloud", files.iter().map(|file| wav::seconds(file)).sum(), began);
    Ok(prepared.candidates.iter().zip(recognitions).map(|((id, _), recognition)| (0, *id, recognition)).collect())
}

/// Returns the parts, in which those with several words stay or not.
fn staying(prepared: &PreparedRecording, crowded: CrowdedPieces) -> Vec<TranscriptPart> {
    let several: BTreeSet<u32> =
        prepared.candidates.iter().filter(|(_, held)| *held == PieceWords::Several).map(|(id, _)| *id).collect();
    let mut parts = prepared.parts.clone();
    if crowded == CrowdedPieces::Keep {
        for part in parts.iter_mut().filter(|part| several.contains(&part.piece.id)) {
            part.stays = Some(OfflineReason::Crowded);
        }
    }
    parts
}

/// Runs once with audio: plan, dummies, one voice, a cleared batch, clouds on loopback, transcript.
async fn through_clouds(
    report: &mut Report,
    sizes: &TranscriptionSizes,
    tools: &SiteTools,
    prepared: &PreparedRecording,
    voice: &MeasuredVoice,
    without: Vec<(u32, u32, Recognition)>,
    stages: &mut StageTimes,
) -> TestResult<()> {
    let words = tools.vocabulary.len();
    let plan = Plan::draw(
        sizes.mechanism()?,
        words,
        tools.vocabulary.disclosure(),
        &prepared.candidates,
        CrowdedPieces::Keep,
        &PlanRandomness::from_os(),
    )?;
    let dummies = site::dummies(tools, &plan, usize::MAX, stages)?;
    let mut batches = Vec::new();
    for provider in 0..plan.providers() {
        let mut sounds: Vec<(SoundNoise, &[f32])> = Vec::new();
        for item in plan.batch(provider) {
            sounds.push(match item {
                BatchItem::Piece(id) => (SoundNoise::Piece(*id), &prepared.piece(*id)?.audio),
                BatchItem::Dummy(number) => {
                    let number = *number as usize;
                    (SoundNoise::Dummy(number), dummies.get(number).ok_or("a dummy of the plan")?)
                }
            });
        }
        batches.push(voice.leaving(&sounds, stages)?);
    }
    let began = Instant::now();
    let result = cloud::send(&plan, &batches, &tools.ear, tools.at_once).await?;
    stages.add("sent and heard over loopback", batches.iter().flatten().map(|file| wav::seconds(file)).sum(), began);

    // Each cloud must have received exactly its batch, every sound once.
    for (provider, (batch, received)) in batches.iter().zip(&result.received).enumerate() {
        let mut arrivals: Vec<&[u8]> = received.iter().map(|one| one.wav.as_slice()).collect();
        let mut expected: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
        arrivals.sort_unstable();
        expected.sort_unstable();
        if arrivals != expected {
            return Err(format!("cloud {provider} received something else than its batch").into());
        }
    }
    // No cloud may have received a piece that stays: neither as recorded nor in the common voice.
    let stay: Vec<(SoundNoise, &[f32])> = prepared
        .parts
        .iter()
        .filter(|part| part.stays.is_some() || plan.offline_pieces().contains(&part.piece.id))
        .map(|part| {
            let source = prepared.piece(part.piece.id)?;
            Ok((SoundNoise::Piece(part.piece.id), source.audio.as_slice()))
        })
        .collect::<TestResult<_>>()?;
    let mut secret: BTreeSet<Vec<u8>> = voice.leaving(&stay, stages)?.into_iter().collect();
    secret.extend(stay.iter().map(|(_, sound)| wav::write(sound)));
    if result.received.iter().flatten().any(|one| secret.contains(&one.wav)) {
        return Err("a piece that stays at the site was received".into());
    }

    let parts = staying(prepared, CrowdedPieces::Keep);
    let piece = |provider: u32, place: u32| match plan.batch(provider).get(place as usize) {
        Some(BatchItem::Piece(id)) => Some(*id),
        _ => None,
    };
    let with = Transcript::assemble(&parts, result.answers.iter().cloned(), piece).plain();
    let without = Transcript::assemble(&parts, without, |_, piece| Some(piece)).plain();
    if with != without {
        return Err("dummies changed the transcript".into());
    }
    for provider in 0..plan.providers() {
        let mut recognized = vec![0_u64; words as usize];
        let mut planned = vec![0_u64; words as usize];
        let answers = result.answers.iter().filter(|(by, ..)| *by == provider);
        let hypotheses = answers.flat_map(|(_, _, recognition)| &recognition.words);
        hypotheses
            .filter_map(|word| tools.vocabulary.number(&word.text))
            .for_each(|word| recognized[word as usize] += 1);
        let dummies = plan.dummies().filter(|dummy| dummy.provider == provider);
        dummies.filter_map(|dummy| dummy.word).for_each(|word| planned[word as usize] += 1);
        let piece_words: BTreeMap<u32, PieceWords> = prepared.candidates.iter().copied().collect();
        let (mut pieces, mut truth) = (0, vec![0_u64; words as usize]);
        for id in
            plan.batch(provider).iter().filter_map(|item| if let BatchItem::Piece(id) = item { Some(id) } else { None })
        {
            pieces += 1;
            if let Some(PieceWords::One(word)) = piece_words.get(id) {
                truth[*word as usize] += 1;
            }
        }
        let received: Vec<u64> = truth.iter().zip(&planned).map(|(true_words, dummies)| true_words + dummies).collect();
        say(
            report,
            json!({
                "run": "through clouds", "voice": voice.name, "provider": provider, "true": pieces,
                "dummies": plan.batch(provider).len() - pieces, "true_by_word": truth, "dummies_by_word": planned,
                "heard_by_word": recognized, "topic_distance": topic::distance(&truth, &received).map(rounded),
            }),
        )?;
    }
    say(
        report,
        json!({
            "run": "through clouds", "dummies_change_the_transcript": false,
            "histogram_p": rounded(histogram::rank(&plan, &prepared.candidates, words, sizes.draws)?),
            "seconds_of_dummies": rounded(site::seconds(&dummies)), "epsilon_delta_by_colluding": plan.mechanism().promises(),
        }),
    )
}

fn text(words: &[undertone_worker::speech::transcribe::piece::TimedWord]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}
