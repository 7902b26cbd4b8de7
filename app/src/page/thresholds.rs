//! The table of sampling rates and thresholds by promise, from which a gate for private questions is chosen. It is
//! arithmetic and independent of any consortium; it can be printed and kept.

use leptos::prelude::*;
use serde::Deserialize;
use undertone_api::plan::thresholds::{ThresholdRequest, ThresholdRow, csv};

use crate::component::download::csv_address;
use crate::page_context::{PageContent, PagePlace};
use crate::path;
use crate::screen::render_page;
use crate::words;

/// The fields of the page's own form in its address.
#[derive(Debug, Default, Deserialize)]
struct ThresholdQuery {
    #[serde(default)]
    epsilon: String,
    #[serde(default)]
    delta: String,
    #[serde(default)]
    rate: String,
}

/// Renders the table.
pub(crate) fn thresholds() -> AnyView {
    render_page(PagePlace::Jobs, async |context| {
        context.member()?;
        let query: ThresholdQuery = crate::query::parse(&context.query).unwrap_or_default();
        let request = ThresholdRequest::parse(&query.epsilon, &query.delta, &query.rate);
        let result = request.and_then(|request| request.lines().map(|lines| (request, lines)));
        let body = match result {
            Ok((request, lines)) => render_table(&request, &lines),
            Err(error) => view! { <p class="notice bad" role="alert">{format!("No table: {error}.")}</p> }.into_any(),
        };
        Ok(PageContent::new(
            "Thresholds for private questions",
            view! {
                <p class="lead">"The least count at which a text may be released so that no single row has a noticeable effect."</p>
                {body}
                {render_form(&query)}
                {render_explanation()}
            },
        ))
    })
}

fn render_table(asked: &ThresholdRequest, lines: &[ThresholdRow]) -> AnyView {
    let heads = asked.rates.iter().map(|rate| view! { <th scope="col" class="number">"β "{words::number(*rate)}</th> });
    let groups = asked.epsilons.iter().map(|epsilon| {
        let own = lines.iter().filter(|line| line.epsilon.total_cmp(epsilon).is_eq());
        let rows = own.map(|line| render_row(line, &asked.rates)).collect_view();
        let span = asked.rates.len() + 1;
        view! {
            <tbody>
                <tr><th scope="rowgroup" colspan=span.to_string()>
                    "ε "{words::number(*epsilon)}<small>" · rates up to "{words::number((1e4 * -(-epsilon).exp_m1()).floor() / 1e4)}</small>
                </th></tr>
                {rows}
            </tbody>
        }
    });
    let file = csv_address(&csv(lines));
    view! {
        <section class="panel">
            <div class="scroll" tabindex="0" role="group" aria-label="Table">
                <table class="dense thresholds">
                    <caption>"Least threshold k: by the published bound / by the exact divergence"</caption>
                    <thead><tr><th scope="col">"δ"</th>{heads.collect_view()}</tr></thead>
                    {groups.collect_view()}
                </table>
            </div>
            <p class="take"><a href=file download="thresholds.csv">"Save as CSV"</a></p>
        </section>
    }
    .into_any()
}

fn render_row(line: &ThresholdRow, rates: &[f64]) -> AnyView {
    let cells = rates.iter().map(|rate| {
        let text = line.find_rate(*rate).map_or_else(
            || "–".to_owned(),
            |one| format!("{} / {}", words::count(one.threshold), words::count(one.threshold_tight)),
        );
        view! { <td class="number">{text}</td> }
    });
    view! { <tr><th scope="row">{words::delta(line.delta)}</th>{cells.collect_view()}</tr> }.into_any()
}

/// Renders the form for other numbers, which puts them into the address.
fn render_form(query: &ThresholdQuery) -> AnyView {
    let field = |name: &'static str, label: &'static str, usual: &'static str, value: &str| {
        let value = value.to_owned();
        view! {
            <label class="field"><span>{label}</span>
                <input type="text" name=name value=value placeholder=usual maxlength="200" autocomplete="off"/>
            </label>
        }
    };
    view! {
        <section class="panel other-numbers">
            <h2>"Other numbers"</h2>
            <form class="stack" method="get" action=path::THRESHOLDS>
                {field("epsilon", "ε, separated by commas", "0.25, 0.5, 0.75, 1", &query.epsilon)}
                {field("delta", "δ", "1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10", &query.delta)}
                {field("rate", "Sampling rates β", "0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6", &query.rate)}
                <p><button type="submit">"Show these"</button></p>
            </form>
        </section>
    }
    .into_any()
}

fn render_explanation() -> AnyView {
    view! {
        <section class="panel">
            <h2>"How to read the table"</h2>
            <p>"Every row of a log is kept with probability β, in secret. A text is released if at least k kept \
                rows contain it. Adding or removing one row then changes the release by at most (ε, δ)."</p>
            <p>"The first number of an entry is the least k by the published bound (Li, Qardaji and Su 2012, \
                Theorem 5), the second by the exact divergence. Both are valid if counts are released with the \
                texts. For texts without counts, the exact number is also valid, and rates above 1 − exp(−ε), \
                without an entry in this table, become possible."</p>
            <p>"Protecting users with up to u texts each instead of rows costs u times ε, and δ for each text; the \
                planner includes this."</p>
            <p>"A site prints the same table with "<code>"undertone-worker thresholds"</code>"."</p>
        </section>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use crate::path;
    use crate::testing::TestDashboard;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn threshold_table_has_a_file_and_takes_other_numbers() {
        let dashboard = TestDashboard::open().await;
        let usual = dashboard.render(path::THRESHOLDS, true, "").await.body;
        assert!(usual.contains("13 / 10") && usual.contains("117 / 98"), "{usual}");
        assert!(usual.contains("download=\"thresholds.csv\"") && usual.contains("data:text/csv"));
        let other = dashboard.render("/thresholds?epsilon=0.25&delta=1e-6&rate=0.2", true, "").await.body;
        assert!(other.contains("52 / 35") && !other.contains("13 / 10"), "{other}");
        let wrong = dashboard.render("/thresholds?rate=most", true, "").await.body;
        assert!(wrong.contains("No table: `most` is not a number") && wrong.contains("value=\"most\""), "{wrong}");
    }
}
