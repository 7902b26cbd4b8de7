//! The planner's correlated noise: whether the private parties use it, with the proposed number of bands.

use leptos::prelude::*;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::DatasetId;

use super::field::{PlanViolations, Slider, make_setter, render_checkbox};
use crate::kind::dp_sgd::plan::TrainingPlan;

/// Renders the fields of correlated noise.
pub(super) fn render_bands(
    plan: RwSignal<TrainingPlan>,
    shown: &TrainingPlan,
    datasets: StoredValue<Vec<Dataset>>,
) -> AnyView {
    let is_private = move |id: DatasetId| {
        let is_private = |dataset: &Dataset| dataset.id == id && dataset.visibility != Visibility::Public;
        datasets.with_value(|all| all.iter().any(is_private))
    };
    let set = Callback::new(move |on| plan.update(|plan| plan.correlate_noise(on, is_private)));
    let is_on = Memo::new(move |_| plan.read().bands.on);
    view! {
        <div class="field">
            {render_checkbox("plan[bands][on]".to_owned(), "Correlated noise: later rounds cancel a part of it", shown.bands.on, set)}
            {PlanViolations::render_for_parties("noise.banded")}
            <div class="sub" hidden=move || !is_on.get()>
                <Slider name="plan[bands][bands]" at="" label="Bands" help="Groups of units that take turns; at most 1/q" value=f64::from(shown.bands.bands) low=2.0 high=32.0 whole=true
                    get=Signal::derive(move || f64::from(plan.read().bands.bands)) set=make_setter(plan, |plan, value| plan.bands.bands = value as u32)/>
                <p class="hint">"The rounds are charged together by the first one. z is relative to the clip times the column norm of the encoder."</p>
            </div>
        </div>
    }
    .into_any()
}
