//! Description of a spec in words: for the planner, for the facts of a proposed job, and for the steward's approval.

use undertone_api::id::DatasetId;
use undertone_api::job::Charge;
use undertone_api::job::dp_sgd::{
    AcousticModel, Arm, Clipping, MaskedRuns, ModelPart, ModelParts, Noise, Optimizer, ParameterAdaptation, Precision,
    RateSchedule, RecurrentCell, Rounds, RowColumns, SelectionOptions, Spec, TextEmbedding, TrainingLoss,
    UnitAugmentation,
};
use undertone_privacy::correlated::BandedEncoder;
use undertone_privacy::{Event, SamplingRate};

use crate::words;

/// Describes a part of a model.
pub(super) const fn part_name(part: ModelPart) -> &'static str {
    match part {
        ModelPart::Embedding => "the embedding",
        ModelPart::Context => "the convolution",
        ModelPart::Layer1 => "the first hidden layer",
        ModelPart::Layer2 => "the second hidden layer",
        ModelPart::Layer3 => "the third hidden layer",
        ModelPart::Layer4 => "the fourth hidden layer",
        ModelPart::Normalize => "the layer norm",
        ModelPart::Output => "the output layer",
    }
}

fn list_parts(parts: ModelParts) -> String {
    words::join_names(&parts.iter().map(part_name).collect::<Vec<_>>())
}

/// Describes the releases of a private party, and the charge for each.
pub(super) fn describe_releases(local_steps: u32, selects: bool) -> String {
    let steps = words::count(local_steps.into());
    match (local_steps, selects) {
        (0 | 1, _) => "After every round one noisy mean gradient leaves; each costs 1 release.".to_owned(),
        (_, false) => {
            format!("After every {steps} local steps one update leaves; each costs {steps} releases.")
        }
        (_, true) => format!(
            "After every {steps} local steps the update of the best run leaves; each costs a selection among runs \
             of {steps} releases."
        ),
    }
}

/// Describes the model's layers.
pub(super) fn describe_model(model: &AcousticModel) -> String {
    if let Some(rows) = &model.rows {
        return describe_rows(model, rows);
    }
    let cell = if model.cell == RecurrentCell::Gru { "GRU" } else { "LSTM" };
    let layers = if model.layers == 1 { cell.to_owned() } else { format!("{} layers of {cell}", model.layers) };
    let context = model.context.map_or_else(String::new, |frames| format!("convolution over {frames} frames, "));
    let ways = if model.bidirectional { " in both directions" } else { "" };
    let norm = if model.normalize { ", layer norm" } else { "" };
    let hidden = words::count(model.hidden.into());
    let classes = match model.classes {
        Some(classes) => format!("{} classes", words::count(classes.into())),
        None => "one class per class of the data".to_owned(),
    };
    let loss = if model.loss == TrainingLoss::Ctc { ", trained with CTC" } else { "" };
    format!("{context}{layers}{ways} with {hidden} hidden units{norm}, {classes}{loss}")
}

/// Describes a model of rows.
fn describe_rows(model: &AcousticModel, rows: &RowColumns) -> String {
    let layers = match model.layers {
        0 => "linear model".to_owned(),
        1 => format!("one dense layer with {} hidden units", words::count(model.hidden.into())),
        layers => format!("{layers} dense layers with {} hidden units each", words::count(model.hidden.into())),
    };
    let norm = if model.normalize { ", layer norm" } else { "" };
    let loss = if model.loss == TrainingLoss::SquaredError { "squared error" } else { "cross-entropy" };
    let layers = match rows.text {
        Some(TextEmbedding { buckets, width }) => {
            let (buckets, width) = (words::count(buckets.into()), words::count(width.into()));
            format!("{buckets} vectors of {width} numbers for n-grams of texts, {layers}")
        }
        None => layers,
    };
    format!(
        "{layers}{norm}; predicts {} from {} ({}), {loss}; at most {} of each unit",
        rows.target.name,
        words::plural(rows.features.len() as u64, "column"),
        words::plural(rows.inputs().into(), "input"),
        words::plural(rows.rows_per_unit.into(), "row"),
    )
}

/// Describes the registry model with which a job begins.
pub(super) fn describe_initial(digest: &str) -> String {
    format!("the registry’s file with the SHA-256 {digest}; the certificate adds up the cost of both jobs")
}

/// Describes a series of rounds, from their number to the tolerated absences.
pub(super) fn describe_rounds(rounds: &Rounds) -> String {
    let mut parts = vec![words::plural(rounds.rounds.into(), "round")];
    if rounds.sends_updates() {
        parts.push(format!("{} local steps in each", words::count(rounds.local_steps.into())));
    }
    parts.extend(describe_processing(rounds));
    let copies = rounds.augmentation.as_ref().map(describe_copies);
    parts.extend(copies.map(|copies| format!("gradients of units as means over {copies}")));
    if let Some(train) = rounds.train {
        parts.push(format!("only {} trained", list_parts(train)));
    }
    parts.extend(rounds.adaptation.map(describe_adaptation));
    parts.extend(precision_bits(rounds.exchange.precision).map(|bits| format!("vectors travel in {bits} bits")));
    format!(
        "{}; a round waits {} and continues with {}",
        parts.join(", "),
        words::duration(f64::from(rounds.deadline_seconds)),
        words::plural(rounds.quorum.into(), "submission")
    )
}

/// Describes the training of few coordinates.
fn describe_adaptation(adaptation: ParameterAdaptation) -> String {
    match adaptation {
        ParameterAdaptation::Biases => "of the trained layers the biases alone".to_owned(),
        ParameterAdaptation::LowRank { rank } => format!(
            "weight matrices of the trained layers moving along {}",
            words::plural(rank.into(), "leading direction")
        ),
    }
}

/// Describes the altered copies of each unit: their number and alterations.
fn describe_copies(augmentation: &UnitAugmentation) -> String {
    let UnitAugmentation { copies, frame_masks, coefficient_masks, noise } = *augmentation;
    let masks = |masks: MaskedRuns, place| {
        let runs = words::plural(masks.count.into(), "masked run");
        format!("{runs} of up to {}", words::plural(masks.longest.into(), place))
    };
    let noise = (noise != 0.0).then(|| format!("noise of {} deviations", words::number(noise)));
    let alterations: Vec<String> =
        [frame_masks.map(|runs| masks(runs, "frame")), coefficient_masks.map(|runs| masks(runs, "coefficient")), noise]
            .into_iter()
            .flatten()
            .collect();
    let names: Vec<&str> = alterations.iter().map(String::as_str).collect();
    format!("{copies} copies with {}", words::join_names(&names))
}

/// Describes the post-processing of releases.
fn describe_processing(rounds: &Rounds) -> Vec<String> {
    let rate = words::number(rounds.optimizer.learning_rate());
    let step = match rounds.optimizer {
        Optimizer::Sgd { momentum, .. } => {
            format!("SGD, learning rate {rate}, momentum {}", words::number(momentum))
        }
        Optimizer::Adam { .. } => format!("Adam, learning rate {rate}"),
        Optimizer::DpAdam { .. } => format!("Adam corrected for the noise's variance, learning rate {rate}"),
    };
    let falls = |how: &str, warmup: u32, last: f64| {
        let first = if warmup > 0 {
            format!("rising for {}, then ", words::plural(warmup.into(), "round"))
        } else {
            String::new()
        };
        format!("{first}decaying {how} to {} of it", words::percent(last))
    };
    let schedule = match rounds.schedule {
        RateSchedule::Constant => None,
        RateSchedule::Linear { warmup, r#final } => Some(falls("linearly", warmup, r#final)),
        RateSchedule::Cosine { warmup, r#final } => Some(falls("by a cosine", warmup, r#final)),
    };
    let averaging = rounds.averaging.map(|ema| format!("iterates averaged with decay {}", words::number(ema.decay)));
    [Some(step), schedule, averaging].into_iter().flatten().collect()
}

const fn precision_bits(precision: Precision) -> Option<u32> {
    match precision {
        Precision::F32 => None,
        Precision::Bf16 => Some(16),
        Precision::Int8 => Some(8),
    }
}

/// Describes the private selection.
pub(super) fn describe_selection(selection: &SelectionOptions) -> String {
    format!(
        "the best of {} with {}, of which a secret number counts, {} on average; evaluated on {}",
        words::plural(u64::from(selection.most_runs.get()), "run"),
        words::plural(selection.candidates.len() as u64, "setting"),
        words::number((selection.runs().mean() * 10.0).round() / 10.0),
        words::plural(selection.development.into(), "public utterance"),
    )
}

fn describe_clip(noise: &Noise) -> String {
    let clip = words::number(noise.clip);
    match noise.clipping {
        Clipping::Flat => format!("clipped as a whole to a norm of {clip}"),
        Clipping::PerLayer => format!("clipped per layer, together to a norm of at most {clip}"),
        Clipping::Automatic => format!("scaled to a norm just under {clip}"),
    }
}

/// Returns the effects of an approval by a dataset's owner, sentence by sentence: the release, its number, its
/// mechanism, its cost. Empty for data without a charge, which are described elsewhere.
pub(super) fn describe_consent(spec: &Spec, dataset: DatasetId, charge: Option<&Charge>) -> Vec<String> {
    let mut lines = Vec::new();
    let exact = charge.is_none_or(|charge| charge.event == Event::NonPrivate);
    let (Some(party), false) = (spec.party(dataset), exact) else { return lines };
    let (Some(rounds), Some(noise)) = (spec.rounds(Arm::Private), &party.noise) else { return lines };
    let unit = words::unit(spec.unit);
    let releases = describe_releases(rounds.local_steps, spec.selection.is_some());
    lines.push(match &noise.banded {
        Some(_) => format!(
            "{releases} The {} are charged together by the first of them; a lost one is not repeated.",
            words::plural(spec.rounds_of(party).into(), "round"),
        ),
        None => format!(
            "{releases} There are {}, and up to {} more that are repeated and charged again after a crash.",
            words::plural(rounds.rounds.into(), "round"),
            words::count(spec.spare_releases.into()),
        ),
    });
    let z = noise.noise_multiplier;
    let encoder = spec.encoder(party);
    let norm = encoder.as_ref().map_or(1.0, BandedEncoder::column_norm);
    let own = spec.masks().map_or(z.get() * norm, |masks| masks.site_multiplier(z));
    lines.push(format!(
        "Each release is a sum over a secret random sample that includes each {unit} with probability {}: every \
         {unit}'s gradient, {}, with Gaussian noise of {} times that norm.",
        words::number(party.sampling_rate.get()),
        describe_clip(noise),
        words::number(own),
    ));
    if let Some(banded) = &noise.banded {
        lines.push(format!(
            "The {unit}s are split into {} groups by their ids, and the groups take turns. A {unit} of the group whose turn it is enters \
             the sample with probability {}. The noise of a round cancels a part of that of the {} rounds before it.",
            banded.bands,
            words::number(party.sampling_rate.for_turns(banded.bands).map_or(1.0, SamplingRate::get)),
            banded.bands.get().saturating_sub(1),
        ));
    }
    if let Some(augmentation) = &rounds.augmentation {
        lines.push(format!(
            "The gradient of each {unit} is the mean over {}, before it is brought to that norm: this costs no privacy.",
            describe_copies(augmentation),
        ));
    }
    lines.extend(describe_masks(spec));
    if let Some(choice) = &spec.selection {
        lines.push(format!(
            "Every round runs several times: {}. The other runs never leave the site, and a round is charged as a \
             private selection.",
            describe_selection(choice)
        ));
    }
    if let Some(train) = rounds.train {
        lines
            .push(format!("Only {} trains on these data; updates of the other layers never leave.", list_parts(train)));
    }
    lines.extend(rounds.adaptation.map(|adaptation| match adaptation {
        ParameterAdaptation::Biases => {
            "The gradient has the biases of the trained layers, and is clipped after that.".to_owned()
        }
        ParameterAdaptation::LowRank { rank } => format!(
            "The gradient has the biases of the trained layers and, of each weight matrix, {} of the model after the warm \
             start. It is clipped after that: this costs no privacy.",
            words::plural(rank.into(), "leading direction")
        ),
    }));
    if let Some(bits) = precision_bits(rounds.exchange.precision) {
        lines.push(format!(
            "It is sent with {bits} bits a number, randomly rounded after the noise is added: this costs no privacy."
        ));
    }
    lines.push(format!("Post-processing costs nothing more: {}.", describe_processing(rounds).join(", ")));
    lines
}

/// Describes secure aggregation; `None` for a job without it.
pub(super) fn describe_masks(spec: &Spec) -> Option<String> {
    let masks = spec.masks()?;
    let z = spec.members().next()?.noise?.noise_multiplier.get();
    Some(format!(
        "The server learns the sum of the vectors of at least {} of {} sites and no single vector. At least {} of them are \
         honest while at most {} collude with the server, and their noise together is {} times the clip.",
        masks.smallest_group,
        spec.members().count(),
        masks.honest(),
        masks.colluding,
        words::number(z)
    ))
}

/// Describes the clipping of private parties; `None` if they clip gradients as a whole.
pub(super) fn describe_clipping(spec: &Spec) -> Option<String> {
    let all = spec.participants.iter().filter_map(|party| party.noise);
    let unusual = all.map(|noise| noise.clipping).find(|clipping| *clipping != Clipping::Flat)?;
    Some(match unusual {
        Clipping::PerLayer => "each trained layer separately, together to the clip".to_owned(),
        _ => "every gradient normalized to just under the clip".to_owned(),
    })
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use undertone_api::job::JobKind as _;
    use undertone_api::job::dp_sgd::{
        BandedNoise, Clipping, Ema, ModelPart, ParameterAdaptation, Precision, RateSchedule, RecurrentCell,
        SecureAggregation, Spec, UnitAugmentation,
    };
    use undertone_privacy::{NoiseMultiplier, SamplingRate};

    use super::{describe_consent, describe_masks, describe_model, describe_releases, describe_rounds};
    use crate::kind::dp_sgd::TrainingPlan;
    use crate::testing::example;

    fn spec(change: impl FnOnce(&mut TrainingPlan)) -> Spec {
        let datasets = example::datasets();
        let standings = example::standings();
        let mut plan = TrainingPlan::first(&datasets, &standings).expect("there are datasets");
        change(&mut plan);
        let spec = plan.spec(&datasets).expect("every number is in range");
        assert_eq!(spec.check(&datasets), Vec::new());
        spec
    }

    #[test]
    fn releases_are_described_with_count_and_price() {
        assert_eq!(
            describe_releases(1, false),
            "After every round one noisy mean gradient leaves; each costs 1 release."
        );
        assert_eq!(
            describe_releases(20, false),
            "After every 20 local steps one update leaves; each costs 20 releases."
        );
    }

    #[test]
    fn consent_describes_every_option() {
        let mut spec = spec(|plan| (plan.steps.local, plan.trials.on) = (20, true));
        let private = spec.private.as_mut().expect("the first plan has a private arm");
        private.train = Some([ModelPart::Output].into_iter().collect());
        private.adaptation = Some(ParameterAdaptation::LowRank { rank: 8 });
        private.exchange.precision = Precision::Int8;
        private.averaging = Some(Ema { decay: 0.99 });
        private.augmentation = Some(UnitAugmentation::with_usual_alterations(8));
        private.schedule = RateSchedule::Cosine { warmup: 2, r#final: 0.1 };
        for noise in spec.participants.iter_mut().filter_map(|party| party.noise.as_mut()) {
            noise.clipping = Clipping::Automatic;
        }
        let datasets = example::datasets();
        let ours = datasets.iter().find(|dataset| spec.cost(dataset).is_some()).expect("somebody pays");
        let consent = describe_consent(&spec, ours.id, spec.cost(ours).as_ref()).join(" ");
        for words in [
            "After every 20 local steps the update of the best run leaves",
            "40 rounds, and up to 4 more",
            "scaled to a norm just under 1",
            "the best of 20 runs with 3 settings",
            "Only the output layer trains",
            "of each weight matrix, 8 leading directions of the model after the warm start. It is clipped after that",
            "8 bits a number",
            "rising for 2 rounds, then decaying by a cosine to 10.0 % of it",
            "iterates averaged with decay 0.99",
            "the mean over 8 copies with 2 masked runs of up to 10 frames, 1 masked run of up to 3 coefficients and noise of 0.1",
        ] {
            assert!(consent.contains(words), "{words:?} is not in {consent}");
        }
        let lead = spec.participants[0].dataset;
        assert_eq!(describe_consent(&spec, lead, None), Vec::<String>::new(), "it pays nothing");
    }

    #[test]
    fn correlated_noise_is_described_with_its_turns() {
        let mut spec = spec(|_| ());
        let datasets = example::datasets();
        let ours = datasets.iter().find(|dataset| spec.cost(dataset).is_some()).expect("somebody pays");
        for party in spec.participants.iter_mut().filter(|party| party.noise.is_some()) {
            party.sampling_rate = SamplingRate::new(0.125).expect("a probability");
            let bands = std::num::NonZeroU32::MIN.saturating_add(3);
            party.noise.as_mut().expect("it adds noise").banded = Some(BandedNoise { bands });
        }
        let consent = describe_consent(&spec, ours.id, spec.cost(ours).as_ref()).join(" ");
        for words in
            ["charged together by the first of them", "into 4 groups", "with probability 0.5", "3 rounds before it"]
        {
            assert!(consent.contains(words), "{words:?} is not in {consent}");
        }
    }

    /// Noise of 1.5 with four honest sites: each adds half of it.
    #[test]
    fn masked_sums_are_described_with_both_noises() {
        let mut spec = spec(|_| ());
        assert_eq!(describe_masks(&spec), None);
        spec.secure_aggregation = Some(SecureAggregation::new(5, 1));
        for noise in spec.participants.iter_mut().filter_map(|party| party.noise.as_mut()) {
            noise.noise_multiplier = NoiseMultiplier::new(1.5).expect("positive");
        }
        let text = describe_masks(&spec).expect("it has masks");
        assert!(text.contains("at least 5 of") && text.contains("At least 4 of them are honest"), "{text}");
        assert!(text.ends_with("their noise together is 1.5 times the clip."), "{text}");
        let datasets = example::datasets();
        let ours = datasets.iter().find(|dataset| spec.cost(dataset).is_some()).expect("somebody pays");
        let consent = describe_consent(&spec, ours.id, spec.cost(ours).as_ref()).join(" ");
        assert!(consent.contains("with Gaussian noise of 0.75 times that norm"), "{consent}");
    }

    #[test]
    fn training_of_few_coordinates_is_described() {
        let mut spec = spec(|_| ());
        let datasets = example::datasets();
        let ours = datasets.iter().find(|dataset| spec.cost(dataset).is_some()).expect("somebody pays");
        for (adaptation, rounds, consent) in [
            (
                ParameterAdaptation::Biases,
                "of the trained layers the biases alone",
                "has the biases of the trained layers",
            ),
            (
                ParameterAdaptation::LowRank { rank: 1 },
                "moving along 1 leading direction;",
                "1 leading direction of the model",
            ),
        ] {
            spec.private.as_mut().expect("the first plan has a private arm").adaptation = Some(adaptation);
            let private = spec.rounds(undertone_api::job::dp_sgd::Arm::Private).expect("it runs");
            assert!(describe_rounds(private).contains(rounds), "{}", describe_rounds(private));
            let text = describe_consent(&spec, ours.id, spec.cost(ours).as_ref()).join(" ");
            assert!(text.contains(consent), "{text}");
        }
    }

    #[test]
    fn default_model_and_rounds_are_described() {
        let plain = spec(|_| ());
        assert_eq!(describe_model(&plain.model), "LSTM with 200 hidden units, one class per class of the data");
        let private = describe_rounds(plain.rounds(undertone_api::job::dp_sgd::Arm::Private).expect("it runs"));
        assert!(private.starts_with("40 rounds, Adam, learning rate 0.002; a round waits 10 minutes"), "{private}");
        let more = spec(|plan| {
            plan.layers.cell = RecurrentCell::Gru;
            plan.layers.layers = 2;
            plan.layers.context = 5;
            plan.layers.bidirectional = true;
        });
        assert!(
            describe_model(&more.model)
                .starts_with("convolution over 5 frames, 2 layers of GRU in both directions with 200")
        );
    }
}
