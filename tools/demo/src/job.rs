//! The training job of the demo, with an audit: the private arm beside public data alone, and with `--open` also the open
//! arm, which are the three arms of the paper's Table 2.

use undertone_api::dataset::Dataset;
use undertone_api::id::{DatasetId, JobId};
use undertone_api::job::dp_sgd::{
    AcousticModel, AuditOptions, AverageWeights, Noise, Optimizer, Party, Rounds, Spec as DpSgd, TestSet, WarmStart,
};
use undertone_api::job::{Job, NewJob, Spec};
use undertone_api::signed::{ApprovalStatement, SignedApproval};
use undertone_privacy::{NoiseMultiplier, PrivacyUnit, SamplingRate, UnitError};
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service::{approval, dataset, job};

use crate::consortium::DemoConsortium;
use crate::recipe::DemoRecipe;
use crate::{DemoError, explain_refusal};

/// The clipping norm C of every private party.
const CLIP: f64 = 1.0;
/// The optimizer for exact gradients.
const EXACT: Optimizer = Optimizer::Adam { learning_rate: 0.002 };
/// The optimizer for noisy gradients: Adam would amplify the noise of coordinates with small gradients, and long steps
/// or momentum add more noise than they gain in so few rounds.
const NOISY: Optimizer = Optimizer::Sgd { learning_rate: 0.2, momentum: 0.0 };

/// The audit: canaries that are gradients hardly disturb the training.
const AUDIT: AuditOptions = AuditOptions { canaries: 200, guesses: 100, recordings: 0 };

/// Proposes the training and approves it as every steward.
pub(super) async fn launch(ctx: &Ctx, recipe: &DemoRecipe, consortium: &DemoConsortium) -> Result<JobId, DemoError> {
    let proposer = &consortium.people[0].actor;
    let datasets =
        dataset::list(ctx, proposer, consortium.id).await.map_err(explain_refusal("listing the datasets"))?;
    let spec = spec(recipe, &datasets)?;
    let new = NewJob { title: "Speech of three private sites".to_owned(), spec: Spec::DpSgd(spec) };
    let proposed =
        job::propose(ctx, proposer, consortium.id, new).await.map_err(explain_refusal("proposing the job"))?;
    approve(ctx, consortium, &proposed).await?;
    Ok(proposed.summary.id)
}

/// Approves a job's use of the datasets as every steward except the lead's, whose data are public.
pub(super) async fn approve(ctx: &Ctx, consortium: &DemoConsortium, proposed: &Job) -> Result<(), DemoError> {
    for person in &consortium.people[1..] {
        for part in proposed.participants.iter().filter(|part| part.organization == person.organization) {
            let (job, manifest) = (proposed.summary.id, &proposed.manifest);
            let statement = ApprovalStatement::approve(manifest, job, part.dataset);
            let signature = SignedApproval::sign(&statement, &person.approval_key)
                .map_err(|error| DemoError::Job(format!("'s approval cannot be signed: {error}")))?;
            let approved =
                approval::approve_signed(ctx, &person.actor, job, part.dataset, Some(manifest), Some(&signature)).await;
            approved.map_err(explain_refusal("approving a job"))?;
        }
    }
    Ok(())
}

fn spec(recipe: &DemoRecipe, datasets: &[Dataset]) -> Result<DpSgd, DemoError> {
    let scale = recipe.scale;
    let out_of_range = |error: UnitError| DemoError::Job(format!("'s parameters are wrong: {error}"));
    let sampling_rate = SamplingRate::new(scale.sampling_rate).map_err(out_of_range)?;
    let noise = Noise::flat(NoiseMultiplier::new(scale.noise).map_err(out_of_range)?, CLIP);
    let rounds = |optimizer| Rounds {
        evaluate_every: 2,
        deadline_seconds: 120,
        quorum: 3,
        ..Rounds::new(scale.rounds, optimizer)
    };
    let (mut participants, mut tests) = (Vec::new(), Vec::new());
    for (number, party) in recipe.parties.iter().enumerate() {
        for data in &party.datasets {
            let dataset = find(datasets, data.name)?;
            match data.test {
                Some(name) => tests.push(TestSet { name: name.to_owned(), dataset }),
                None => participants.push(Party {
                    dataset,
                    sampling_rate,
                    noise: (number > 0).then_some(noise),
                    rounds: None,
                }),
            }
        }
    }
    Ok(DpSgd {
        unit: PrivacyUnit::Record,
        model: AcousticModel::lstm(scale.hidden, None),
        initial_model: None,
        participants,
        open_terms: Vec::new(),
        rehearsal: None,
        tests,
        warm_start: WarmStart { epochs: scale.epochs, batch: scale.batch, learning_rate: 0.005, seed: 1 },
        open: recipe.is_open.then(|| rounds(EXACT)),
        private: Some(rounds(NOISY)),
        audit: Some(AUDIT),
        selection: None,
        secure_aggregation: None,
        weights: AverageWeights::ExpectedBatch,
        spare_releases: 4,
        checkpoint_every: 5,
    })
}

/// Returns the dataset with a name.
pub(super) fn find(datasets: &[Dataset], name: &str) -> Result<DatasetId, DemoError> {
    let dataset = datasets.iter().find(|dataset| dataset.name == name);
    dataset.map(|dataset| dataset.id).ok_or_else(|| DemoError::Job(format!("'s dataset `{name}` is not registered")))
}
