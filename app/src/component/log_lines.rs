//! Lines of a job's log.

use leptos::prelude::*;
use time::OffsetDateTime;
use undertone_api::job::log::{LogLevel, LogLine};

use super::said::RelativeTime;

/// Renders lines as a table, newest first.
pub(crate) fn render_log_lines(lines: &[LogLine], now: OffsetDateTime) -> AnyView {
    let rows = lines.iter().map(|line| {
        let source = match (&line.dataset_name, &line.organization_name) {
            (Some(dataset), Some(owner)) => format!("{dataset}, {owner}"),
            _ => "the job".to_owned(),
        };
        let (class, mark) = match line.level {
            LogLevel::Info => ("state", "info"),
            LogLevel::Warning => ("state waiting", "◌ warning"),
            LogLevel::Error => ("state bad", "✕ error"),
        };
        view! {
            <tr>
                <td data-label="when"><RelativeTime at=line.at now/></td>
                <th scope="row">{source}</th>
                <td data-label="level"><span class=class>{mark}</span></td>
                <td data-label="what">{line.text.clone()}</td>
            </tr>
        }
    });
    view! {
        <table class="cards dense">
            <thead><tr><th scope="col">"When"</th><th scope="col">"Participant"</th><th scope="col">"Level"</th><th scope="col">"Event"</th></tr></thead>
            <tbody>{rows.collect_view()}</tbody>
        </table>
    }
    .into_any()
}
