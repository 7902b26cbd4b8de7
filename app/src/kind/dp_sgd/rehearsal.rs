//! A rehearsal: its description, its results, and the rehearsals beside a plan.

use leptos::prelude::*;
use undertone_api::job::dp_sgd::{AcousticModel, Rehearsal, RehearsalReport, RehearsedSetting, SettingMeasure};

use super::description::describe_rounds;
use crate::words;

/// The warning beside each result.
const WARNING: &str = "Parts of public data took the roles of the participants. The private data differ from them in ways \
                       that a rehearsal does not show: it ranks settings, and promises no accuracy.";
/// The greatest share that is shown: a diverged training predicts numbers far beyond the range of its target.
const MOST_SHARE: f64 = 10.0;

/// What the rehearsal of a model measures, and its words.
struct RehearsalWords {
    measure: SettingMeasure,
    /// The measured shares, as a caption.
    caption: &'static str,
    /// The private arm and its share, around the share.
    sentence: [&'static str; 2],
}

impl RehearsalWords {
    const fn from_model(model: &AcousticModel) -> Self {
        let measure = SettingMeasure::from_loss(model.loss);
        let (caption, sentence) = match (measure, &model.rows) {
            (SettingMeasure::Accuracy, None) => (
                "Frames classified correctly on public speakers who were set aside, by setting",
                ["the private arm classifies ", " of the frames correctly"],
            ),
            (SettingMeasure::Accuracy, Some(_)) => (
                "Rows predicted correctly on public units that were set aside, by setting",
                ["the private arm predicts ", " of the rows correctly"],
            ),
            (SettingMeasure::Rmse, _) => (
                "Root mean squared error as a share of the target’s declared range (less is better), on public units that \
                 were set aside, by setting",
                ["the private arm has a root mean squared error of ", " of the target’s declared range"],
            ),
        };
        Self { measure, caption, sentence }
    }

    /// Describes the measured share of a setting and its difference.
    fn describe(&self, setting: &RehearsedSetting) -> Option<String> {
        let (public, private) = setting.means(self.measure)?;
        let (least, greatest) = setting.private_range(self.measure)?;
        let spread = match setting.runs.len() {
            0 | 1 => "in one run".to_owned(),
            runs => format!("{} to {} in {runs} runs", format_share(least), format_share(greatest)),
        };
        let [before, after] = self.sentence;
        Some(format!(
            "{before}{}{after} ({spread}), {} points from the public arm at {}.",
            format_share(private),
            format_difference(private - public),
            format_share(public)
        ))
    }
}

/// Formats a measured share.
fn format_share(share: f64) -> String {
    if share > MOST_SHARE { format!("over {}", words::percent(MOST_SHARE)) } else { words::percent(share) }
}

/// Formats a difference of measured shares.
fn format_difference(difference: f64) -> String {
    if difference > MOST_SHARE {
        format!("over {}", words::points(MOST_SHARE))
    } else {
        words::points(difference.max(-MOST_SHARE))
    }
}

/// Returns the facts of a rehearsal, as pairs of a term and its description.
pub(super) fn list_facts(rehearsal: &Rehearsal) -> Vec<(&'static str, String)> {
    let roles = format!(
        "parts of the lead’s public data take the roles of the lead and of {}",
        words::plural(rehearsal.parties.len() as u64, "participant")
    );
    let extent = format!(
        "{}, {} of each, at most {}",
        words::plural(rehearsal.factors().count() as u64, "setting"),
        words::plural(rehearsal.repeats.into(), "repeat"),
        words::plural(rehearsal.minutes.into(), "minute")
    );
    let noises = rehearsal.parties.iter().map(|party| {
        let rate = words::number(party.sampling_rate.get());
        let units = party.units.map_or_else(String::new, |units| format!(", {} units", words::count(units)));
        match party.noise {
            Some(noise) => format!(
                "q {rate}, z {}, clip {}{units}",
                words::number(noise.noise_multiplier.get()),
                words::number(noise.clip)
            ),
            None => format!("q {rate}, without noise{units}"),
        }
    });
    vec![
        ("Rehearsal", roles),
        ("Extent", extent),
        ("Rehearsed private arm", describe_rounds(&rehearsal.rounds)),
        ("Rehearsed participants", noises.collect::<Vec<_>>().join("; ")),
    ]
}

/// Describes the result of the plan's own setting in a sentence. `model` is the plan's.
pub(super) fn describe_own(model: &AcousticModel, report: &RehearsalReport) -> String {
    let words = RehearsalWords::from_model(model);
    let Some(sentence) = report.own().and_then(|own| words.describe(own)) else {
        return "The plan’s own setting was not measured.".to_owned();
    };
    format!("On public data in the roles of the participants, {sentence}")
}

/// Describes a setting relative to the plan.
fn describe_factors(setting: &RehearsedSetting) -> String {
    if setting.is_own() {
        return "as planned".to_owned();
    }
    format!("clip × {}, learning rate × {}", words::number(setting.clip_factor), words::number(setting.rate_factor))
}

/// Renders the results of a rehearsal job. `model` is the plan's.
pub(super) fn render_outcome(model: &AcousticModel, report: &RehearsalReport) -> AnyView {
    let words = RehearsalWords::from_model(model);
    let RehearsalWords { measure, caption, .. } = words;
    let best = report.best(measure).filter(|best| !best.is_own()).and_then(|best| {
        let sentence = words.describe(best)?;
        Some(format!("Best tried setting, for the same price: {}; {sentence}", describe_factors(best)))
    });
    let missing = (report.planned as usize).saturating_sub(report.settings.len());
    let left_out = (missing > 0).then(|| format!("{} had no time.", words::plural(missing as u64, "setting")));
    let units: Vec<String> = report.units.iter().map(|units| words::count(*units)).collect();
    view! {
        <p class="headline">{describe_own(model, report)}</p>
        {best.map(|best| view! { <p>{best}</p> })}
        <table class="cards result">
            <caption>{caption}</caption>
            <thead><tr>
                <th scope="col">"Setting"</th>
                <th scope="col" class="number">"Public arm"</th>
                <th scope="col" class="number">"Private arm"</th>
                <th scope="col" class="number">"Least to greatest"</th>
                <th scope="col" class="number">"Difference"</th>
                <th scope="col" class="number">"Runs"</th>
            </tr></thead>
            <tbody>{report.settings.iter().map(|setting| render_row(measure, setting)).collect_view()}</tbody>
        </table>
        <p class="hint">{WARNING}</p>
        <p class="hint">
            {format!("Public units in the roles, the lead first: {}. Differences are in percentage points. Nothing was charged.", units.join(", "))}
            {left_out.map(|text| format!(" {text}"))}
        </p>
    }
    .into_any()
}

fn render_row(measure: SettingMeasure, setting: &RehearsedSetting) -> AnyView {
    let mean = setting.means(measure);
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), format_share);
    let range = setting.private_range(measure);
    let range = range.map_or_else(
        || "–".to_owned(),
        |(least, greatest)| format!("{} to {}", format_share(least), format_share(greatest)),
    );
    let difference = mean.map_or_else(|| "–".to_owned(), |(public, private)| format_difference(private - public));
    let failed = if setting.failed > 0 { format!(", {} failed", setting.failed) } else { String::new() };
    view! {
        <tr>
            <th scope="row">{describe_factors(setting)}</th>
            <td data-label="public arm" class="number">{number(mean.map(|(public, _)| public))}</td>
            <td data-label="private arm" class="number"><strong>{number(mean.map(|(_, private)| private))}</strong></td>
            <td data-label="range" class="number">{range}</td>
            <td data-label="difference" class="number">{difference}</td>
            <td data-label="runs" class="number">{format!("{}{failed}", setting.runs.len())}</td>
        </tr>
    }
    .into_any()
}

#[cfg(feature = "ssr")]
mod beside {
    use leptos::prelude::*;
    use undertone_api::dataset::{Dataset, DatasetContent};
    use undertone_api::id::ConsortiumId;
    use undertone_api::job::Report;
    use undertone_api::job::dp_sgd::{AcousticModel, SettingMeasure, Spec};
    use undertone_api::plan::PlanRehearsal;

    use super::{RehearsalWords, WARNING, describe_factors};
    use crate::kind::dp_sgd::TrainingPlan;
    use crate::path;

    /// Renders the rehearsals of a plan with this model; empty without one.
    pub(in crate::kind) fn render_rehearsals(
        consortium: ConsortiumId,
        model: &AcousticModel,
        rehearsals: &[PlanRehearsal],
    ) -> AnyView {
        if rehearsals.is_empty() {
            return ().into_any();
        }
        let words = RehearsalWords::from_model(model);
        let items = rehearsals.iter().map(|rehearsal| render_item(consortium, &words, rehearsal)).collect_view();
        view! {
            <section class="panel" aria-label="Rehearsals">
                <p><strong>"Rehearsed on public data"</strong></p>
                <ul>{items}</ul>
                <p class="hint">{WARNING}</p>
            </section>
        }
        .into_any()
    }

    fn render_item(consortium: ConsortiumId, words: &RehearsalWords, rehearsal: &PlanRehearsal) -> AnyView {
        let result = rehearsal.own.as_ref().and_then(|own| words.describe(own));
        let result = result.unwrap_or_else(|| match rehearsal.finished_at {
            Some(_) => "this setting was not measured.".to_owned(),
            None => format!("the rehearsal is {}.", rehearsal.state.label()),
        });
        let best = rehearsal.best.as_ref().filter(|best| !best.is_own()).and_then(|best| {
            Some(format!(
                " Best tried setting, for the same price: {}; {}",
                describe_factors(best),
                words.describe(best)?
            ))
        });
        view! {
            <li><a href=path::job(consortium, rehearsal.job)>{rehearsal.title.clone()}</a>": "{result}{best}</li>
        }
        .into_any()
    }

    /// Renders links that open the rehearsed plan, and the plan with the best setting, in the planner; empty for a spec
    /// without a rehearsal.
    pub(in crate::kind) fn render_plan_links(
        consortium: ConsortiumId,
        title: &str,
        spec: &Spec,
        report: Option<&Report>,
        datasets: &[Dataset],
    ) -> AnyView {
        let content = if spec.model.rows.is_some() { DatasetContent::Table } else { DatasetContent::Speech };
        let datasets: Vec<Dataset> = datasets.iter().filter(|dataset| dataset.content == content).cloned().collect();
        let Some(first) = spec.rehearsal.as_ref().and_then(|_| TrainingPlan::first(&datasets, &[])) else {
            return ().into_any();
        };
        let title = title.strip_prefix("Rehearsal: ").unwrap_or(title);
        let link = |(clip, rate): (f64, f64), text: &'static str| {
            let plan = TrainingPlan::from_spec(title, &spec.rehearsed_with(clip, rate)?, &first);
            let query = serde_qs::to_string(&std::collections::BTreeMap::from([("plan", plan)])).ok()?;
            Some(view! { <a class="button" href=format!("{}?{query}", path::plan(consortium))>{text}</a> })
        };
        let best = match report {
            Some(Report::DpSgd(report)) => {
                let measure = SettingMeasure::from_loss(spec.model.loss);
                report.rehearsal.as_ref().and_then(|report| report.best(measure))
            }
            _ => None,
        };
        let best = best.filter(|best| !best.is_own());
        view! {
            <div class="actions">
                {link((1.0, 1.0), "Open the rehearsed plan")}
                {best.and_then(|best| link((best.clip_factor, best.rate_factor), "Open it with the best setting"))}
            </div>
        }
        .into_any()
    }
}

#[cfg(feature = "ssr")]
pub(in crate::kind) use beside::{render_plan_links, render_rehearsals};

#[cfg(all(test, feature = "ssr"))]
mod tests;
