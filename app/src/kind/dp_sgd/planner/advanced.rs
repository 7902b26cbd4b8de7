//! The planner's advanced settings: the model, the warm start, clipping, optimizer, exchange, private selection, secure
//! aggregation.
//! Collapsed by default; the summary line shows the number of violations within.

use leptos::prelude::*;
use undertone_api::job::dp_sgd::{Clipping, ModelPart, Precision, RecurrentCell};

use super::field::{
    ChoiceTable, FormField, PlanViolations, count_violations, find_word, make_setter, parse_word, render_checkbox,
    table_options,
};
use crate::kind::dp_sgd::description;
use crate::kind::dp_sgd::plan::{AdaptationKind, ScheduleShape, StepOptimizer, TrainingPlan};
use crate::words;

/// The paths of the spec with fields here.
const HERE: &[&str] = &[
    "model.",
    "warm_start.",
    "learning_rate",
    "momentum",
    "optimizer",
    "schedule",
    "averaging",
    "train",
    "adaptation",
    "exchange",
    "augmentation",
    "evaluate_every",
    "selection",
    "secure_aggregation",
];

const CELLS: &ChoiceTable<RecurrentCell> =
    &[(RecurrentCell::Lstm, "lstm", "LSTM"), (RecurrentCell::Gru, "gru", "GRU, three quarters of the parameters")];
const CLIPPINGS: &ChoiceTable<Clipping> = &[
    (Clipping::Flat, "flat", "as a whole: clipped to C"),
    (Clipping::PerLayer, "per_layer", "per layer: each of L layers clipped to C/√L"),
    (Clipping::Automatic, "automatic", "normalized: every gradient scaled to just under C"),
];
const STEPS: &ChoiceTable<StepOptimizer> = &[
    (StepOptimizer::Adam, "adam", "Adam"),
    (StepOptimizer::DpAdam, "dp_adam", "Adam with a noise-corrected second moment"),
    (StepOptimizer::Sgd, "sgd", "SGD with momentum"),
];
const SHAPES: &ChoiceTable<ScheduleShape> = &[
    (ScheduleShape::Constant, "constant", "stays"),
    (ScheduleShape::Linear, "linear", "linear decay"),
    (ScheduleShape::Cosine, "cosine", "cosine decay"),
];
const ADAPTATIONS: &ChoiceTable<AdaptationKind> = &[
    (AdaptationKind::Full, "full", "each parameter"),
    (AdaptationKind::LowRank, "low_rank", "low-rank changes and biases"),
    (AdaptationKind::Biases, "biases", "the biases"),
];
const PRECISIONS: &ChoiceTable<Precision> = &[
    (Precision::F32, "f32", "32 bits a number, unchanged"),
    (Precision::Bf16, "bf16", "16 bits a number, half the size"),
    (Precision::Int8, "int8", "8 bits a number, a quarter of the size"),
];
/// Shapes of the number of runs.
const DRAWN: &ChoiceTable<f64> = &[
    (0.0, "0", "logarithmically"),
    (1.0, "1", "geometrically"),
    (-0.5, "-0.5", "steeply: cheaper, more often a single run"),
];

/// Renders all advanced settings.
pub(super) fn render_advanced(plan: RwSignal<TrainingPlan>, shown: &TrainingPlan) -> AnyView {
    let PlanViolations(violations) = expect_context();
    let faults = Memo::new(move |_| count_violations(&violations.read(), HERE));
    let lid = move || match faults.get() {
        0 => String::new(),
        faults => format!(" · {} to fix", words::count(faults as u64)),
    };
    let groups = vec![
        render_group("Model", render_model(plan, shown)),
        render_group("Warm start, on public data", render_warm_start(plan, shown)),
        render_group("Clipping", render_clipping(plan, shown)),
        render_group("Local steps", render_steps(plan, shown)),
        render_group("Selection", render_selection(plan, shown)),
        render_group("Secure aggregation", render_masks(plan, shown)),
    ];
    view! {
        <details class="more advanced">
            <summary>"Advanced"<span class="bad-text">{lid}</span></summary>
            {groups}
        </details>
    }
    .into_any()
}

fn render_group(title: &'static str, fields: Vec<AnyView>) -> AnyView {
    view! { <fieldset><legend>{title}</legend>{fields}</fieldset> }.into_any()
}

/// Renders fields that are visible only under a condition.
fn render_when(plan: RwSignal<TrainingPlan>, when: fn(&TrainingPlan) -> bool, fields: Vec<AnyView>) -> AnyView {
    let there = Memo::new(move |_| when(&plan.read()));
    view! { <div class="sub" hidden=move || !there.get()>{fields}</div> }.into_any()
}

const fn form_field(name: &'static str, at: &'static str, label: &'static str) -> FormField {
    FormField { name, at, label }
}

/// Renders the model of rows: its columns and its dense layers.
fn render_row_model(plan: RwSignal<TrainingPlan>, shown: &TrainingPlan) -> Vec<AnyView> {
    let option = |count: u32| {
        (count.to_string(), if count == 0 { "none: a linear model".to_owned() } else { count.to_string() })
    };
    vec![
        form_field("plan[rows]", "model.rows", "Columns: the target and the features, as the tables declare them")
            .text(shown.rows.clone(), make_setter(plan, |plan, text: String| plan.rows = text)),
        form_field("plan[layers][layers]", "model.layers", "Hidden layers").choice(
            &shown.layers.layers.to_string(),
            (0..=4).map(option).collect(),
            make_setter(plan, |plan, text: String| plan.layers.layers = text.parse().unwrap_or(1)),
        ),
        form_field("plan[hidden]", "model.hidden", "Hidden units of each layer").number(
            f64::from(shown.hidden.max(1)),
            (1.0, 2048.0),
            true,
            make_setter(plan, |plan, value| plan.hidden = value as u32),
        ),
        render_checkbox(
            "plan[layers][normalize]".to_owned(),
            "Layer norm before the output layer",
            shown.layers.normalize,
            make_setter(plan, |plan, value| plan.layers.normalize = value),
        ),
    ]
}

fn render_model(plan: RwSignal<TrainingPlan>, shown: &TrainingPlan) -> Vec<AnyView> {
    if shown.is_of_rows() {
        return render_row_model(plan, shown);
    }
    let layers = shown.layers;
    let counts = ["1", "2", "3", "4"].map(|count| (count.to_owned(), count.to_owned()));
    let context = |side: u32| match (side, 2 * side + 1) {
        (0, _) => ("0".to_owned(), "none".to_owned()),
        (_, width) => (width.to_string(), format!("{width} frames, {side} on each side")),
    };
    vec![
        form_field("plan[layers][cell]", "model.cell", "Recurrent cell").choice(
            find_word(CELLS, &layers.cell),
            table_options(CELLS),
            make_setter(plan, |plan, text: String| plan.layers.cell = parse_word(CELLS, &text).unwrap_or_default()),
        ),
        form_field("plan[hidden]", "model.hidden", "Hidden units of each layer").number(
            f64::from(shown.hidden),
            (1.0, 2048.0),
            true,
            make_setter(plan, |plan, value| plan.hidden = value as u32),
        ),
        form_field("plan[layers][layers]", "model.layers", "Recurrent layers").choice(
            &layers.layers.to_string(),
            counts.into(),
            make_setter(plan, |plan, text: String| plan.layers.layers = text.parse().unwrap_or(1)),
        ),
        render_checkbox(
            "plan[layers][bidirectional]".to_owned(),
            "Bidirectional layers",
            layers.bidirectional,
            make_setter(plan, |plan, value| plan.layers.bidirectional = value),
        ),
        form_field("plan[layers][context]", "model.context", "Convolution before them").choice(
            &layers.context.to_string(),
            (0..=15).map(context).collect(),
            make_setter(plan, |plan, text: String| plan.layers.context = text.parse().unwrap_or(0)),
        ),
        render_checkbox(
            "plan[layers][normalize]".to_owned(),
            "Layer norm before the output layer",
            layers.normalize,
            make_setter(plan, |plan, value| plan.layers.normalize = value),
        ),
        render_checkbox(
            "plan[layers][ctc]".to_owned(),
            "CTC: the labels are characters without times, and the last class is the blank",
            layers.ctc,
            make_setter(plan, |plan, value| plan.layers.ctc = value),
        ),
    ]
}

fn render_warm_start(plan: RwSignal<TrainingPlan>, shown: &TrainingPlan) -> Vec<AnyView> {
    vec![
        form_field("plan[epochs]", "warm_start.epochs", "Epochs").number(
            f64::from(shown.epochs),
            (0.0, 1000.0),
            true,
            make_setter(plan, |plan, value| plan.epochs = value as u32),
        ),
        form_field("plan[batch]", "warm_start.batch", "Batch size, utterances").number(
            f64::from(shown.batch),
            (1.0, 1024.0),
            true,
            make_setter(plan, |plan, value| plan.batch = value as u32),
        ),
        form_field("plan[warm_rate]", "warm_start.learning_rate", "Learning rate").number(
            shown.warm_rate,
            (0.0, 1.0),
            false,
            make_setter(plan, |plan, value| plan.warm_rate = value),
        ),
    ]
}

fn render_clipping(plan: RwSignal<TrainingPlan>, shown: &TrainingPlan) -> Vec<AnyView> {
    vec![
        form_field("plan[steps][clipping]", "", "Clipping of a unit's gradient to C").choice(
            find_word(CLIPPINGS, &shown.steps.clipping),
            table_options(CLIPPINGS),
            make_setter(plan, |plan, text: String| {
                plan.steps.clipping = parse_word(CLIPPINGS, &text).unwrap_or_default();
            }),
        ),
        render_hint("The noise is z times C in each case, and the price is the same."),
    ]
}

fn render_hint(text: &'static str) -> AnyView {
    view! { <p class="hint">{text}</p> }.into_any()
}

fn render_steps(plan: RwSignal<TrainingPlan>, shown: &TrainingPlan) -> Vec<AnyView> {
    let options = shown.steps;
    vec![
        form_field("plan[step]", "optimizer", "Optimizer").choice(
            find_word(STEPS, &shown.step),
            table_options(STEPS),
            make_setter(plan, |plan, text: String| plan.step = parse_word(STEPS, &text).unwrap_or(StepOptimizer::Adam)),
        ),
        form_field("plan[learning_rate]", "learning_rate", "Learning rate").number(
            shown.learning_rate,
            (0.0, 1000.0),
            false,
            make_setter(plan, |plan, value| plan.learning_rate = value),
        ),
        render_when(
            plan,
            |plan| plan.step == StepOptimizer::Sgd,
            vec![form_field("plan[steps][momentum]", "momentum", "Momentum").number(
                options.momentum,
                (0.0, 1.0),
                false,
                make_setter(plan, |plan, value| plan.steps.momentum = value),
            )],
        ),
        form_field("plan[steps][shape]", "schedule", "Learning rate schedule").choice(
            find_word(SHAPES, &options.shape),
            table_options(SHAPES),
            make_setter(plan, |plan, text: String| plan.steps.shape = parse_word(SHAPES, &text).unwrap_or_default()),
        ),
        render_when(
            plan,
            |plan| plan.steps.shape != ScheduleShape::Constant,
            vec![
                form_field("plan[steps][warmup]", "schedule.warmup", "Warm-up rounds").number(
                    f64::from(options.warmup),
                    (0.0, 99_999.0),
                    true,
                    make_setter(plan, |plan, value| plan.steps.warmup = value as u32),
                ),
                form_field("plan[steps][last]", "schedule.final", "Share of the learning rate in the last round")
                    .number(options.last, (0.0, 1.0), false, make_setter(plan, |plan, value| plan.steps.last = value)),
            ],
        ),
        form_field("plan[steps][averaging]", "averaging.decay", "Decay of the iterate average per round, 0 for none")
            .number(
                options.averaging,
                (0.0, 1.0),
                false,
                make_setter(plan, |plan, value| plan.steps.averaging = value),
            ),
        render_when(
            plan,
            |plan| !plan.is_of_rows(),
            vec![
                form_field(
                    "plan[steps][copies]",
                    "augmentation.copies",
                    "Altered copies of each unit, averaged before clipping, 1 for none",
                )
                .number(
                    f64::from(options.copies),
                    (1.0, 16.0),
                    true,
                    make_setter(plan, |plan, value| plan.steps.copies = value as u32),
                ),
                render_hint(
                    "The copies have masked frames, masked coefficients and noise. They cost time, and no privacy.",
                ),
            ],
        ),
        form_field("plan[steps][precision]", "exchange.precision", "Vector precision").choice(
            find_word(PRECISIONS, &options.precision),
            table_options(PRECISIONS),
            make_setter(plan, |plan, text: String| {
                plan.steps.precision = parse_word(PRECISIONS, &text).unwrap_or_default();
            }),
        ),
        form_field("plan[evaluate_every]", "evaluate_every", "Rounds between evaluations").number(
            f64::from(shown.evaluate_every),
            (1.0, 10_000.0),
            true,
            make_setter(plan, |plan, value| plan.evaluate_every = value as u32),
        ),
        render_frozen(plan, shown),
        form_field("plan[steps][adaptation]", "adaptation", "Trained coordinates of the other layers").choice(
            find_word(ADAPTATIONS, &options.adaptation),
            table_options(ADAPTATIONS),
            make_setter(plan, |plan, text: String| {
                plan.steps.adaptation = parse_word(ADAPTATIONS, &text).unwrap_or_default();
            }),
        ),
        render_when(
            plan,
            |plan| plan.steps.adaptation == AdaptationKind::LowRank,
            vec![
                form_field("plan[steps][rank]", "adaptation.rank", "Rank of the changes of each weight matrix").number(
                    f64::from(options.rank),
                    (1.0, 1024.0),
                    true,
                    make_setter(plan, |plan, value| plan.steps.rank = value as u32),
                ),
                render_hint(
                    "The changes have the leading directions of the matrix after the warm start. Fewer coordinates have less \
                     noise together; the price is the same.",
                ),
            ],
        ),
    ]
}

/// Renders a checkbox for each part of the model that the rounds can leave untrained.
fn render_frozen(plan: RwSignal<TrainingPlan>, shown: &TrainingPlan) -> AnyView {
    let mut flags = shown.frozen;
    let parts = ModelPart::ALL.map(|part| {
        let there = Memo::new(move |_| plan.read().model_parts().contains(part));
        let set = Callback::new(move |value| plan.update(|plan| *plan.frozen.flag_mut(part) = value));
        let tick = render_checkbox(
            format!("plan[frozen][{}]", part.name()),
            description::part_name(part),
            *flags.flag_mut(part),
            set,
        );
        view! { <div hidden=move || !there.get()>{tick}</div> }.into_any()
    });
    view! {
        <div class="field">
            <span>"Frozen after the warm start"</span>
            {Vec::from(parts)}
            {PlanViolations::render_at("train")}
            <small>"Frozen layers get no noise and are not sent; the price is the same."</small>
        </div>
    }
    .into_any()
}

fn render_selection(plan: RwSignal<TrainingPlan>, shown: &TrainingPlan) -> Vec<AnyView> {
    let trials = shown.trials.clone();
    vec![
        render_checkbox(
            "plan[trials][on]".to_owned(),
            "In every round each private party tries several settings and releases only the best",
            trials.on,
            make_setter(plan, |plan, value| plan.trials.on = value),
        ),
        PlanViolations::render_at("selection"),
        render_when(
            plan,
            |plan| plan.trials.on,
            vec![
                form_field("plan[trials][rates]", "selection.candidates", "Learning rates to try")
                    .words(trials.rates, make_setter(plan, |plan, value| plan.trials.rates = value)),
                form_field("plan[trials][clips]", "selection.clips", "Clips to try, relative to each party's clip")
                    .words(trials.clips, make_setter(plan, |plan, value| plan.trials.clips = value)),
                form_field("plan[trials][mean]", "selection.stopping", "Average number of runs that count").number(
                    trials.mean,
                    (1.0, 1000.0),
                    false,
                    make_setter(plan, |plan, value| plan.trials.mean = value),
                ),
                form_field("plan[trials][most]", "selection.most_runs", "Number of runs").number(
                    f64::from(trials.most),
                    (2.0, 1000.0),
                    true,
                    make_setter(plan, |plan, value| plan.trials.most = value as u16),
                ),
                form_field("plan[trials][shape]", "selection.shape", "Distribution of the number that counts").choice(
                    find_word(DRAWN, &trials.shape),
                    table_options(DRAWN),
                    make_setter(plan, |plan, text: String| {
                        plan.trials.shape = parse_word(DRAWN, &text).unwrap_or_default();
                    }),
                ),
                form_field(
                    "plan[trials][development]",
                    "selection.development",
                    "Public utterances to evaluate the runs",
                )
                .number(
                    f64::from(trials.development),
                    (1.0, 2000.0),
                    true,
                    make_setter(plan, |plan, value| plan.trials.development = value as u32),
                ),
                render_hint("A round costs more than one run and less than all runs."),
            ],
        ),
    ]
}

fn render_masks(plan: RwSignal<TrainingPlan>, shown: &TrainingPlan) -> Vec<AnyView> {
    let group = shown.group;
    let field = form_field(
        "plan[group][smallest]",
        "secure_aggregation.smallest_group",
        "Fewest private sites of a sum; the others may drop out of a round",
    );
    let colluding = form_field(
        "plan[group][colluding]",
        "secure_aggregation.colluding",
        "Private sites that may collude with the server",
    );
    vec![
        render_checkbox(
            "plan[group][on]".to_owned(),
            "The server learns the sum of the private sites' vectors and no single vector",
            group.on,
            make_setter(plan, |plan, value| plan.group.on = value),
        ),
        PlanViolations::render_at("secure_aggregation"),
        PlanViolations::render_at("secure_aggregation.clip_steps"),
        render_when(
            plan,
            |plan| plan.group.on,
            vec![
                field.number(
                    f64::from(group.smallest),
                    (2.0, 50.0),
                    true,
                    make_setter(plan, |plan, value| plan.group.smallest = value as u8),
                ),
                colluding.number(
                    f64::from(group.colluding),
                    (0.0, 48.0),
                    true,
                    make_setter(plan, |plan, value| plan.group.colluding = value as u8),
                ),
                render_hint(
                    "z is then the noise of the honest sites together, so each site adds less. The private sites need the \
                     same z, clip and clipping.",
                ),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::{ADAPTATIONS, CELLS, CLIPPINGS, ChoiceTable, DRAWN, PRECISIONS, SHAPES, STEPS, parse_word};

    /// Checks that a form's word equals the plan's serialized word, and parses to the same choice.
    fn agrees<T: Serialize + Copy + PartialEq + std::fmt::Debug>(table: &ChoiceTable<T>) {
        for (choice, word, _) in table {
            assert_eq!(serde_json::to_value(choice).expect("it has a word"), **word);
            assert_eq!(parse_word(table, word), Some(*choice));
        }
    }

    #[test]
    fn choice_words_equal_serialized_words() {
        agrees(CELLS);
        agrees(CLIPPINGS);
        agrees(STEPS);
        agrees(SHAPES);
        agrees(PRECISIONS);
        agrees(ADAPTATIONS);
        for (shape, word, _) in DRAWN {
            assert_eq!(word.parse(), Ok(*shape));
        }
    }
}
