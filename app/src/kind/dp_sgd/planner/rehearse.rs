//! The request for a rehearsal: a job of the lead alone that runs the plan on parts of its public data.

use leptos::prelude::*;
use undertone_api::id::ConsortiumId;

use crate::fault::Fault;
use crate::kind::dp_sgd::TrainingPlan;

/// The address of the request.
const REHEARSE: &str = "/ui/rehearse-dp-sgd";
/// The time limit in minutes that the form suggests.
const MINUTES: u32 = 60;

/// Proposes the rehearsal of a plan, which no owner of private data has to approve. A draft from which the plan was
/// opened stays a draft.
///
/// # Errors
/// The operation's problem, to a program.
#[server(prefix = "/ui", endpoint = "rehearse-dp-sgd")]
pub async fn rehearse_training(consortium: ConsortiumId, minutes: u32, plan: TrainingPlan) -> Result<(), Fault> {
    use crate::kind::submission::PlanSubmission;
    use undertone_api::job::Spec;
    let title: String = format!("Rehearsal: {}", plan.title).chars().take(100).collect();
    let submission = PlanSubmission::new(consortium, (None, None), &title, "plan", &plan);
    let spec = |datasets: &[_]| plan.spec(datasets)?.to_rehearsal(minutes).map(Spec::DpSgd);
    submission.propose_beside(spec, "The rehearsal was sent to the lead's site.").await
}

/// Renders the button that requests a rehearsal, and its time limit.
pub(super) fn render_request() -> AnyView {
    view! {
        <section class="planner-more" aria-labelledby="rehearsal-title">
            <h2 id="rehearsal-title">"Rehearsal"</h2>
            <label class="field"><span>"Minutes of a rehearsal, at most"</span>
                <input type="number" name="minutes" min="1" max="1440" step="1" value=MINUTES required/>
            </label>
            <p class="hint">
                "The lead’s site runs this plan on parts of its public data in the roles of the participants, with the \
                planned noise, and with half and twice the clip and the learning rate. A rehearsal charges nothing, and \
                the owners of private data are not asked. It waits until the lead’s worker is online."
            </p>
            <p><button type="submit" formaction=REHEARSE>"Rehearse on public data"</button></p>
        </section>
    }
    .into_any()
}
