//! The effect of changing one number of a plan: dummies, speech, money, and the privacy loss to all recognizers
//! together. It uses public numbers alone; nothing is proposed here.

use std::num::NonZeroU32;

use leptos::prelude::*;
use undertone_api::job::transcription::{CostEstimate, MOST_PROVIDERS, Party, Spec};
use undertone_privacy::{Delta, Epsilon};

use super::super::plan::MOST_WORDS;
use super::cost::format_sums;
use crate::words;

/// The greatest displayed distance, and the range of ε in a spec.
const MOST_DISTANCE: u32 = 10_000;
const EPSILON: std::ops::RangeInclusive<f64> = 0.01..=50.0;

/// A plan with one number changed: its label, its spec, the words of its vocabulary.
type PlanVariant = (String, Spec, u32);

/// Renders the table; `None` for a plan without noise.
pub(super) fn render_table(spec: &Spec, size: u32, seconds: u64) -> Option<AnyView> {
    let row = |(name, spec, size): PlanVariant| {
        let estimate = CostEstimate::from_word_count(&spec, size, seconds).ok()?;
        let together = spec.promises().ok()?.last().copied()?;
        Some(view! {
            <tr>
                <th scope="row">{name}</th>
                <td class="number">{format!("{:.1}", estimate.each)}</td>
                <td class="number">{words::duration(estimate.extra)}</td>
                <td class="number">{format_sums(&estimate.cost())}</td>
                <td class="number">{words::epsilon(together.epsilon)}</td>
            </tr>
        })
    };
    let rows: Vec<_> = list_variants(spec, size).into_iter().filter_map(row).collect();
    if rows.is_empty() {
        return None;
    }
    let view = view! {
        <details class="more">
            <summary>"Variants of the plan"</summary>
            <div class="scroll" tabindex="0" role="group" aria-label="Plan with one number changed">
                <table class="dense">
                    <caption>"The same plan with one number changed"</caption>
                    <thead>
                        <tr>
                            <th scope="col">"Variant"</th>
                            <th scope="col" class="number">"dummies of a word at one recognizer"</th>
                            <th scope="col" class="number">"extra speech"</th>
                            <th scope="col" class="number">"money"</th>
                            <th scope="col" class="number">"ε, all together"</th>
                        </tr>
                    </thead>
                    <tbody>{rows}</tbody>
                </table>
            </div>
        </details>
    };
    Some(view.into_any())
}

/// Returns the present plan, then plans with each number halved, doubled, or one more or less, within the spec's
/// limits.
fn list_variants(spec: &Spec, size: u32) -> Vec<PlanVariant> {
    let participant = spec.participant;
    let with = |party: Party| Spec { participant: party, ..spec.clone() };
    let mut all = vec![("these numbers".to_owned(), spec.clone(), size)];
    let epsilons = [0.5, 2.0].map(|factor| participant.epsilon.get() * factor);
    for epsilon in epsilons.into_iter().filter(|epsilon| EPSILON.contains(epsilon)) {
        if let Ok(epsilon) = Epsilon::new(epsilon) {
            all.push((format!("ε {}", words::limit(epsilon.get())), with(Party { epsilon, ..participant }), size));
        }
    }
    if let Ok(delta) = Delta::new(participant.delta.get() / 10.0) {
        all.push((format!("δ {}", words::delta(delta.get())), with(Party { delta, ..participant }), size));
    }
    let distances = [participant.distance.get() / 2, participant.distance.get().saturating_mul(2).min(MOST_DISTANCE)];
    for distance in
        distances.into_iter().filter_map(NonZeroU32::new).filter(|distance| *distance != participant.distance)
    {
        all.push((format!("d {distance}"), with(Party { distance, ..participant }), size));
    }
    let providers = spec.providers.len();
    if providers > 1 && providers > spec.colluding.get() as usize {
        let fewer = spec.providers.iter().take(providers - 1).cloned().collect();
        all.push(("one recognizer fewer".to_owned(), Spec { providers: fewer, ..spec.clone() }, size));
    }
    if let Some(last) = spec.providers.last().filter(|_| providers < MOST_PROVIDERS) {
        let more = spec.providers.iter().chain([last]).cloned().collect();
        all.push((
            "another recognizer at the price of the last one".to_owned(),
            Spec { providers: more, ..spec.clone() },
            size,
        ));
    }
    for other in
        [size / 2, size.saturating_mul(2).min(MOST_WORDS)].into_iter().filter(|other| *other > 0 && *other != size)
    {
        all.push((words::plural(other.into(), "word"), spec.clone(), other));
    }
    all
}
