//! A dataset's budgets over time, and each job's share of them.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::id::JobId;
use undertone_api::ledger::AccountHistory;

use crate::component::drawing::{BurnDown, StackPart, StackedBar};
use crate::words;

/// Renders both drawings of every account with a limit.
pub(super) fn render_section(
    history: &[AccountHistory],
    name: &str,
    title: &impl Fn(JobId) -> String,
    now: OffsetDateTime,
) -> AnyView {
    let charts = history.iter().filter_map(|account| {
        let burn = render_burn_down(account, name, title, now)?;
        Some(view! { {burn}{render_composition(account, name, title)} })
    });
    let charts: Vec<_> = charts.collect();
    if charts.is_empty() {
        return ().into_any();
    }
    view! {
        <section class="panel"><h2>"Budget over time"</h2>
            <div class="charts few">{charts}</div>
            <p class="hint">"Hatched: reserved by jobs; each release is charged, and the unused part is returned. \
                Jobs together cost less than the sum of their separate costs."</p>
        </section>
    }
    .into_any()
}

/// Renders an account's budget over time; `None` if it never had a limit.
pub(in crate::page) fn render_burn_down(
    account: &AccountHistory,
    name: &str,
    title: &impl Fn(JobId) -> String,
    now: OffsetDateTime,
) -> Option<AnyView> {
    let last = account.points.last().filter(|last| last.limit > 0.0)?;
    let unit = words::unit(account.unit);
    let burn = BurnDown {
        title: format!("{name}, for {}", words::each(account.unit)),
        file: format!("budget-{name}-{unit}"),
        note: format!("ε left of {} at δ {}", words::limit(last.limit), words::delta(last.delta)),
        points: account.points.clone(),
        now,
    };
    Some(burn.draw(title)?.show())
}

/// Renders each job's share of it.
fn render_composition(account: &AccountHistory, name: &str, title: &impl Fn(JobId) -> String) -> AnyView {
    let unit = words::unit(account.unit);
    let parts = account.jobs.iter().map(|share| StackPart {
        name: title(share.job),
        solid: share.spent,
        hatched: share.reserved,
        alone: Some(share.alone),
        count: share.releases,
    });
    StackedBar {
        title: format!("By job, for {}", words::each(account.unit)),
        file: format!("jobs-{name}-{unit}"),
        note: "Solid: spent. Hatched: reserved".to_owned(),
        parts: parts.collect(),
    }
    .draw()
    .show()
}
