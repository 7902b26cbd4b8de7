//! The output of a measurement: one JSON object for each line, each with the measurement's name.

use std::{
    error::Error,
    fs,
    io::{self, Write},
    thread,
};

use serde_json::{Value, json};

/// The result of a measurement.
pub(crate) type Outcome = Result<(), Box<dyn Error>>;

/// The output of a measurement.
pub(crate) struct Report {
    bench: &'static str,
}

impl Report {
    pub(crate) fn new(bench: &'static str) -> Self {
        Self { bench }
    }

    /// Prints `figures`, a JSON object, as one line that starts with the measurement's name. The line is flushed, so
    /// that a long measurement can be followed and the lines of an interrupted one are not lost.
    ///
    /// # Errors
    /// If the output is closed.
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

    /// Prints a description of the machine.
    ///
    /// # Errors
    /// If the output is closed.
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

/// Returns the first value of `name` in one of the system's `name : value` files, or an empty string.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let (_, value) = text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name)?;
    Some(value.trim().to_owned())
}
