//! What a measurement prints: one JSON object a line, each naming its measurement.

use std::{
    error::Error,
    fs,
    io::{self, Write},
    thread,
};

use serde_json::{Value, json};

/// How a measurement ends.
pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// Where a measurement writes its figures.
pub(crate) struct Report {
    bench: &'static str,
}

impl Report {
    pub(crate) fn new(bench: &'static str) -> Self {
        Self { bench }
    }

    /// Prints `figures`, a JSON object, as one line that starts with the measurement's name; at once, so that a long
    /// measurement can be watched and an interrupted one is not lost.
    ///
    /// # Errors
    /// If nobody reads.
    pub(crate) fn line(&mut self, figures: Value) -> Outcome {
        let mut line = json!({ "bench": self.bench });
        match (line.as_object_mut(), figures) {
            (Some(line), Value::Object(figures)) => line.extend(figures),
            (_, other) => return Err(format!("figures are a JSON object, not {other}").into()),
        }
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{line}")?;
        Ok(stdout.flush()?)
    }

    /// Prints what the figures were measured on.
    ///
    /// # Errors
    /// If nobody reads.
    pub(crate) fn machine(&mut self) -> Outcome {
        let cores = thread::available_parallelism().map_or(0, usize::from);
        self.line(json!({ "machine": {
            "cpu": field("/proc/cpuinfo", "model name"),
            "cores": cores,
            "memory": field("/proc/meminfo", "MemTotal"),
            "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        }}))
    }
}

/// The first value of `name` in one of the system's `name : value` files, or nothing.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let (_, value) = text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name)?;
    Some(value.trim().to_owned())
}
