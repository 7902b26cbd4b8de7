//! All metrics as text: the samples of `/metrics`, and the table of the documentation.

use std::fmt::Write as _;

use prometheus_client::encoding::text::encode;

use super::figures::CertificateDays;
use super::{Figures, Metrics, figures};
use crate::ctx::Ctx;
use crate::tls::ServedCertificate;

/// Renders all metrics as text. Unavailable figures are omitted and logged.
///
/// # Errors
/// If the text cannot be written.
pub async fn render(ctx: &Ctx) -> Result<String, std::fmt::Error> {
    let figures = match figures::look(ctx).await {
        Ok(figures) => Some(figures),
        Err(error) => {
            // The conversion logs the error.
            let _ = error.into_problem();
            None
        }
    };
    let mut all = ctx.metrics.registry();
    let days = ctx.tls.as_ref().and_then(ServedCertificate::rotates_at).map(|at| (at - ctx.now()).whole_days());
    let signing = ctx.signer.certified_until(ctx.now()).map(|until| (until - ctx.now()).whole_days());
    figures::register(&mut all, figures.as_ref(), CertificateDays { rotation: days, signing });
    let mut text = String::new();
    encode(&mut text, &all)?;
    Ok(text)
}

/// Returns every metric with its type and meaning, as a Markdown table.
pub fn table() -> String {
    let mut all = Metrics::one_of_each().registry();
    let days = CertificateDays { rotation: Some(0), signing: Some(0) };
    figures::register(&mut all, Some(&Figures::default()), days);
    let mut text = String::new();
    let mut table = "| metric | kind | meaning |\n|---|---|---|\n".to_owned();
    if encode(&mut text, &all).is_ok() {
        let split_line = |line: &str, word: &str| {
            let (name, rest) = line.strip_prefix(word)?.split_once(' ')?;
            Some((name.to_owned(), rest.to_owned()))
        };
        for (name, help) in text.lines().filter_map(|line| split_line(line, "# HELP ")) {
            let kind = text.lines().filter_map(|line| split_line(line, "# TYPE ")).find(|(of, _)| *of == name);
            let kind = kind.map(|(_, kind)| kind).unwrap_or_default();
            let _ = writeln!(table, "| `{name}` | {kind} | {} |", help.trim_end_matches('.'));
        }
    }
    table
}
