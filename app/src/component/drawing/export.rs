//! Export of a drawing: its numbers as CSV (RFC 4180), its picture as SVG with its own colours. Both are in the page
//! itself, so that they work in a saved report.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leptos::prelude::*;

use super::{DrawingTable, StaticDrawing};
use crate::component::download::csv_address;

/// The styles of a drawing's classes on white paper, without a style sheet.
const PAPER: &str = "text{font:13px 'Source Sans 3',system-ui,sans-serif;fill:#4a5652}\
.label,.cell{fill:#17211f}.label{stroke:#fff;stroke-width:4px;stroke-linejoin:round;paint-order:stroke}\
.cell{font-size:15px;font-weight:600}.cell-more{font-size:12px;fill:#17211f}.chart-title{font-weight:600;fill:#17211f;font-size:15px}\
.grid{stroke:#d3d8d4}.mark{stroke:#4a5652;stroke-dasharray:3 3}\
.heat{fill:#0f5f6b}.heat-edge{fill:none;stroke:#d3d8d4}.chosen{fill:none;stroke:#17211f;stroke-width:3}\
.bar{fill:#0f5f6b}.step{fill:none;stroke:#8a4b08;stroke-width:2;stroke-dasharray:6 3}\
path.line,line.whisker{fill:none;stroke:#0f5f6b;stroke-width:2.25;stroke-linejoin:round}path.dot{fill:#0f5f6b}\
line.whisker{stroke-width:1.25}\
path.dashed,line.dashed{stroke:#8a4b08}path.dashed{stroke-dasharray:7 4}path.dot.dashed{fill:#8a4b08}\
path.dotted,line.dotted{stroke:#4a5652}path.dotted{stroke-dasharray:2 4}path.dot.dotted{fill:#4a5652}\
path.dashdot,line.dashdot{stroke:#17211f}path.dashdot{stroke-dasharray:9 3 2 3}path.dot.dashdot{fill:#17211f}\
path.dot{stroke:none}\
.ground{fill:#d9eaec}.hatching{fill:none;stroke:#6ba5ae;stroke-width:1.5}.held{fill:none;stroke:#0f5f6b;stroke-dasharray:3 2}\
.free{fill:none;stroke:#87918c}.limit{fill:none;stroke:#17211f;stroke-width:1.5}.late{fill:#fff;stroke:#a8241c;stroke-width:2}\
.cross{fill:none;stroke:#a8241c;stroke-width:2.5}.cap{stroke-width:1.25}";

/// Room above the picture for its title.
const TITLE: f64 = 28.0;

/// Renders the links to both files.
pub(super) fn render_links(drawing: &StaticDrawing) -> AnyView {
    let csv = csv_address(&to_csv(&drawing.table));
    let svg = format!("data:image/svg+xml;base64,{}", STANDARD.encode(to_svg(drawing)));
    let name = |ending: &str| format!("{}.{ending}", drawing.file);
    view! {
        <p class="take">
            <a href=csv download=name("csv")>"Save as CSV"</a>" "
            <a href=svg download=name("svg")>"Save as SVG"</a>
        </p>
    }
    .into_any()
}

/// Returns the numbers as CSV.
fn to_csv(table: &DrawingTable) -> String {
    let quoted = |text: &str| {
        if text.contains(['"', ',', '\r', '\n']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.to_owned()
        }
    };
    let mut out = String::new();
    let head: Vec<String> = table.head.iter().map(|name| quoted(name)).collect();
    let rows = table.rows.iter().map(|row| row.iter().map(|cell| quoted(&cell.raw)).collect::<Vec<_>>());
    for row in std::iter::once(head).chain(rows) {
        out.push_str(&row.join(","));
        out.push_str("\r\n");
    }
    out
}

/// Returns the picture as a self-contained file.
fn to_svg(drawing: &StaticDrawing) -> String {
    let (width, height) = drawing.size;
    let tall = height + TITLE;
    let escape =
        |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let title = escape(&drawing.title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{tall}\" viewBox=\"0 0 {width} {tall}\" role=\"img\" \
         aria-label=\"{}\"><title>{title}</title><style>{PAPER}</style><rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\
         <text class=\"chart-title\" x=\"12\" y=\"20\">{title}</text><g transform=\"translate(0 {TITLE})\">{}</g></svg>\n",
        escape(&drawing.sentence),
        drawing.picture
    )
}

#[cfg(test)]
mod tests {
    use super::{to_csv, to_svg};
    use crate::component::drawing::{DrawingTable, StaticDrawing, TableCell};

    fn drawing() -> StaticDrawing {
        StaticDrawing {
            title: "Accuracy & \"more\"".to_owned(),
            file: "accuracy".to_owned(),
            sentence: "<b>".to_owned(),
            note: String::new(),
            size: (480.0, 250.0),
            picture: "<rect></rect>".to_owned(),
            table: DrawingTable {
                head: vec!["a".to_owned(), "b, c".to_owned()],
                rows: vec![
                    vec![TableCell::text("x\"y"), TableCell::number("12.3 %", 0.123)],
                    vec![TableCell::text("z"), TableCell::maybe(|v| v.to_string(), None)],
                ],
            },
        }
    }

    #[test]
    fn csv_has_unrounded_numbers() {
        assert_eq!(to_csv(&drawing().table), "a,\"b, c\"\r\n\"x\"\"y\",0.123\r\nz,\r\n");
    }

    #[test]
    fn svg_file_is_self_contained() {
        let file = to_svg(&drawing());
        assert!(
            file.starts_with("<svg xmlns=") && file.contains("<style>") && file.contains("<rect></rect></g></svg>")
        );
        assert!(
            file.contains("Accuracy &amp; &quot;more&quot;") && file.contains("aria-label=\"&lt;b&gt;\""),
            "{file}"
        );
        assert!(!file.contains("url(") && !file.contains("href"), "{file}");
    }
}
