//! A QR code, rendered on the server as one path; its text is beside it.

use std::fmt::Write as _;

use leptos::prelude::*;
use qrcode::{Color, EcLevel, QrCode};

/// Light modules around the code, as readers require.
const QUIET: usize = 4;

/// Renders the code of a text; `None` if the text is too long.
pub(crate) fn render_qr(text: &str, label: &'static str) -> Option<AnyView> {
    let code = QrCode::with_error_correction_level(text, EcLevel::M).ok()?;
    let width = code.width();
    let mut path = String::new();
    for (index, color) in code.to_colors().into_iter().enumerate() {
        if color == Color::Dark {
            let _ = write!(path, "M{} {}h1v1h-1z", index % width + QUIET, index / width + QUIET);
        }
    }
    let side = width + 2 * QUIET;
    let picture = view! {
        <svg class="qr" viewBox=format!("0 0 {side} {side}") role="img" aria-label=label shape-rendering="crispEdges">
            <rect width=side.to_string() height=side.to_string() fill="#fff"/>
            <path d=path fill="#000"/>
        </svg>
    };
    Some(picture.into_any())
}

#[cfg(test)]
mod tests {
    use leptos::prelude::RenderHtml as _;

    use super::render_qr;

    #[test]
    fn qr_code_is_a_square_with_finder_patterns() {
        let text = "otpauth://totp/Undertone%20here:a@example.org?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Undertone%20here";
        let page = render_qr(text, "A code").expect("it fits").to_html();
        assert!(page.contains("role=\"img\"") && page.contains("aria-label=\"A code\""), "{page}");
        assert!(!page.contains("style="), "{page}");
        // The edge of the finder pattern in the upper left corner: seven dark modules in a row, behind the quiet zone.
        for x in 4..11 {
            assert!(page.contains(&format!("M{x} 4h1v1h-1z")), "{x}");
        }
        assert!(!page.contains("M11 4h") && !page.contains("M3 4h"));
    }

    #[test]
    fn too_long_text_has_no_qr_code() {
        assert!(render_qr(&"x".repeat(5000), "A code").is_none());
    }
}
