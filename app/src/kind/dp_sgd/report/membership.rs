//! Membership inference against the finished model of every arm, site by site; sites with a single speaker first.

use leptos::prelude::*;
use undertone_api::dataset::SizeClass;
use undertone_api::job::audit::{AttackMethod, AuditView, MembershipAttack, OperatingPoint};
use undertone_api::report::ReportFile;

use super::arm_title;

/// The false-positive rate at which an attack is reported.
const AIMED: f64 = 0.001;

/// One attack of one site.
struct AttackRow<'a> {
    party: &'a AuditView,
    /// Whether the site's data are of one speaker.
    is_alone: bool,
    arm: &'a str,
    attack: &'a MembershipAttack,
}

/// Renders the attacks; empty if there are none (the last section of the report contains the reason).
pub(super) fn render_section(report: &ReportFile) -> AnyView {
    let mut rows: Vec<AttackRow<'_>> = report.audits.iter().flat_map(|view| list_attacks(report, view)).collect();
    if rows.is_empty() {
        return ().into_any();
    }
    rows.sort_by_key(|row| !row.is_alone);
    let lines = rows.iter().map(render_row).collect_view();
    let has_lone_speaker = rows.iter().any(|row| row.is_alone);
    view! {
        <section class="panel"><h2>"Membership inference by arm"</h2>
            {render_forest(&rows)}
            <table class="cards">
                <thead><tr>
                    <th scope="col">"Site"</th><th scope="col">"Model"</th><th scope="col">"Attack"</th>
                    <th scope="col" class="number">"AUC"</th>
                    <th scope="col" class="number">"Detected at 0.1 % false alarms"</th>
                    <th scope="col" class="number">"False alarms"</th>
                </tr></thead>
                <tbody>{lines}</tbody>
            </table>
            <p class="hint">"The attacks target canaries, made-up recordings of no one. At each site a fair, secret \
                coin put half of them into the training of the private arm, and of the open arm if the site takes \
                part in it; the public model never saw any, so its area is that of guessing, ½. The loss threshold \
                calls a recording a member if its loss is low. The likelihood ratio subtracts the public model’s \
                loss and compares the rest with recordings that were never in. Thresholds were fixed on those. \
                Intervals have 95 % confidence (DeLong for areas, Clopper and Pearson for rates), for each number \
                separately."</p>
            {has_lone_speaker.then(|| view! {
                <p class="hint">"Sites with the data of a single speaker are marked: a model reveals the membership \
                    of such a speaker first."</p>
            })}
        </section>
    }
    .into_any()
}

fn list_attacks<'a>(report: &'a ReportFile, view: &'a AuditView) -> impl Iterator<Item = AttackRow<'a>> {
    let dataset = report.datasets.iter().find(|dataset| dataset.dataset == view.statement.dataset);
    let is_alone = dataset.is_some_and(|dataset| dataset.speakers <= SizeClass(1));
    let attacks = &view.statement.finding.attacks;
    let order = ["public", "open", "private"];
    order.into_iter().flat_map(move |arm| {
        let own = attacks.iter().filter(move |attack| attack.is_of(arm, &view.statement.series));
        own.map(move |attack| AttackRow { party: view, is_alone, arm, attack })
    })
}

fn render_row(row: &AttackRow<'_>) -> AnyView {
    let AttackRow { party, is_alone, arm, attack } = row;
    let point = attack.points.iter().find(|point| (point.aimed - AIMED).abs() < 1e-9);
    let success = point.and_then(|point| attack.rate(point)).map_or_else(
        || view! { "not measured" }.into_any(),
        |(rate, interval)| {
            view! { <span>{format!("{:.1} %", rate * 100.0)}<br/><small>{format_interval(interval)}</small></span> }
                .into_any()
        },
    );
    let alarms = |point: &OperatingPoint| format!("{} of {}", point.false_positives, attack.nonmembers);
    view! {
        <tr class:outlier=*is_alone>
            <th scope="row">{party.dataset_name.clone()}{is_alone.then(|| view! { " "<span class="tag">"one speaker"</span> })}<br/><small>{party.organization_name.clone()}</small></th>
            <td data-label="model">{arm_title(arm)}</td>
            <td data-label="attack">{method_label(attack.method)}</td>
            <td data-label="AUC" class="number"><span>{format!("{:.3}", attack.auc)}<br/>
                <small>{attack.auc_interval.map_or_else(|| "no interval stated".to_owned(), |[low, high]| format!("{low:.3} to {high:.3}"))}</small></span></td>
            <td data-label="found" class="number">{success}</td>
            <td data-label="alarms" class="number">{point.map_or_else(|| "–".to_owned(), alarms)}</td>
        </tr>
    }
    .into_any()
}

const fn method_label(method: AttackMethod) -> &'static str {
    match method {
        AttackMethod::LossThreshold => "Loss threshold",
        AttackMethod::LikelihoodRatio => "Likelihood ratio",
    }
}

const WIDTH: f64 = 480.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 468.0;
const STEP: f64 = 24.0;

/// Formats an interval of rates, in percent.
fn format_interval([low, high]: [f64; 2]) -> String {
    format!("{:.1} to {:.1} %", low * 100.0, high * 100.0)
}

/// Shortens a name to the room beside the drawing; the table has the whole name.
fn shorten_name(name: &str) -> String {
    if name.chars().count() <= 16 { name.to_owned() } else { name.chars().take(15).chain(['…']).collect() }
}

/// Draws the areas with their intervals, one below the other, against the line of random guessing.
fn render_forest(rows: &[AttackRow<'_>]) -> AnyView {
    // Draw only the strongest attack on each model of each site.
    let mut strongest: Vec<&AttackRow<'_>> = Vec::new();
    for row in rows {
        let arm = row.arm;
        let dataset = row.party.statement.dataset;
        match strongest.iter().position(|other| other.arm == arm && other.party.statement.dataset == dataset) {
            Some(at) if strongest[at].attack.auc < row.attack.auc => strongest[at] = row,
            Some(_) => {}
            None => strongest.push(row),
        }
    }
    let low = strongest.iter().filter_map(|row| row.attack.auc_interval).map(|[low, _]| low).fold(0.4, f64::min);
    let floor = (low * 10.0).floor() / 10.0;
    let x = move |auc: f64| LEFT + (auc - floor) / (1.0 - floor) * (RIGHT - LEFT);
    let bottom = STEP * strongest.len() as f64 + 12.0;
    let height = bottom + 44.0;
    let sentence: Vec<String> = strongest
        .iter()
        .map(|row| format!("{}, {}: {:.2}", row.party.dataset_name, arm_title(row.arm), row.attack.auc))
        .collect();
    let ticks = (0..=10).map(|tenth| f64::from(tenth) / 10.0).filter(|tick| *tick >= floor - 1e-9).map(|tick| {
        view! {
            <line class="grid" x1=x(tick) x2=x(tick) y1="8" y2=bottom></line>
            <text class="tick" x=x(tick) y=bottom + 18.0 text-anchor="middle">{format!("{tick:.1}")}</text>
        }
    });
    let lines = strongest.iter().enumerate().map(|(index, row)| {
        let y = STEP * (index as f64 + 1.0);
        let class = match row.arm {
            "open" => "line dashed",
            "private" => "line solid",
            _ => "line dotted",
        };
        let whisker = row.attack.auc_interval.map(|[low, high]| {
            view! { <path class=class d=format!("M{} {y}H{}", x(low), x(high))></path> }
        });
        let text = format!("{}, {}", shorten_name(&row.party.dataset_name), row.arm);
        view! {
            <text class="label" x=LEFT - 10.0 y=y + 4.0 text-anchor="end">{text}</text>
            {whisker}
            <circle class=class cx=x(row.attack.auc) cy=y r="4"><title>{format!("{:.3}", row.attack.auc)}</title></circle>
        }
    });
    view! {
        <figure class="forest">
            <svg class="chart-plot" viewBox=format!("0 0 {WIDTH} {height}") role="img"
                aria-label=format!("Area under the curve of the stronger attack (½ by guessing): {}", sentence.join("; "))>
                {ticks.collect_view()}
                <line class="mark" x1=x(0.5) x2=x(0.5) y1="8" y2=bottom></line>
                {lines.collect_view()}
                <text class="axis" x=f64::midpoint(LEFT, RIGHT) y=bottom + 38.0 text-anchor="middle">"AUC of the stronger attack, with 95 % interval; 0.5 by guessing"</text>
            </svg>
        </figure>
    }
    .into_any()
}
