//! Files that pages need besides the bundle: the style sheet, the fonts, the logo. Compiled in, so that a server is one
//! file.

/// A file and its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// Its address, from the root.
    pub path: &'static str,
    /// Its media type.
    pub content_type: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
}

impl Asset {
    /// Returns the content security policy of a file that runs as a worker of the browser, where that of the page does
    /// not apply: it loads code of this server, compiles it, and reaches nothing else.
    pub fn content_security_policy(&self) -> Option<&'static str> {
        let policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self'; base-uri 'none'";
        (self.path == VERIFY_WORKER).then_some(policy)
    }
}

/// The style sheet's address.
pub const STYLE: &str = "/assets/undertone.css";
/// The logo's address.
pub const MARK: &str = "/assets/undertone.svg";

/// The address of the passkey script.
pub const PASSKEY: &str = "/assets/passkey.js";

/// The address of the script that verifies a certificate in its page.
pub const VERIFY: &str = "/assets/verify.js";

/// The address of the worker of that script.
const VERIFY_WORKER: &str = "/assets/verify-worker.js";

/// Returns every file. They change only with the program: revalidate by digest or version; they need no session.
pub const fn assets() -> &'static [Asset] {
    &[
        Asset { path: STYLE, content_type: "text/css; charset=utf-8", bytes: include_bytes!("style/undertone.css") },
        Asset { path: MARK, content_type: "image/svg+xml", bytes: include_bytes!("../assets/undertone.svg") },
        Asset {
            path: PASSKEY,
            content_type: "text/javascript; charset=utf-8",
            bytes: include_bytes!("../assets/passkey.js"),
        },
        Asset {
            path: VERIFY,
            content_type: "text/javascript; charset=utf-8",
            bytes: include_bytes!("../assets/verify.js"),
        },
        Asset {
            path: VERIFY_WORKER,
            content_type: "text/javascript; charset=utf-8",
            bytes: include_bytes!("../assets/verify-worker.js"),
        },
        Asset {
            path: "/assets/source-sans-3-latin.woff2",
            content_type: "font/woff2",
            bytes: include_bytes!("../assets/source-sans-3-latin.woff2"),
        },
        Asset {
            path: "/assets/source-sans-3-greek.woff2",
            content_type: "font/woff2",
            bytes: include_bytes!("../assets/source-sans-3-greek.woff2"),
        },
        Asset {
            path: "/assets/jetbrains-mono-latin.woff2",
            content_type: "font/woff2",
            bytes: include_bytes!("../assets/jetbrains-mono-latin.woff2"),
        },
        Asset {
            path: "/assets/source-sans-3.OFL.txt",
            content_type: "text/plain; charset=utf-8",
            bytes: include_bytes!("../assets/source-sans-3.OFL.txt"),
        },
        Asset {
            path: "/assets/jetbrains-mono.OFL.txt",
            content_type: "text/plain; charset=utf-8",
            bytes: include_bytes!("../assets/jetbrains-mono.OFL.txt"),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::assets;

    #[test]
    fn every_file_the_style_sheet_names_is_served() {
        let style = assets().iter().find(|asset| asset.path == super::STYLE).expect("there is a style sheet");
        let text = std::str::from_utf8(style.bytes).expect("the style sheet is text");
        let addresses: Vec<_> = text.split("url(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(!addresses.is_empty());
        for name in addresses {
            assert!(assets().iter().any(|asset| asset.path == name), "{name} is not served");
        }
    }

    /// Compare the bundle's 350 KB; only pages that need a script load it.
    #[test]
    fn scripts_stay_small() {
        let scripts: Vec<_> = assets().iter().filter(|asset| asset.path.rsplit('.').next() == Some("js")).collect();
        assert_eq!(scripts.len(), 3);
        for script in scripts {
            assert!(script.bytes.len() < 8_000, "{} bytes of {}", script.bytes.len(), script.path);
        }
    }

    #[test]
    fn fonts_stay_small() {
        let total: usize = assets().iter().filter(|a| a.content_type == "font/woff2").map(|a| a.bytes.len()).sum();
        assert!(total < 120_000, "{total} bytes of fonts");
    }
}
