//! A progress bar on a terminal; elsewhere a line at every tenth.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use crate::speech::progress::ProgressReporter;

/// Reports progress on standard error.
#[derive(Debug, Default)]
pub(super) struct Bar {
    state: Mutex<Option<State>>,
}

#[derive(Debug)]
struct State {
    bar: ProgressBar,
    what: String,
    total: u64,
    done: AtomicU64,
}

/// Returns the tenth that the step from `before` to `after` of `total` completed, if any.
fn tenth(before: u64, after: u64, total: u64) -> Option<u64> {
    let tenths = |done: u64| if total == 0 { 10 } else { u128::from(done) * 10 / u128::from(total) };
    (tenths(after) > tenths(before)).then_some(tenths(after) as u64)
}

impl Bar {
    fn begin(&self, what: &str, total: u64, template: &str) {
        let style = ProgressStyle::with_template(template)
            .expect("the template is a constant that indicatif reads")
            .progress_chars("=> ");
        let bar = ProgressBar::new(total).with_style(style).with_message(what.to_owned());
        if bar.is_hidden() {
            eprintln!("{what}: {total}");
        }
        self.with(|state| *state = Some(State { bar, what: what.to_owned(), total, done: AtomicU64::new(0) }));
    }

    fn with(&self, act: impl FnOnce(&mut Option<State>)) {
        // A poisoned lock means that a worker thread panicked; the displayed state is still valid.
        act(&mut self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

impl ProgressReporter for Bar {
    fn start(&self, what: &str, total: u64) {
        self.begin(what, total, "{msg} [{bar:30}] {pos}/{len} {elapsed} (left {eta})");
    }

    fn start_bytes(&self, what: &str, total: u64) {
        let template = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {elapsed} (left {eta})";
        self.begin(what, total, template);
    }

    fn resume(&self, steps: u64) {
        self.advance(steps);
        // The remaining time is estimated from the speed of this run.
        self.with(|state| state.iter().for_each(|state| state.bar.reset_eta()));
    }

    fn advance(&self, steps: u64) {
        self.with(|state| {
            let Some(State { bar, what, total, done }) = state else { return };
            bar.inc(steps);
            let before = done.fetch_add(steps, Ordering::Relaxed);
            if bar.is_hidden()
                && let Some(tenth) = tenth(before, before + steps, *total)
            {
                eprintln!("{what}: {}%", tenth * 10);
            }
        });
    }

    fn finish(&self) {
        self.with(|state| {
            if let Some(state) = state.take() {
                state.bar.finish_and_clear();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tenth_is_told_once() {
        let told: Vec<u64> = (0..37).filter_map(|done| tenth(done, done + 1, 37)).collect();
        assert_eq!(told, (1..=10).collect::<Vec<_>>());
        assert_eq!(tenth(0, 3, 3), Some(10));
        assert_eq!(tenth(0, 0, 0), None);
    }

    #[test]
    fn steps_without_a_start_are_nothing() {
        let bar = Bar::default();
        bar.advance(1);
        bar.finish();
        bar.start("Work", 2);
        bar.advance(2);
        bar.finish();
        bar.start_bytes("Reading", 10);
        bar.resume(4);
        bar.advance(6);
        bar.finish();
    }
}
