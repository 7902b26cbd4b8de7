//! A real browser, Debian's headless Chromium, driven over WebDriver. Each one has a fresh profile and ends, with all
//! its processes, when it is dropped.
//!
//! ```no_run
//! # async fn visit() -> Result<(), support::browser::BrowserError> {
//! let browser = support::browser::TestBrowser::open(support::browser::EmulatedScreen::Phone).await?;
//! browser.goto("http://127.0.0.1:8080/").await?;
//! browser.fill("input[name=email]", "someone@example.org").await?;
//! browser.click("button[type=submit]").await?;
//! browser.see("h1", "Overview").await?;
//! assert_eq!(browser.complaints().await?, [""; 0]);
//! # Ok(()) }
//! ```

mod authenticator;
mod console;

use std::{
    env, io,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use fantoccini::{
    Client, ClientBuilder, Locator,
    elements::Element,
    error::{CmdError, NewSessionError},
    wd::Capabilities,
};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{ProcessError, TestProcess};

/// The time limit for a page to show the expected content. Generous, because tests share their machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The interval between two queries of a page.
const PACE: Duration = Duration::from_millis(50);

/// Control and `a`, then control released: WebDriver's keys.
const ALL: &str = "\u{e009}a\u{e000}";

/// Chromium's rule that resolves no host except this machine.
const REACH: &str = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost";

/// The screen that the browser emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmulatedScreen {
    /// 1280 by 900 pixels.
    Desktop,
    /// 390 by 844 points at two pixels each, with touch.
    Phone,
}

/// Reasons why a browser command failed.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// The driver did not start.
    #[error("chromedriver did not start: is chromium-driver installed? (`make setup`)")]
    Driver(#[from] ProcessError),
    /// The browser did not start.
    #[error("chromium did not start: is chromium installed? (`make setup`)")]
    Session(#[from] Box<NewSessionError>),
    /// A command failed.
    #[error("{doing}")]
    Command {
        /// The command.
        doing: String,
        /// The error.
        source: Box<CmdError>,
    },
    /// The expected content did not appear in time.
    #[error("{selector} did not show {wanted:?} within {} s; it shows {shows:?}", PATIENCE.as_secs())]
    Unseen {
        /// The selector.
        selector: String,
        /// The expected text.
        wanted: String,
        /// The actual text.
        shows: String,
    },
    /// A file could not be written.
    #[error("could not write {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// One browser with one page open.
#[derive(Debug)]
pub struct TestBrowser {
    client: Client,
    // Dropped in this order: first the processes, last the profile that they write to.
    _driver: TestProcess,
    _profile: TempDir,
}

impl TestBrowser {
    /// Starts a browser.
    ///
    /// # Errors
    /// If Chromium or its driver is missing or does not start.
    pub async fn open(screen: EmulatedScreen) -> Result<Self, BrowserError> {
        let profile = TempDir::with_prefix("undertone-browser-")
            .map_err(|source| BrowserError::File { path: env::temp_dir(), source })?;
        // Port 0: the driver selects a free port and prints it.
        let driver = TestProcess::start("chromedriver", Command::new("chromedriver").arg("--port=0"))?;
        let line = driver.wait_for("started successfully on port", PATIENCE)?;
        let port: String = line.chars().filter(char::is_ascii_digit).collect();
        let client = ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities(screen, profile.path()))
            .connect(&format!("http://127.0.0.1:{port}"))
            .await
            .map_err(Box::new)?;
        Ok(Self { client, _driver: driver, _profile: profile })
    }

    /// Returns the WebDriver client, for commands without a method here.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Opens an address.
    ///
    /// # Errors
    /// If the address cannot be reached.
    pub async fn goto(&self, url: &str) -> Result<(), BrowserError> {
        self.client.goto(url).await.map_err(|source| failed(format!("opening {url}"), source))
    }

    /// Returns the address of the page.
    ///
    /// # Errors
    /// If the browser is gone.
    pub async fn url(&self) -> Result<String, BrowserError> {
        let url = self.client.current_url().await;
        url.map(String::from).map_err(|source| failed("asking for the address", source))
    }

    /// Waits for the first element that `selector` (CSS) matches.
    ///
    /// # Errors
    /// If there is none within [`PATIENCE`].
    pub async fn find(&self, selector: &str) -> Result<Element, BrowserError> {
        let element = self.client.wait().at_most(PATIENCE).for_element(Locator::Css(selector)).await;
        element.map_err(|source| failed(format!("looking for {selector}"), source))
    }

    /// Waits for an element and clicks it.
    ///
    /// # Errors
    /// If there is none, or another element covers it.
    pub async fn click(&self, selector: &str) -> Result<(), BrowserError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.find(selector).await?.click().await {
                Ok(()) => return Ok(()),
                // The page was left after the element was found.
                Err(source) if between_pages(&source) && Instant::now() < deadline => tokio::time::sleep(PACE).await,
                Err(source) => return Err(failed(format!("clicking {selector}"), source)),
            }
        }
    }

    /// Waits for a field and replaces its content by typing.
    ///
    /// # Errors
    /// If there is none, or it accepts no text.
    pub async fn fill(&self, selector: &str, text: &str) -> Result<(), BrowserError> {
        let field = self.find(selector).await?;
        field.clear().await.map_err(|source| failed(format!("clearing {selector}"), source))?;
        field.send_keys(text).await.map_err(|source| failed(format!("typing into {selector}"), source))
    }

    /// Waits for a field and types over its content, so that it is never empty.
    ///
    /// # Errors
    /// If there is none, or it accepts no text.
    pub async fn overwrite(&self, selector: &str, text: &str) -> Result<(), BrowserError> {
        let field = self.find(selector).await?;
        let typed = field.send_keys(&format!("{ALL}{text}")).await;
        typed.map_err(|source| failed(format!("typing over {selector}"), source))
    }

    /// Presses keys one after the other, with the focus in no field.
    ///
    /// # Errors
    /// If the browser is gone.
    pub async fn press(&self, keys: &str) -> Result<(), BrowserError> {
        let pressed = self.find("body").await?.send_keys(keys).await;
        pressed.map_err(|source| failed(format!("pressing {keys}"), source))
    }

    /// Waits for a select box and chooses the option with this value.
    ///
    /// # Errors
    /// If there is no such box or option.
    pub async fn choose(&self, selector: &str, value: &str) -> Result<(), BrowserError> {
        let field = self.find(selector).await?;
        field.select_by_value(value).await.map_err(|source| failed(format!("choosing {value} in {selector}"), source))
    }

    /// Returns the visible text of the first matching element.
    ///
    /// # Errors
    /// If there is none within [`PATIENCE`].
    pub async fn text(&self, selector: &str) -> Result<String, BrowserError> {
        let element = self.find(selector).await?;
        element.text().await.map_err(|source| failed(format!("reading {selector}"), source))
    }

    /// Waits until an element that `selector` matches shows `wanted`, on this page or a following one.
    ///
    /// # Errors
    /// If none does within [`PATIENCE`].
    pub async fn see(&self, selector: &str, wanted: &str) -> Result<(), BrowserError> {
        let script = "return Array.from(document.querySelectorAll(arguments[0]), e => e.innerText).join('\\n')";
        let is_visible = |shows: &Value| shows.as_str().is_some_and(|shows| shows.contains(wanted));
        match self.until(script, vec![json!(selector)], PATIENCE, is_visible).await? {
            Ok(_) => Ok(()),
            Err(shows) => Err(BrowserError::Unseen {
                selector: selector.to_owned(),
                wanted: wanted.to_owned(),
                shows: shows.as_str().unwrap_or_default().to_owned(),
            }),
        }
    }

    /// Runs a script repeatedly until its result is `enough`; after `within`, returns the last result as an error.
    ///
    /// # Errors
    /// If the script still throws after that time; before, it may throw while a page is being left.
    pub async fn until(
        &self,
        script: &str,
        arguments: Vec<Value>,
        within: Duration,
        enough: impl Fn(&Value) -> bool,
    ) -> Result<Result<Value, Value>, BrowserError> {
        let deadline = Instant::now() + within;
        loop {
            let late = Instant::now() > deadline;
            match self.client.execute(script, arguments.clone()).await {
                Ok(value) if enough(&value) => return Ok(Ok(value)),
                Ok(value) if late => return Ok(Err(value)),
                Err(source) if late || !between_pages(&source) => {
                    return Err(failed("running a script in the page", source));
                }
                Ok(_) | Err(_) => {}
            }
            // The page does not announce changes. A script that waits in the page would never return when the page is
            // left.
            tokio::time::sleep(PACE).await;
        }
    }

    /// Runs a script in the page; returns its result as JSON.
    ///
    /// # Errors
    /// If the script throws.
    pub async fn run(&self, script: &str, arguments: Vec<Value>) -> Result<Value, BrowserError> {
        self.client.execute(script, arguments).await.map_err(|source| failed("running a script in the page", source))
    }

    /// Runs a script that calls its last argument with its result; returns that as JSON.
    ///
    /// # Errors
    /// If the script throws, or exceeds the driver's time limit.
    pub async fn run_async(&self, script: &str, arguments: Vec<Value>) -> Result<Value, BrowserError> {
        let answer = self.client.execute_async(script, arguments).await;
        answer.map_err(|source| failed("running a script in the page", source))
    }

    /// Writes a screenshot of the visible part to `path` as PNG.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub async fn screenshot(&self, path: &Path) -> Result<(), BrowserError> {
        let png = self.client.screenshot().await.map_err(|source| failed("taking a picture", source))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, png));
        written.map_err(|source| BrowserError::File { path: path.to_owned(), source })
    }

    /// Adds an authenticator to the browser that verifies its user by itself, for passkeys.
    ///
    /// # Errors
    /// If the driver does not support it.
    pub async fn add_authenticator(&self) -> Result<(), BrowserError> {
        let added = self.client.issue_cmd(authenticator::AddAuthenticator).await;
        added.map(|_| ()).map_err(|source| failed("adding an authenticator", source))
    }

    /// Returns the errors in the browser's console since the last call: script errors, blocked or missing resources,
    /// wasm that did not start. A correct page has none.
    ///
    /// # Errors
    /// If the browser is gone.
    pub async fn complaints(&self) -> Result<Vec<String>, BrowserError> {
        let log = self.client.issue_cmd(console::ReadConsole).await;
        log.map(|log| console::complaints(&log)).map_err(|source| failed("reading the console", source))
    }
}

/// Returns whether a script failed only because its page was being left for another one.
fn between_pages(error: &CmdError) -> bool {
    use fantoccini::error::ErrorStatus::{JavascriptError, ScriptTimeout, StaleElementReference, UnknownError};
    matches!(error, CmdError::Standard(error)
        if matches!(error.error, JavascriptError | ScriptTimeout | StaleElementReference | UnknownError))
}

fn failed(doing: impl Into<String>, source: CmdError) -> BrowserError {
    BrowserError::Command { doing: doing.into(), source: Box::new(source) }
}

/// Returns the requested capabilities: a fresh browser that reaches this machine alone, and accepts test certificates.
fn capabilities(screen: EmulatedScreen, profile: &Path) -> Capabilities {
    let mut arguments: Vec<String> = [
        "--headless=new",
        // The sandbox is not available to root, as in a container.
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
    ]
    .map(str::to_owned)
    .into();
    arguments.extend([REACH.to_owned(), format!("--user-data-dir={}", profile.display())]);
    let mut options = json!({});
    match screen {
        EmulatedScreen::Desktop => arguments.push("--window-size=1280,900".to_owned()),
        // A window cannot be as narrow as a phone.
        EmulatedScreen::Phone => {
            options["mobileEmulation"] =
                json!({ "deviceMetrics": { "width": 390, "height": 844, "pixelRatio": 2.0, "touch": true } });
        }
    }
    options["args"] = json!(arguments);
    let mut capabilities = Capabilities::new();
    capabilities.insert("acceptInsecureCerts".to_owned(), json!(true));
    capabilities.insert("goog:loggingPrefs".to_owned(), json!({ "browser": "ALL" }));
    capabilities.insert("goog:chromeOptions".to_owned(), options);
    capabilities
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "data:text/html,<meta name=viewport content='width=device-width'><input name=who>\
        <button onclick='requestAnimationFrame(() => { greeting.innerText = `Hello, ${document.querySelector(`input`).value}` })'>\
        Greet</button><p id=greeting></p><p id=width></p><script>width.innerText = innerWidth</script>";
    /// A page that shows the content of a number field at every change, and the keys pressed outside of it.
    const KEYS: &str = "data:text/html,<meta name=viewport content='width=device-width'><input type=number step=any value=0.5>\
        <p id=typed></p><p id=pressed></p><script>const field = document.querySelector('input');\
        field.oninput = () => typed.innerText += ' ' + (field.value || (field.validity.badInput ? 'begun' : 'empty'));\
        document.onkeydown = e => { if (e.target === document.body && e.key.length === 1) pressed.innerText += e.key }</script>";

    #[tokio::test]
    async fn a_page_is_typed_into_clicked_and_read() -> Result<(), BrowserError> {
        let browser = TestBrowser::open(EmulatedScreen::Desktop).await?;
        browser.goto(PAGE).await?;
        browser.fill("input[name=who]", "world").await?;
        browser.click("button").await?;
        browser.see("p", "Hello, world").await?;
        assert_eq!(browser.text("#width").await?, "1280");
        assert_eq!(browser.complaints().await?, [""; 0]);
        Ok(())
    }

    #[tokio::test]
    async fn a_phone_is_as_wide_as_a_phone_and_can_be_pictured() -> Result<(), BrowserError> {
        let browser = TestBrowser::open(EmulatedScreen::Phone).await?;
        browser.goto(PAGE).await?;
        assert_eq!(browser.text("#width").await?, "390");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("phone/page.png");
        browser.screenshot(&path).await?;
        let png = std::fs::read(&path).expect("the picture");
        // Width and height follow the signature and the header of the first chunk.
        assert_eq!((&png[1..4], &png[16..24]), (&b"PNG"[..], &[0, 0, 3, 12, 0, 0, 6, 152][..]));
        Ok(())
    }

    #[tokio::test]
    async fn what_is_in_a_field_is_typed_over_and_keys_reach_the_page() -> Result<(), BrowserError> {
        let browser = TestBrowser::open(EmulatedScreen::Phone).await?;
        browser.goto(KEYS).await?;
        browser.overwrite("input", "0.25").await?;
        browser.see("#typed", "0.25").await?;
        assert!(!browser.text("#typed").await?.contains("empty"), "it was empty for a moment");
        browser.press("a?").await?;
        browser.see("#pressed", "a?").await?;
        Ok(())
    }

    #[tokio::test]
    async fn nothing_but_this_machine_is_reached() -> Result<(), BrowserError> {
        let browser = TestBrowser::open(EmulatedScreen::Desktop).await?;
        // A loopback address that the rule does not exclude; it represents all other hosts.
        let listener = std::net::TcpListener::bind("127.0.0.2:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let refused = browser.goto(&format!("http://{address}/")).await.expect_err("nobody is there");
        assert!(format!("{refused:?}").contains("ERR_NAME_NOT_RESOLVED"), "{refused:?}");
        Ok(())
    }

    #[tokio::test]
    async fn an_error_in_the_page_is_a_complaint() -> Result<(), BrowserError> {
        let browser = TestBrowser::open(EmulatedScreen::Desktop).await?;
        browser.goto("data:text/html,<script>throw new Error('broken page')</script>").await?;
        let complaints = browser.complaints().await?;
        assert!(complaints.len() == 1 && complaints[0].contains("broken page"), "{complaints:?}");
        Ok(())
    }

    #[tokio::test]
    #[expect(clippy::used_underscore_binding, reason = "kept for its drop; only this test looks at it")]
    async fn a_closed_browser_leaves_no_process() -> Result<(), BrowserError> {
        let browser = TestBrowser::open(EmulatedScreen::Desktop).await?;
        let profile = browser._profile.path().to_string_lossy().into_owned();
        assert!(users_of(&profile) > 0);
        drop(browser);
        // Killed processes stay in the list until their parent has reaped them.
        let patience = Instant::now() + Duration::from_secs(10);
        while users_of(&profile) > 0 && Instant::now() < patience {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(users_of(&profile), 0);
        Ok(())
    }

    /// Returns the number of processes with `profile` in their command line.
    fn users_of(profile: &str) -> usize {
        let processes = std::fs::read_dir("/proc").expect("a Linux machine").flatten();
        let commands = processes.filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok());
        commands.filter(|command| command.contains(profile)).count()
    }
}
