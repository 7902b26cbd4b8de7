//! Masked rounds: conversions between the wire and the service.

use tonic::Status;
use undertone_api::id::WorkerId;
use undertone_api::problem::{Problem, Violation};
use undertone_proto::masked::{MaskedMessageError, parse_conflict};
use undertone_proto::to_status;
use undertone_proto::v1::masked_step_request::Step;
use undertone_proto::v1::{MaskedStepReply, MaskedStepRequest};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::round::{self, MaskedInput, MaskedMessage, StepHeader};

use super::convert::{fail, texts};
use super::documents::malformed;

/// Takes a site's message of a step, and answers with the input of its next step.
pub(super) async fn step(ctx: &Ctx, worker: WorkerId, request: MaskedStepRequest) -> Result<MaskedStepReply, Status> {
    let MaskedStepRequest { lease, series, round, wait_seconds, step } = request;
    texts([&*lease, &*series])?;
    let message = parse(step.ok_or_else(|| malformed("the step is missing"))?).map_err(|error| invalid(&error))?;
    let header = StepHeader { lease, series, round, wait_seconds };
    let input = round::masked_step(ctx, worker, &header, &message).await.map_err(fail)?;
    let mut reply = MaskedStepReply { ready: input.is_some(), ..MaskedStepReply::default() };
    match input {
        Some(MaskedInput::Advertisements(list)) => reply.advertisements = list.into_iter().map(Into::into).collect(),
        Some(MaskedInput::Shares(shares)) => reply.shares = shares.into_iter().map(Into::into).collect(),
        Some(MaskedInput::Survivors(survivors)) => reply.survivors = survivors.to_bits(),
        Some(MaskedInput::Signatures(list)) => reply.signatures = list.into_iter().map(Into::into).collect(),
        Some(MaskedInput::Over) | None => {}
    }
    Ok(reply)
}

fn parse(step: Step) -> Result<MaskedMessage, MaskedMessageError> {
    Ok(match step {
        Step::Advertise(advertisement) => MaskedMessage::Advertise(advertisement.try_into()?),
        Step::Share(shares) => {
            MaskedMessage::Share(shares.shares.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?)
        }
        Step::Survivors(_) => MaskedMessage::Survivors,
        Step::Sign(signature) => MaskedMessage::Sign(signature.try_into()?),
        Step::Reveal(reveal) => MaskedMessage::Reveal(reveal.try_into()?),
        Step::Refuse(number) => MaskedMessage::Refuse(parse_conflict(number)?),
    })
}

fn invalid(error: &MaskedMessageError) -> Status {
    to_status(&Problem::validation(vec![Violation::new("step", error.to_string())]))
}
