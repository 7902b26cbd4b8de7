//! One dataset's row of the planner: its participation, its sampling, its noise.

use leptos::prelude::*;
use undertone_api::dataset::{Dataset, Visibility};

use super::field::Slider;
use crate::component::said::VisibilityMark;
use crate::kind::dp_sgd::plan::{DatasetPart, TrainingPlan};
use crate::kind::dp_sgd::{PartyVerdict, PlanPrices};
use crate::words;

/// Renders one dataset's row of the form.
pub(super) fn render_party(
    index: usize,
    dataset: &Dataset,
    part: &DatasetPart,
    plan: RwSignal<TrainingPlan>,
    prices: Memo<Option<PlanPrices>>,
) -> impl IntoView + use<> {
    let name = |field: &str| format!("plan[parts][{index}][{field}]");
    let change = move |change: &dyn Fn(&mut DatasetPart)| {
        plan.update(|plan| plan.parts.get_mut(index).into_iter().for_each(change));
    };
    let get = move |get: fn(&DatasetPart) -> f64| Signal::derive(move || plan.read().parts.get(index).map_or(0.0, get));
    let id = dataset.id;
    let public = dataset.visibility == Visibility::Public;
    let leads = move || plan.read().lead == id;
    let joins = move || leads() || plan.read().parts.get(index).is_some_and(|part| part.joins);
    // Its position among the participants, the lead first, as in the spec.
    let place = move || plan.read().participants().position(|part| part.dataset == id).unwrap_or(usize::MAX);
    let field_path = move |field: &'static str| Signal::derive(move || format!("participants.{}.{field}", place()));
    let counts = dataset.clone();
    let batch = move || {
        let plan = plan.read();
        let n = counts.count(plan.unit).0;
        let expected = plan.parts.get(index).map_or(0.0, |part| part.rate) * n as f64;
        format!(
            "about {} of {} in a {}",
            words::number((expected * 10.0).round() / 10.0),
            words::plural(n, words::unit(plan.unit)),
            if plan.steps.local > 1 { "step" } else { "round" }
        )
    };
    let fit = move |_| {
        let least = prices.with_untracked(|prices| {
            let verdicts = &prices.as_ref()?.verdicts;
            let (_, verdict) = verdicts.iter().find(|(dataset, _)| *dataset == id)?;
            if let PartyVerdict::Pays { least_noise, .. } = verdict { *least_noise } else { None }
        });
        if let Some(noise) = least {
            change(&|part| part.noise = noise);
        }
    };
    let fields = if public {
        view! {
            <input type="hidden" name=name("noise") value=part.noise.to_string()/>
            <input type="hidden" name=name("clip") value=part.clip.to_string()/>
        }
        .into_any()
    } else {
        view! {
            <Slider name=name("noise") at=field_path("noise.noise_multiplier") label="Noise z" help="Standard deviation of the noise, in clips" value=part.noise low=0.1 high=100.0 whole=false
                get=get(|part| part.noise) set=Callback::new(move |v: f64| change(&|part| part.noise = v))/>
            <Slider name=name("clip") at=field_path("noise.clip") label="Clip C" help="Norm bound of each gradient; does not affect the cost" value=part.clip low=0.01 high=100.0 whole=false
                get=get(|part| part.clip) set=Callback::new(move |v: f64| change(&|part| part.clip = v))/>
            <button type="button" class="quiet live-only" on:click=fit>"Use the least noise that fits"</button>
        }
        .into_any()
    };
    view! {
        <div class="party" class:out=move || !joins()>
            <input type="hidden" name=name("dataset") value=id.to_string()/>
            <div class="party-head">
                <label class="check">
                    <input type="checkbox" name=name("joins") value="true" checked=part.joins disabled=leads
                        on:change=move |event| { let joins = event_target_checked(&event); change(&|part| part.joins = joins); }/>
                    <strong>{dataset.name.clone()}</strong>
                </label>
                <span class="party-owner">{dataset.organization_name.clone()}" "<VisibilityMark visibility=dataset.visibility/></span>
                {public.then(|| view! {
                    <label class="check">
                        <input type="checkbox" name=name("tests") value="true" checked=part.tests
                            on:change=move |event| { let tests = event_target_checked(&event); change(&|part| part.tests = tests); }/>
                        "Evaluate on it"
                    </label>
                })}
            </div>
            <div class="party-fields">
                <Slider name=name("rate") at=field_path("sampling_rate") label="Sampling rate q" help="Probability that a step includes a unit" value=part.rate low=0.001 high=1.0 whole=false
                    get=get(|part| part.rate) set=Callback::new(move |v: f64| change(&|part| part.rate = v))/>
                <p class="hint">{batch}</p>
                {fields}
            </div>
        </div>
    }
}
