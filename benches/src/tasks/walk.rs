//! A person with one task in a browser: each step finds a control by its text, scrolls to it if it is out of sight, and
//! uses it. The walk counts steps, seconds and scrolled pixels. A control that the page does not have is a dead end.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::browser::TestBrowser;
use support::stage::TestResult;

/// The time limit for a page to show what a step needs.
const PATIENCE: Duration = Duration::from_secs(20);

/// Marks the control of the next step, scrolls to it, and returns the scrolled pixels; null without such a control.
const AIM: &str = r"
    const [kind, wanted] = arguments;
    for (const old of document.querySelectorAll('[data-aim]')) old.removeAttribute('data-aim');
    const text = e => (e.innerText || e.value || '').replace(/\s+/g, ' ').trim();
    const shown = e => {
        const box = e.getBoundingClientRect();
        return box.width > 0 && box.height > 0 && getComputedStyle(e).visibility !== 'hidden' && !e.disabled;
    };
    let found = [];
    if (kind === 'field') {
        for (const label of document.querySelectorAll('label')) {
            const control = label.control || label.querySelector('input, textarea, select');
            if (control && text(label).startsWith(wanted) && shown(control)) found.push(control);
        }
    } else {
        const selector = kind === 'control' ? 'a, button, summary' : kind;
        const all = Array.from(document.querySelectorAll(selector)).filter(shown);
        found = all.filter(e => text(e) === wanted);
        if (found.length === 0) found = all.filter(e => text(e).includes(wanted));
        // A link of the content before one of the navigation.
        found.sort((one, other) => Number(!one.closest('main')) - Number(!other.closest('main')));
    }
    const aim = found[0];
    if (!aim) return null;
    const box = aim.getBoundingClientRect();
    let scrolled = 0;
    if (box.top < 0 || box.bottom > innerHeight) {
        scrolled = Math.round(Math.abs(box.top + box.height / 2 - innerHeight / 2));
        aim.scrollIntoView({ block: 'center', behavior: 'instant' });
    }
    aim.setAttribute('data-aim', '');
    return scrolled;";

/// The marked control.
const AIMED: &str = "[data-aim]";

/// What a task has cost until now.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct TaskCost {
    /// Clicks and filled fields.
    pub(super) steps: u32,
    /// Commands at a terminal.
    pub(super) commands: u32,
    /// Scrolled pixels.
    pub(super) scrolled: u64,
    /// Controls that a page did not have.
    pub(super) dead_ends: u32,
    /// Seconds, with the loading of pages.
    pub(super) seconds: f64,
}

/// A task under way.
pub(super) struct TaskWalk<'a> {
    browser: &'a TestBrowser,
    cost: TaskCost,
    began: Instant,
}

impl<'a> TaskWalk<'a> {
    pub(super) fn begin(browser: &'a TestBrowser) -> Self {
        Self { browser, cost: TaskCost::default(), began: Instant::now() }
    }

    /// Ends the task, and returns its cost.
    pub(super) fn finish(self) -> TaskCost {
        TaskCost { seconds: self.began.elapsed().as_secs_f64(), ..self.cost }
    }

    /// Clicks the link, button or summary with a text.
    pub(super) async fn press(&mut self, text: &str) -> TestResult<()> {
        self.aim("control", text).await?;
        Ok(self.browser.click(AIMED).await?)
    }

    /// Clicks the first element that `selector` matches and whose text contains `text`.
    pub(super) async fn press_in(&mut self, selector: &str, text: &str) -> TestResult<()> {
        self.aim(selector, text).await?;
        Ok(self.browser.click(AIMED).await?)
    }

    /// Counts a command at a terminal.
    pub(super) const fn count_terminal(&mut self) {
        self.cost.commands += 1;
    }

    /// Fills the field with a label.
    pub(super) async fn fill(&mut self, label: &str, content: &str) -> TestResult<()> {
        self.aim("field", label).await?;
        Ok(self.browser.overwrite(AIMED, content).await?)
    }

    /// Presses a key with the focus in no field.
    pub(super) async fn key(&mut self, key: &str) -> TestResult<()> {
        self.cost.steps += 1;
        Ok(self.browser.press(key).await?)
    }

    /// Waits until an element that `selector` matches shows a text, and adds the distance to it.
    pub(super) async fn see(&mut self, selector: &str, text: &str) -> TestResult<()> {
        self.browser.see(selector, text).await?;
        let distance = "const all = Array.from(document.querySelectorAll(arguments[0]));
            const box = all.find(e => e.innerText.includes(arguments[1]))?.getBoundingClientRect();
            return !box || (box.top < innerHeight && box.bottom > 0) ? 0 : Math.round(Math.abs(box.top - innerHeight / 2));";
        let distance = self.browser.run(distance, vec![json!(selector), json!(text)]).await?;
        self.cost.scrolled += distance.as_u64().unwrap_or_default();
        Ok(())
    }

    /// Finds a control, and scrolls to it.
    async fn aim(&mut self, kind: &str, text: &str) -> TestResult<()> {
        let has_control = |found: &Value| !found.is_null();
        let found = self.browser.until(AIM, vec![json!(kind), json!(text)], PATIENCE, has_control).await?;
        let Ok(scrolled) = found else {
            self.cost.dead_ends += 1;
            return Err(format!("{} has no {kind} {text:?}", self.browser.url().await?).into());
        };
        self.cost.steps += 1;
        self.cost.scrolled += scrolled.as_u64().unwrap_or_default();
        Ok(())
    }

    /// Returns the cost until now.
    pub(super) const fn cost(&self) -> TaskCost {
        self.cost
    }
}
