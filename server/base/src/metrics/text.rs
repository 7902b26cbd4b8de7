//! All metrics as text: the samples of `/metrics`, and the table of the documentation.

use std::fmt::Write as _;

use prometheus_client::encoding::text::encode;

use super::{CertificateDays, Figures, Metrics, figures};

impl Metrics {
    /// Renders all metrics as text, with the figures of the tables and the store if they are available.
    ///
    /// # Errors
    /// If the text cannot be written.
    pub fn encode(&self, figures: Option<&Figures>, days: CertificateDays) -> Result<String, std::fmt::Error> {
        let mut all = self.registry();
        figures::register(&mut all, figures, days);
        let mut text = String::new();
        encode(&mut text, &all)?;
        Ok(text)
    }
}

/// Returns every metric with its type and meaning, as a Markdown table.
pub fn table() -> String {
    let days = CertificateDays { rotation: Some(0), signing: Some(0) };
    let mut table = "| metric | kind | meaning |\n|---|---|---|\n".to_owned();
    if let Ok(text) = Metrics::one_of_each().encode(Some(&Figures::default()), days) {
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
