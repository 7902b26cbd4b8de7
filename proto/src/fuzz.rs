//! Fuzz targets for the wire: every message, its conversions, vectors of every precision, pools and answers.

use std::io::Read as _;

use prost::Message;
use prost_types::FileDescriptorSet;
use serde_json::{Value, json};
use undertone_api::job::dp_sgd::Precision;
use undertone_api::job::log::SiteEvent;
use undertone_api::log::witness::WitnessAnswer;
use undertone_api::problem::{Code, Problem};
use undertone_fuzz::Target;

use crate::question::{self, QuestionLine};
use crate::vector::{self, SLICE, VectorForm, VectorReader};
use crate::{PROBLEM_METADATA, document, to_problem, to_status, v1};

/// Decodes the bytes as a message, and checks that the message survives encoding and decoding.
fn read<M: Message + Default>(bytes: &[u8]) -> Option<M> {
    let message = M::decode(bytes).ok()?;
    let written = message.encode_to_vec();
    let again = M::decode(written.as_slice()).expect("what was written can be read");
    assert_eq!(again.encode_to_vec(), written);
    Some(message)
}

macro_rules! messages {
    ($($name:ident)*) => {
        const MESSAGES: &[&str] = &[$(stringify!($name)),*];

        fn every_message(bytes: &[u8]) {
            $(read::<v1::$name>(bytes);)*
        }
    };
}

messages! { AccessSubject Account AnswersChunk AnswersHeader AnswersRequest ApproveJobRequest Artifact ArtifactDeletion AskChunk AskHeader AskReply AskedChunk AskedHeader AskedRequest AverageChunk AverageHeader AverageRequest CallChunk CallHead CallRequest CancelJobRequest ChallengeReply ChallengeRequest ChooseReply ChooseRequest Chosen CloneJobRequest CompareModelsReply CompareModelsRequest Consortium CountersignReply CountersignRequest CreateDraftRequest CredentialNotice CredentialNoticesReply CredentialNoticesRequest Dataset DecideReply DecideRequest DeleteArtifactRequest DeleteDraftReply DeleteDraftRequest Done DownloadArtifactChunk DownloadArtifactRequest DownloadModelArchiveChunk DownloadModelArchiveRequest Draft EnrollReply EnrollRequest Entry ExchangeHeadsReply ExchangeHeadsRequest ExportQuestionsChunk ExportQuestionsRequest FinishReply FinishRequest GaveUp GetArtifactChunk GetArtifactHeader GetArtifactRequest GetCertificateReply GetCertificateRequest GetConsortiumRequest GetDatasetRequest GetDraftRequest GetJobRequest GetModelCardReply GetModelCardRequest GetModelReply GetModelRequest GetReportReply GetReportRequest ImportAnswersReply ImportAnswersRequest Job JoinedSubject KeyProof LeaveJobRequest ListArtifactsReply ListArtifactsRequest ListConsortiaReply ListConsortiaRequest ListDatasetsReply ListDatasetsRequest ListDraftsReply ListDraftsRequest ListEntriesReply ListEntriesRequest ListJobsReply ListJobsRequest ListOperationsReply ListOperationsRequest ListOrganizationsReply ListOrganizationsRequest LogEvent LogReply LogRequest LogRound MaskedAdvertisement MaskedReveal MaskedShares MaskedStepReply MaskedStepRequest MeasureReply MeasureRequest NextOfferReply NextOfferRequest Nothing Operation Organization OwnedSubject PageRequest PauseJobRequest PeerHead PinsReply PinsRequest PlanJobReply PlanJobRequest Pool Progress Proposal ProposeDraftRequest ProposeJobAgainRequest ProposeJobRequest PutArtifactChunk PutArtifactHeader PutArtifactReply ReceiptProof ReceiptsReply ReceiptsRequest ReceivedReply ReceivedRequest ReconcileReply ReconcileRequest ReconciledPart RefuseJobRequest RegisterDatasetReply RegisterDatasetRequest RenewReply RenewRequest RestorationProof RestoreReply RestoreRequest ResumeJobRequest RetireReply RetireRequest RetryJobRequest RevealedShare RotateKeyReply RotateKeyRequest SealedShares SetBudgetRequest SignInReply SignInRequest Signed SignedRotation SubmitChunk SubmitHeader SubmitReply SurvivorSignature UpdateDraftRequest WatchJobRequest WhoAmIReply WhoAmIRequest WitnessReply WitnessRequest Work }

#[test]
fn every_message_of_the_wire_is_among_those_that_are_tried() {
    let set = FileDescriptorSet::decode(crate::DESCRIPTOR).expect("a description");
    let ours = set.file.iter().filter(|file| file.package() == "undertone.v1");
    let described: Vec<&str> =
        ours.flat_map(|file| &file.message_type).map(prost_types::DescriptorProto::name).collect();
    let untried: Vec<&&str> = described.iter().filter(|name| !MESSAGES.contains(name)).collect();
    assert!(untried.is_empty() && described.len() == MESSAGES.len(), "add to the list: {untried:?}");
}

/// Returns a signed document with some content, which most messages contain.
fn signed(payload: &str) -> v1::Signed {
    v1::Signed { payload: payload.to_owned(), signature: "ab".repeat(64) }
}

fn hash(byte: u8) -> Vec<u8> {
    vec![byte; 32]
}

/// Returns messages in the form that sites and servers send.
fn valid_messages() -> Vec<Vec<u8>> {
    let submit = v1::SubmitHeader {
        lease: "lease".to_owned(),
        series: "private".to_owned(),
        round: 3,
        receipts: vec![signed("{\"sequence\":1}"), signed("{\"sequence\":2}")],
        length: 1_861_296,
        digest: "cd".repeat(32),
        size: 7_445_184,
        offset: 4096,
    };
    let round = |round| v1::LogRound { series: 0, round, repeated: round == 2 };
    let kinds = [v1::log_event::Event::Phase(3), v1::log_event::Event::Sent(round(2)), v1::log_event::Event::Fault(5)];
    let events = (1..).zip(kinds).map(|(sequence, event)| v1::LogEvent { sequence, at_unix: 7, event: Some(event) });
    let log = v1::LogRequest { lease: "lease".to_owned(), sent_at_unix: 1_763_640_000, events: events.collect() };
    let pool = v1::Pool { dataset_id: "id".to_owned(), questions: 3, size: 90, digest: "ef".repeat(32) };
    let header = v1::AskedHeader { ready: true, pools: vec![pool.clone(), pool], missing: vec!["id".to_owned()] };
    let choice = v1::Chosen { question: "id".to_owned(), uncertainty: 0.69 };
    let choose = v1::ChooseRequest { lease: "lease".to_owned(), round: 1, chosen: vec![choice; 3] };
    let part = v1::submit_chunk::Part::Data(vec![1, 2, 3, 4]);
    let plan = v1::PlanJobRequest { consortium: "id".to_owned(), job: document::to_struct(&job()) };
    vec![
        v1::SubmitChunk { part: Some(v1::submit_chunk::Part::Header(submit)) }.encode_to_vec(),
        v1::SubmitChunk { part: Some(part) }.encode_to_vec(),
        witnessed().encode_to_vec(),
        log.encode_to_vec(),
        v1::AskedChunk { part: Some(v1::asked_chunk::Part::Header(header)) }.encode_to_vec(),
        choose.encode_to_vec(),
        plan.encode_to_vec(),
        v1::RotateKeyRequest { by_old: Some(signed("{}")), by_new: Some(signed("{}")) }.encode_to_vec(),
        masked_step().encode_to_vec(),
    ]
}

fn masked_step() -> v1::MaskedStepRequest {
    let share = |of| v1::RevealedShare { of, share: hash(8) };
    let reveal = v1::MaskedReveal { site: 1, seeds: vec![share(0), share(1)], keys: vec![share(2)] };
    let step = Some(v1::masked_step_request::Step::Reveal(reveal));
    v1::MaskedStepRequest { lease: "lease".to_owned(), series: "private".to_owned(), round: 3, wait_seconds: 20, step }
}

fn witnessed() -> v1::WitnessReply {
    let proof = v1::ReceiptProof {
        sequence: 1,
        countersignature: Some(signed("{\"sequence\":1}")),
        position: 4,
        leaf: "{\"previous\":\"\"}".to_owned(),
        inclusion: vec![hash(1), hash(2)],
    };
    let restoration = v1::RestorationProof {
        statement: Some(signed("{\"size\":5}")),
        consistency: vec![hash(4)],
        inclusion: vec![hash(5), hash(6)],
    };
    v1::WitnessReply {
        head: Some(signed("{\"size\":7}")),
        consistency: vec![hash(3)],
        receipts: vec![proof],
        restorations: vec![restoration],
        must_reconcile: true,
        key: Some(v1::KeyProof { position: 2, leaf: "{}".to_owned(), inclusion: vec![hash(7)] }),
    }
}

fn job() -> Value {
    json!({ "title": "ε", "kind": "dp_sgd", "spec": { "unit": "speaker", "deep": [[[{ "a": [1, -2.5, null, true] }]]] } })
}

#[test]
fn no_bytes_break_a_message() {
    Target::new("proto.messages", 1_500).seeds(valid_messages()).run(every_message);
}

/// Checks that a valid answer to a witness, and an event of a log, are unchanged when they are sent again.
#[test]
fn converted_messages_survive_conversion_back() {
    Target::new("proto.convert", 6_000).seeds(valid_messages()).run(|bytes| {
        if let Some(answer) = read::<v1::WitnessReply>(bytes).and_then(|reply| WitnessAnswer::try_from(reply).ok()) {
            assert_eq!(WitnessAnswer::try_from(v1::WitnessReply::from(answer.clone())), Ok(answer));
        }
        for event in read::<v1::LogRequest>(bytes).map(|log| log.events).unwrap_or_default() {
            if let Ok(known) = SiteEvent::try_from(event) {
                let again = v1::LogEvent { sequence: 1, at_unix: 2, event: Some(known.into()) };
                assert_eq!(SiteEvent::try_from(again), Ok(known));
            }
        }
    });
}

/// Checks that a document is stable after one conversion to JSON, whatever its numbers.
#[test]
fn a_document_settles_after_one_passage() {
    let wire = document::to_struct(&job()).expect("an object");
    Target::new("proto.document", 4_000).seed(wire.encode_to_vec()).run(|bytes| {
        let Some(wire) = read::<prost_types::Struct>(bytes) else { return };
        let once = document::json(&wire);
        let again = document::to_struct(&once).expect("an object");
        assert_eq!(document::json(&again), once);
        assert_eq!(document::read::<Value>(&again).ok(), Some(once));
    });
}

/// Checks that every status yields a problem, whatever the metadata contain.
#[test]
fn every_status_has_a_problem() {
    let problem = Problem::new(Code::NotFound, "there is no such job");
    let text = serde_json::to_vec(&problem).expect("JSON");
    Target::new("proto.problem", 3_000).seed(text).run(|bytes| {
        let mut status = tonic::Status::internal("what the status says");
        let carried = tonic::metadata::MetadataValue::from_bytes(bytes);
        status.metadata_mut().insert_bin(PROBLEM_METADATA, carried);
        let problem = to_problem(&status);
        assert_eq!(to_problem(&to_status(&problem)), problem);
    });
}

/// Returns approximately normal numbers (SplitMix64).
fn noise(length: usize) -> Vec<f32> {
    let mut state = 7_u64;
    let mut draw = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        f64::from(((mixed ^ (mixed >> 27)) >> 32) as u32) / 4_294_967_296.0 - 0.5
    };
    (0..length).map(|_| ((0..4).map(|_| draw()).sum::<f64>() * 0.01) as f32).collect()
}

/// Checks packed, plain and damaged vectors: the reader returns as many finite numbers as the form states or an error,
/// wherever the bytes are split, and never more numbers than the form has on the way.
#[test]
fn no_bytes_make_a_vector_of_another_form() {
    const LENGTHS: [usize; 3] = [1, 300, 9_000];
    for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
        let name = match precision {
            Precision::F32 => "proto.vector_f32",
            Precision::Bf16 => "proto.vector_bf16",
            Precision::Int8 => "proto.vector_int8",
        };
        let written = LENGTHS.map(|length| vector::write(&noise(length), precision, || 9).expect("finite"));
        let mut bomb = zstd::stream::encode_all(std::io::repeat(0).take(1 << 26), 1).expect("packed");
        bomb.truncate(64 << 10);
        Target::new(name, 1_500).seeds(written).seed(bomb).run(|bytes| {
            for length in LENGTHS {
                let form = VectorForm::new(precision, length as u64).expect("a length");
                let whole = vector::read(bytes, form);
                if let Ok(numbers) = &whole {
                    assert!(numbers.len() == length && numbers.iter().all(|number| number.is_finite()));
                }
                let Ok(mut reader) = VectorReader::new(form, bytes.len() as u64) else { continue };
                let mut numbers = Vec::new();
                let result = bytes.chunks(1 + bytes.len() / 3).try_for_each(|piece| reader.take(piece, &mut numbers));
                assert!(numbers.len() <= length + SLICE, "{} numbers of {length}", numbers.len());
                let result = result.and_then(|()| reader.finish()).map(|()| numbers);
                assert_eq!(result.ok(), whole.ok(), "read in pieces it is another");
            }
        });
    }
}

/// Checks that a readable pool is written as an equal pool, in order and without empty texts.
#[test]
fn no_bytes_make_a_pool_that_could_not_be_sent() {
    let posed = |text: &str, count| QuestionLine { text: text.to_owned(), count };
    let pool =
        question::write(vec![posed("where is my card", Some(12)), posed("how do I renew", None)]).expect("a pool");
    let answers = question::write_answers(&[]).expect("answers");
    let lines = b"{\"text\":\"a\"}\n{\"text\":\"b\",\"count\":3}\n";
    let bomb = zstd::stream::encode_all(std::io::repeat(b'\n').take(1 << 26), 1).expect("packed");
    let plain = |bytes: &[u8]| zstd::stream::encode_all(bytes, 1).expect("packed");
    // Half of the inputs are changed before they are packed, because few changes of packed bytes leave a valid frame.
    let check = |bytes: &[u8]| {
        if let Ok(found) = question::read(bytes) {
            let mut sound = true;
            let questions: Vec<QuestionLine> =
                found.map_while(|question| question.map_err(|_| sound = false).ok()).collect();
            if sound {
                let again = question::write(questions.clone()).expect("what was read can be sent");
                let read: Result<Vec<QuestionLine>, _> = question::read(&again).expect("not too long").collect();
                assert_eq!(read, Ok(questions));
            }
        }
        if let Ok(answers) = question::read_answers(bytes) {
            let again = question::write_answers(&answers).expect("what was read can be sent");
            assert_eq!(question::read_answers(&again), Ok(answers));
        }
    };
    Target::new("proto.pool", 2_000).seeds([pool, answers, bomb]).seed(*lines).words(&["\"count\":", "\"text\":"]).run(
        |bytes| {
            check(bytes);
            check(&plain(bytes));
        },
    );
}
