//! The report of a training job: its arms on every test set, the learning curves, and the attacks on the models.

mod arms;
mod membership;

use leptos::prelude::*;
use undertone_api::report::ReportFile;

use crate::component::chart::ChartFigure;
use crate::kind::render_curves;

pub(super) use arms::render_headline;

/// Renders the tables of the arms, the learning curves, and membership inference.
pub(super) fn render_sections(report: &ReportFile, figures: &[ChartFigure]) -> AnyView {
    view! {
        {arms::render_tables(report)}
        {render_curves(figures)}
        {membership::render_section(report)}
    }
    .into_any()
}

/// Returns an arm's title in the tables.
fn arm_title(arm: &str) -> String {
    match arm {
        "public" => "Public only".to_owned(),
        "open" => "Public + open private".to_owned(),
        "private" => "Public + private by DP-SGD".to_owned(),
        other => other.to_owned(),
    }
}
