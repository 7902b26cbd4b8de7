//! The dossier as one HTML page without scripts, which a browser also prints.

use std::fmt::Write as _;

use undertone_server_core::service::dossier::{DossierItem, EgressDossier, FiveSafes, ProofResult};

/// The style of the page: readable on a screen of any width, and on paper.
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}\
h1{font-size:1.6rem}h2{margin-top:2.5rem;border-bottom:1px solid #767676}h3{margin:1.5rem 0 .25rem}\
.subject{margin:0;color:#555}dt{font-weight:600;margin-top:.5rem}dd{margin-left:1rem}li,dd{overflow-wrap:anywhere}\
.fails{color:#a40000;font-weight:600}@media print{article{break-inside:avoid}}";

/// Returns the page.
pub(super) fn format_page(dossier: &EgressDossier) -> String {
    let title = escape(&format!("Egress dossier: {}", dossier.job.title));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    let made_at = dossier.made_at.format(&time::format_description::well_known::Rfc3339).unwrap_or_default();
    page += "<p>For the people who decide whether a result may leave a trusted research environment. The questions follow the Five \
             Safes and the subjects of SATRE 2.0, section 3.3. The dossier decides nothing: each answer names its proofs, and \
             states the facts that a person has to judge.</p>\n";
    page += "<dl>\n";
    for (term, description) in [
        ("Consortium", dossier.consortium.name.clone()),
        ("Job", dossier.job.id.to_string()),
        ("Certificate (SHA-256)", dossier.certificate.clone()),
        ("Key of the server", dossier.server_key.clone()),
        ("Assembled", made_at),
    ] {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "<dt>{term}</dt><dd>{}</dd>", escape(&description));
    }
    page += "</dl>\n";
    let _ = writeln!(page, "<p>{}</p>", escape(dossier.notice));
    let defects = dossier.list_defects();
    if !defects.is_empty() {
        let _ = writeln!(page, "<h2>Defects</h2>\n<ul class=\"fails\">{}</ul>", format_list(&defects));
    }
    for safe in FiveSafes::ALL {
        let _ = writeln!(page, "<h2>{}</h2>", safe.label());
        dossier.items.iter().filter(|item| item.safe == safe).for_each(|item| page += &format_item(item));
    }
    page + "</main>\n</body>\n</html>\n"
}

fn format_item(item: &DossierItem) -> String {
    let mut text = format!("<article id=\"{}\">\n<h3>{}</h3>\n", item.id, escape(item.question));
    if let Some(subject) = item.subject {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "<p class=\"subject\">SATRE 3.3: {}</p>", subject.label());
    }
    let _ = writeln!(text, "<ul>{}</ul>", format_list(&item.answer));
    text += "<h4>Proofs</h4>\n<ul>";
    for proof in &item.proofs {
        let (class, word) = match proof.result {
            ProofResult::Holds => ("holds", "holds"),
            ProofResult::Unchecked => ("unchecked", "not checked"),
            ProofResult::Fails => ("fails", "FAILS"),
        };
        let _ = write!(
            text,
            "<li class=\"{class}\"><strong>{word}</strong> ({}): {}</li>",
            proof.source.label(),
            escape(&proof.text)
        );
    }
    let _ = writeln!(text, "</ul>\n<h4>Not covered</h4>\n<ul>{}</ul>\n</article>", format_list(&item.not_covered));
    text
}

fn format_list(lines: &[String]) -> String {
    lines.iter().flat_map(|line| ["<li>".to_owned(), escape(line), "</li>".to_owned()]).collect()
}

/// Escapes a text: titles and names are written by members.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use undertone_server_core::service::certificate::verify::TrustedInputs;
    use undertone_server_core::service::dossier::assemble_at_terminal;
    use undertone_server_core::service::world::TestConsortium;
    use undertone_server_core::service::world::finished::finished;

    use super::{escape, format_page};
    use crate::testing::on_both;

    #[test]
    fn names_of_members_are_no_markup() {
        assert_eq!(escape("<img src='x'> & \"y\""), "&lt;img src=&#39;x&#39;&gt; &amp; &quot;y&quot;");
    }

    on_both! {
        async fn page_has_each_question_with_its_limits(app: &TestApp) {
            let mut world = TestConsortium::new(&app.ctx, 2, 50.0).await;
            let job = finished(&mut world, 1).await;
            let mut dossier = assemble_at_terminal(&app.ctx, job.summary.id, TrustedInputs::default()).await.expect("made");
            "<b>a title</b>".clone_into(&mut dossier.job.title);
            let page = format_page(&dossier);
            assert!(page.contains("&lt;b&gt;a title&lt;/b&gt;") && !page.contains("<b>"));
            assert!(!page.contains("<script") && !page.contains("Defects"));
            assert!(page.contains("compare the key with the `server_key` in the configuration of a worker"));
            for item in &dossier.items {
                assert!(page.contains(&format!("<article id=\"{}\">", item.id)), "{}", item.id);
                assert!(item.not_covered.iter().all(|limit| page.contains(&escape(limit))), "{}", item.id);
            }
        }
    }
}
