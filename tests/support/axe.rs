//! Accessibility violations that axe-core finds on a page.
//!
//! axe-core is a test tool (`.ci/axe.sh` downloads it); without it pages are not examined, and a note is printed.

use std::path::PathBuf;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::browser::{BrowserError, TestBrowser};

/// The version that `.ci/axe.sh` downloads.
const FOLDER: &str = "axe-core-4.14.1";

/// The script that returns the page's serious and critical violations, each with its elements.
const EXAMINE: &str = "const done = arguments[arguments.length - 1];
    axe.run(document, { resultTypes: ['violations'] }).then(found => done(found.violations
        .filter(one => one.impact === 'serious' || one.impact === 'critical')
        .map(one => `${one.id} (${one.impact}): ${one.help}: ` + one.nodes.slice(0, 6)
            .map(node => node.target.join(' ') + ' ' + (node.any[0]?.message ?? node.all[0]?.message ?? node.none[0]?.message ?? ''))
            .join(' | '))), error => done([`axe failed: ${error}`]));";

/// The theme of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageTheme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// Returns the script of axe-core; `None`, with a note printed once, where it is missing.
pub fn script() -> Option<&'static str> {
    static SCRIPT: OnceLock<Option<String>> = OnceLock::new();
    let read = || {
        let configured =
            std::env::var_os("UNDERTONE_AXE").filter(|configured| !configured.is_empty()).map(PathBuf::from);
        let cache = std::env::var_os("UNDERTONE_CACHE").map(PathBuf::from).or_else(|| {
            let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
            Some(std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home)?.join("undertone"))
        });
        let file = configured.or_else(|| Some(cache?.join("tools").join(FOLDER).join("axe.min.js")))?;
        let text = std::fs::read_to_string(file).ok();
        if text.is_none() {
            eprintln!("passed over: no axe-core; run .ci/axe.sh to fetch it");
        }
        text
    };
    SCRIPT.get_or_init(read).as_deref()
}

/// Returns the serious and critical violations on the present page, in a theme. Returns none without axe-core.
///
/// # Errors
/// If the browser is gone.
pub async fn findings(browser: &TestBrowser, theme: PageTheme) -> Result<Vec<String>, BrowserError> {
    let Some(script) = script() else { return Ok(Vec::new()) };
    let word = if theme == PageTheme::Dark { "dark" } else { "light" };
    let dress = "const root = document.documentElement; const before = root.dataset.theme ?? ''; \
        root.dataset.theme = arguments[0]; return before";
    let before = browser.run(dress, vec![json!(word)]).await?;
    let present = browser.run("return !!window.axe", Vec::new()).await?;
    if present != json!(true) {
        browser.run(&format!("{script}; window.axe = axe; return true"), Vec::new()).await?;
    }
    let findings = browser.run_async(EXAMINE, Vec::new()).await?;
    browser.run(dress, vec![before]).await?;
    let all = findings.as_array().into_iter().flatten().filter_map(Value::as_str);
    Ok(all.map(|one| format!("{word}: {one}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::browser::EmulatedScreen;

    const PAGE: &str = "data:text/html,<html lang=en><title>x</title><main><h1>x</h1><img src=''>\
        <p style='color:%23bbb;background:%23fff'>faint</p></main>";

    #[tokio::test]
    async fn a_picture_without_words_and_faint_letters_are_found() -> Result<(), BrowserError> {
        if script().is_none() {
            return Ok(());
        }
        let browser = TestBrowser::open(EmulatedScreen::Desktop).await?;
        browser.goto(PAGE).await?;
        let findings = findings(&browser, PageTheme::Light).await?;
        assert!(findings.iter().any(|one| one.contains("image-alt")), "{findings:?}");
        assert!(findings.iter().any(|one| one.contains("color-contrast")), "{findings:?}");
        Ok(())
    }
}
