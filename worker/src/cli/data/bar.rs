//! A progress bar on a terminal; elsewhere a line at every tenth.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use crate::speech::progress::ProgressReporter;

/// Reports progress on standard error.
#[derive(Debug, Default)]
pub(super) struct TerminalProgress {
    state: Mutex<Option<ProgressState>>,
}

#[derive(Debug)]
struct ProgressState {
    bar: ProgressBar,
    label: String,
    total: u64,
    done: AtomicU64,
}

/// Returns the tenth that the step from `before` to `after` of `total` completed, if any.
fn completed_tenth(before: u64, after: u64, total: u64) -> Option<u64> {
    let tenths = |done: u64| if total == 0 { 10 } else { u128::from(done) * 10 / u128::from(total) };
    (tenths(after) > tenths(before)).then_some(tenths(after) as u64)
}

impl TerminalProgress {
    fn begin(&self, label: &str, total: u64, template: &str) {
        let style = ProgressStyle::with_template(template)
            .expect("the template is a constant that indicatif reads")
            .progress_chars("=> ");
        let bar = ProgressBar::new(total).with_style(style).with_message(label.to_owned());
        if bar.is_hidden() {
            eprintln!("{label}: {total}");
        }
        let state = ProgressState { bar, label: label.to_owned(), total, done: AtomicU64::new(0) };
        self.with_state(|current| *current = Some(state));
    }

    fn with_state(&self, act: impl FnOnce(&mut Option<ProgressState>)) {
        // A poisoned lock means that a worker thread panicked; the displayed state is still valid.
        act(&mut self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

impl ProgressReporter for TerminalProgress {
    fn start(&self, label: &str, total: u64) {
        self.begin(label, total, "{msg} [{bar:30}] {pos}/{len} {elapsed} (left {eta})");
    }

    fn start_bytes(&self, label: &str, total: u64) {
        let template = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {elapsed} (left {eta})";
        self.begin(label, total, template);
    }

    fn resume(&self, steps: u64) {
        self.advance(steps);
        // The remaining time is estimated from the speed of this run.
        self.with_state(|state| state.iter().for_each(|state| state.bar.reset_eta()));
    }

    fn advance(&self, steps: u64) {
        self.with_state(|state| {
            let Some(ProgressState { bar, label, total, done }) = state else { return };
            bar.inc(steps);
            let before = done.fetch_add(steps, Ordering::Relaxed);
            if bar.is_hidden()
                && let Some(tenth) = completed_tenth(before, before + steps, *total)
            {
                eprintln!("{label}: {}%", tenth * 10);
            }
        });
    }

    fn finish(&self) {
        self.with_state(|state| {
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
    fn each_tenth_is_reported_once() {
        let tenths: Vec<u64> = (0..37).filter_map(|done| completed_tenth(done, done + 1, 37)).collect();
        assert_eq!(tenths, (1..=10).collect::<Vec<_>>());
        assert_eq!(completed_tenth(0, 3, 3), Some(10));
        assert_eq!(completed_tenth(0, 0, 0), None);
    }

    #[test]
    fn steps_without_a_start_are_ignored() {
        let bar = TerminalProgress::default();
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
