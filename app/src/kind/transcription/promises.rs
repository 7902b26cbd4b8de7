//! The promises of a transcription, by the number of colluding recognizers, in the planner and in the result.

use leptos::prelude::*;
use undertone_api::job::transcription::NoisePromise;

use crate::words;

/// Renders ε and δ by the number of colluding recognizers; `charged` is the number that is charged for.
pub(super) fn render_promises(promises: &[NoisePromise], charged: u32) -> AnyView {
    let rows = promises.iter().map(|promise| {
        let colluding = promise.colluding.get();
        let is_charged = colluding == charged;
        let colluders = match colluding {
            1 => "one recognizer".to_owned(),
            many => format!("{} together", words::count(many.into())),
        };
        view! {
            <tr aria-current=is_charged.then_some("true")>
                <th scope="row">{if is_charged { format!("{colluders}, as charged") } else { colluders }}</th>
                <td class="number">{words::epsilon(promise.epsilon)}</td>
                <td class="number">{words::delta(promise.delta)}</td>
            </tr>
        }
    });
    view! {
        <table class="dense">
            <caption>"ε of the counts of pieces by word, by number of colluding recognizers"</caption>
            <thead><tr><th scope="col">"Recognizers"</th><th scope="col" class="number">"ε"</th><th scope="col" class="number">"δ"</th></tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}
