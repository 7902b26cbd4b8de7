//! The ranges within which each owner sets noise, clip, sampling rate and rounds with the approval.

use leptos::prelude::*;

use super::field::{FormField, PlanViolations, make_setter, render_checkbox};
use crate::kind::dp_sgd::plan::{TermPlan, TermPlans, TrainingPlan};

/// The fields of a term: its name in the form, its label, its place in the plan, the limits of its range.
struct TermFields {
    names: [&'static str; 3],
    label: &'static str,
    get: fn(&TermPlans) -> TermPlan,
    set_open: fn(&mut TrainingPlan, bool),
    set_min: fn(&mut TrainingPlan, f64),
    set_max: fn(&mut TrainingPlan, f64),
    limits: (f64, f64),
}

const TERMS: &[TermFields] = &[
    TermFields {
        names: ["plan[terms][noise][open]", "plan[terms][noise][min]", "plan[terms][noise][max]"],
        label: "Owners set their noise z",
        get: |terms| terms.noise,
        set_open: |plan, open| plan.terms.noise.open = open,
        set_min: |plan, value| plan.terms.noise.min = value,
        set_max: |plan, value| plan.terms.noise.max = value,
        limits: (0.1, 100.0),
    },
    TermFields {
        names: ["plan[terms][clip][open]", "plan[terms][clip][min]", "plan[terms][clip][max]"],
        label: "Owners set their clip C",
        get: |terms| terms.clip,
        set_open: |plan, open| plan.terms.clip.open = open,
        set_min: |plan, value| plan.terms.clip.min = value,
        set_max: |plan, value| plan.terms.clip.max = value,
        limits: (0.01, 100.0),
    },
    TermFields {
        names: ["plan[terms][rate][open]", "plan[terms][rate][min]", "plan[terms][rate][max]"],
        label: "Owners set their sampling rate q",
        get: |terms| terms.rate,
        set_open: |plan, open| plan.terms.rate.open = open,
        set_min: |plan, value| plan.terms.rate.min = value,
        set_max: |plan, value| plan.terms.rate.max = value,
        limits: (0.001, 1.0),
    },
];

/// Renders the ranges.
pub(super) fn render_terms(plan: RwSignal<TrainingPlan>, shown: &TrainingPlan) -> AnyView {
    let terms = shown.terms;
    let ranges: Vec<AnyView> = TERMS.iter().map(|fields| render_range(fields, (fields.get)(&terms), plan)).collect();
    let rounds = FormField { name: "plan[terms][least_rounds]", at: "", label: "Fewest rounds of an owner" }.number(
        f64::from(terms.least_rounds),
        (1.0, 1000.0),
        true,
        make_setter(plan, |plan, value| plan.terms.least_rounds = value as u32),
    );
    let set_rounds = make_setter(plan, |plan, open| plan.terms.rounds = open);
    let is_open = move || plan.read().terms.rounds;
    view! {
        <details class="more owners">
            <summary>"Terms of the owners"</summary>
            <p class="hint">"An owner of charged data sets an open term within its range when it approves. The plan’s own values are the defaults."</p>
            {ranges}
            {render_checkbox("plan[terms][rounds]".to_owned(), "Owners set the number of their rounds", terms.rounds, set_rounds)}
            <div class="sub" hidden=move || !is_open()>{rounds}</div>
            {PlanViolations::render_at("open_terms")}
        </details>
    }
    .into_any()
}

fn render_range(fields: &'static TermFields, shown: TermPlan, plan: RwSignal<TrainingPlan>) -> AnyView {
    let [open, min, max] = fields.names;
    let number = |name, label, value, set| {
        FormField { name, at: "", label }.number(value, fields.limits, false, make_setter(plan, set))
    };
    let inputs = vec![number(min, "from", shown.min, fields.set_min), number(max, "to", shown.max, fields.set_max)];
    let get = fields.get;
    let is_closed = move || !get(&plan.read().terms).open;
    view! {
        {render_checkbox(open.to_owned(), fields.label, shown.open, make_setter(plan, fields.set_open))}
        <div class="sub" hidden=is_closed>{inputs}</div>
    }
    .into_any()
}
