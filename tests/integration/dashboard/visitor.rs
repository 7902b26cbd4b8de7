//! A person at a browser: signs in, navigates, and checks properties that every page must have.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use support::axe::{self, PageTheme};
use support::browser::{EmulatedScreen, PATIENCE, TestBrowser};
use support::stage::{PASSWORD, TestResult, TestSite};
use undertone_api::id::DatasetId;

/// A person at a browser.
pub(super) struct PageVisitor {
    pub(super) browser: TestBrowser,
    address: String,
    screen: EmulatedScreen,
}

impl PageVisitor {
    /// Opens a browser for the server at `address`.
    pub(super) async fn open(screen: EmulatedScreen, address: String) -> TestResult<Self> {
        Ok(Self { browser: TestBrowser::open(screen).await?, address, screen })
    }

    /// Opens a page and waits until it is interactive.
    pub(super) async fn visit(&self, path: &str) -> TestResult<()> {
        self.browser.goto(&format!("{}{path}", self.address)).await?;
        self.awake().await
    }

    /// Waits until no part of the page waits for its script.
    pub(super) async fn awake(&self) -> TestResult<()> {
        let awake = "return document.readyState === 'complete' && !!document.querySelector('h1') && \
            Array.from(document.querySelectorAll('.planner')).every(form => form.classList.contains('live'))";
        self.wait("the page to wake", awake, Vec::new(), PATIENCE, |awake| awake == &json!(true)).await?;
        Ok(())
    }

    /// Returns the path of the page, without the server's address.
    pub(super) async fn place(&self) -> TestResult<String> {
        Ok(self.browser.url().await?.replace(&self.address, ""))
    }

    /// Signs in as `name@example.org`, after signing out a previous person.
    pub(super) async fn sign_in(&self, name: &str) -> TestResult<()> {
        self.visit("/settings").await?;
        if self.place().await? == "/settings" {
            self.browser.click(".rail-foot button").await?;
            self.browser.see("h1", "Sign in").await?;
        }
        self.visit("/sign-in").await?;
        self.browser.fill("input[name=email]", &format!("{name}@example.org")).await?;
        self.browser.fill("input[name=password]", PASSWORD).await?;
        self.browser.click("main button[type=submit]").await?;
        // Every member has settings; a member who only answers questions has no overview.
        self.browser.see(".rail", "Settings").await?;
        Ok(())
    }

    /// Pastes the steward's signed approval into the job's page for `dataset`, and approves.
    pub(super) async fn approve_by_key_file(&self, site: &TestSite, job: &str, dataset: DatasetId) -> TestResult<()> {
        let id = job.rsplit('/').next().unwrap_or_default().parse()?;
        let signed = site.client.signed_approval(id, dataset).await?.ok_or("the steward has a key")?;
        self.browser.fill(".decide textarea[name=signature]", &serde_json::to_string(&signed)?).await?;
        self.browser.click(".decide details form[action='/ui/approve'] button").await?;
        Ok(self.browser.see(".notice", "You approved the job.").await?)
    }

    /// Waits until the result of `script` is `enough`, and returns it.
    pub(super) async fn wait(
        &self,
        what: &str,
        script: &str,
        arguments: Vec<Value>,
        within: Duration,
        enough: impl Fn(&Value) -> bool,
    ) -> TestResult<Value> {
        let outcome = self.browser.until(script, arguments, within, enough).await?;
        outcome.map_err(|last| format!("waited for {what} in vain; the last was {last}").into())
    }

    /// Checks the properties of every page: no error in the console, nothing wider than the screen, no serious
    /// accessibility violation in the light and dark theme. Writes a screenshot to the folder of
    /// `UNDERTONE_SCREENSHOTS`, if that is set.
    pub(super) async fn sound(&self, name: &str) -> TestResult<()> {
        if let Some(folder) = std::env::var_os("UNDERTONE_SCREENSHOTS") {
            let screen = if self.screen == EmulatedScreen::Phone { "phone" } else { "desktop" };
            self.browser.screenshot(&PathBuf::from(folder).join(format!("{screen}-{name}.png"))).await?;
        }
        let complaints = self.browser.complaints().await?;
        assert!(complaints.is_empty(), "{name} complains: {complaints:?}");
        let widths = self.browser.run("return [document.documentElement.scrollWidth, innerWidth]", Vec::new()).await?;
        assert!(widths[0].as_u64() <= widths[1].as_u64(), "{name} is {} wide on a screen of {}", widths[0], widths[1]);
        let mut violations = Vec::new();
        for theme in [PageTheme::Light, PageTheme::Dark] {
            violations.extend(axe::findings(&self.browser, theme).await?);
        }
        assert!(violations.is_empty(), "{name} keeps people out:\n{}", violations.join("\n"));
        Ok(())
    }

    /// Returns a page as served to the signed-in person, without running scripts.
    pub(super) async fn plain(&self, path: &str) -> TestResult<String> {
        let cookies = self.browser.client().get_all_cookies().await?;
        let cookies: Vec<_> = cookies.iter().map(|cookie| format!("{}={}", cookie.name(), cookie.value())).collect();
        let request = reqwest::Client::new().get(format!("{}{path}", self.address));
        let answer = request.header(http::header::COOKIE, cookies.join("; ")).send().await?;
        Ok(answer.error_for_status()?.text().await?)
    }
}
