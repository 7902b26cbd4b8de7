//! Somebody at a browser: signs in, goes from page to page, and minds what no page may do.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use support::axe::{self, Theme};
use support::browser::{Browser, PATIENCE, Screen};
use support::stage::{PASSWORD, Site, Staged};
use undertone_api::id::DatasetId;

/// A person at a browser.
pub(super) struct Visitor {
    pub(super) browser: Browser,
    address: String,
    screen: Screen,
}

impl Visitor {
    /// Opens a browser for the server at `address`.
    pub(super) async fn open(screen: Screen, address: String) -> Staged<Self> {
        Ok(Self { browser: Browser::open(screen).await?, address, screen })
    }

    /// Goes to a page and waits until its islands are awake.
    pub(super) async fn visit(&self, path: &str) -> Staged<()> {
        self.browser.goto(&format!("{}{path}", self.address)).await?;
        self.awake().await
    }

    /// Waits until nothing on the page waits for its script.
    pub(super) async fn awake(&self) -> Staged<()> {
        let awake = "return document.readyState === 'complete' && !!document.querySelector('h1') && \
            Array.from(document.querySelectorAll('.planner')).every(form => form.classList.contains('live'))";
        self.wait("the page to wake", awake, Vec::new(), PATIENCE, |awake| awake == &json!(true)).await?;
        Ok(())
    }

    /// Where the page is, without the server's name.
    pub(super) async fn place(&self) -> Staged<String> {
        Ok(self.browser.url().await?.replace(&self.address, ""))
    }

    /// Signs in as `name@example.org`; signs out before when somebody is in.
    pub(super) async fn sign_in(&self, name: &str) -> Staged<()> {
        self.visit("/settings").await?;
        if self.place().await? == "/settings" {
            self.browser.click(".rail-foot button").await?;
            self.browser.see("h1", "Sign in").await?;
        }
        self.visit("/sign-in").await?;
        self.browser.fill("input[name=email]", &format!("{name}@example.org")).await?;
        self.browser.fill("input[name=password]", PASSWORD).await?;
        self.browser.click("main button[type=submit]").await?;
        // Everybody has settings; who only answers questions has no overview.
        self.browser.see(".rail", "Settings").await?;
        Ok(())
    }

    /// Pastes the steward's signed approval of the job's page for `dataset`, and approves.
    pub(super) async fn approve_by_key_file(&self, site: &Site, job: &str, dataset: DatasetId) -> Staged<()> {
        let id = job.rsplit('/').next().unwrap_or_default().parse()?;
        let signed = site.client.signed_approval(id, dataset).await?.ok_or("the steward has a key")?;
        self.browser.fill(".decide textarea[name=signature]", &serde_json::to_string(&signed)?).await?;
        self.browser.click(".decide details form[action='/ui/approve'] button").await?;
        Ok(self.browser.see(".notice", "You approved the job.").await?)
    }

    /// Waits until what `script` returns is `enough`, and gives it.
    pub(super) async fn wait(
        &self,
        what: &str,
        script: &str,
        arguments: Vec<Value>,
        within: Duration,
        enough: impl Fn(&Value) -> bool,
    ) -> Staged<Value> {
        let found = self.browser.until(script, arguments, within, enough).await?;
        found.map_err(|last| format!("waited for {what} in vain; the last was {last}").into())
    }

    /// What every page must keep: no complaint in the console, nothing wider than the screen, nothing serious that keeps
    /// somebody who sees badly or uses no mouse from using it, light or dark. Leaves a picture in the folder of
    /// `UNDERTONE_SCREENSHOTS`, when that is set.
    pub(super) async fn sound(&self, name: &str) -> Staged<()> {
        if let Some(folder) = std::env::var_os("UNDERTONE_SCREENSHOTS") {
            let screen = if self.screen == Screen::Phone { "phone" } else { "desktop" };
            self.browser.screenshot(&PathBuf::from(folder).join(format!("{screen}-{name}.png"))).await?;
        }
        let complaints = self.browser.complaints().await?;
        assert!(complaints.is_empty(), "{name} complains: {complaints:?}");
        let widths = self.browser.run("return [document.documentElement.scrollWidth, innerWidth]", Vec::new()).await?;
        assert!(widths[0].as_u64() <= widths[1].as_u64(), "{name} is {} wide on a screen of {}", widths[0], widths[1]);
        let mut found = Vec::new();
        for theme in [Theme::Light, Theme::Dark] {
            found.extend(axe::findings(&self.browser, theme).await?);
        }
        assert!(found.is_empty(), "{name} keeps people out:\n{}", found.join("\n"));
        Ok(())
    }

    /// A page as it is without a script, to the person who is signed in.
    pub(super) async fn plain(&self, path: &str) -> Staged<String> {
        let cookies = self.browser.client().get_all_cookies().await?;
        let cookies: Vec<_> = cookies.iter().map(|cookie| format!("{}={}", cookie.name(), cookie.value())).collect();
        let request = reqwest::Client::new().get(format!("{}{path}", self.address));
        let answer = request.header(http::header::COOKIE, cookies.join("; ")).send().await?;
        Ok(answer.error_for_status()?.text().await?)
    }
}
