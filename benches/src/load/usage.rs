//! Resources used by processes, from the files of `/proc`.

use std::fs;
use std::thread;

use serde_json::{Value, json};
use support::stage::TestResult;

/// The clock ticks per second, as Linux reports them to every program.
const TICKS: f64 = 100.0;
/// The position of the processor time in user mode in `/proc/PID/stat`, counted from the field after the program's
/// name; kernel time follows.
const USER: usize = 11;

/// The memory of a process, bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessMemory {
    /// The peak resident size.
    most: u64,
    /// The present resident size.
    now: u64,
}

impl ProcessMemory {
    /// Reads the memory of a running process.
    ///
    /// # Errors
    /// When it has ended, or the system does not report it.
    pub(super) fn read(process: u32) -> TestResult<Self> {
        let text = fs::read_to_string(format!("/proc/{process}/status"))?;
        Ok(Self { most: kilobytes(&text, "VmHWM:")? * 1024, now: kilobytes(&text, "VmRSS:")? * 1024 })
    }

    /// Returns the present resident size, MiB.
    pub(super) const fn resident_mib(&self) -> u64 {
        self.now >> 20
    }

    pub(super) fn figures(&self) -> Value {
        json!({ "highest_resident_bytes": self.most, "resident_bytes": self.now })
    }
}

fn kilobytes(text: &str, name: &str) -> TestResult<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()).ok_or_else(|| format!("no {name} in status"))?;
    Ok(number.parse()?)
}

/// Processor time used until a moment, seconds.
#[derive(Debug, Clone)]
pub(super) struct ProcessorTime {
    servers: Vec<f64>,
    generator: f64,
}

impl ProcessorTime {
    /// Reads the processor time of these servers, and of this process.
    ///
    /// # Errors
    /// When one has ended, or the system does not report it.
    pub(super) fn now(servers: &[u32]) -> TestResult<Self> {
        let servers = servers.iter().map(|process| seconds(&process.to_string())).collect::<TestResult<Vec<_>>>()?;
        Ok(Self { servers, generator: seconds("self")? })
    }

    /// Returns the time used since an earlier moment.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let servers = self.servers.iter().zip(&earlier.servers).map(|(now, then)| now - then).collect();
        Self { servers, generator: self.generator - earlier.generator }
    }

    /// Returns the shares of all processors of the machine, within so many seconds. A separate database process is in
    /// neither share.
    pub(super) fn figures(&self, within: f64) -> Value {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let whole = within * cores as f64;
        json!({
            "cores": cores, "server_seconds": self.servers, "generator_seconds": self.generator,
            "servers_share": self.servers.iter().sum::<f64>() / whole, "generator_share": self.generator / whole,
        })
    }
}

fn seconds(process: &str) -> TestResult<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The program's name is in parentheses and may contain any character.
    let (_, rest) = text.rsplit_once(')').ok_or("no name in stat")?;
    let ticks: Vec<u64> =
        rest.split_whitespace().skip(USER).take(2).map(str::parse::<u64>).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<u64>() as f64 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::{ProcessMemory, ProcessorTime};

    #[test]
    fn a_process_has_memory_and_its_time_does_not_go_backwards() {
        let own = std::process::id();
        let memory = ProcessMemory::read(own).expect("this process runs");
        assert!(memory.most >= memory.now && memory.now > 0, "{memory:?}");
        let before = ProcessorTime::now(&[own]).expect("this process runs");
        let spent = ProcessorTime::now(&[own]).expect("this process runs").since(&before);
        assert!(spent.generator >= 0.0 && spent.servers.len() == 1, "{spent:?}");
        assert!(
            ProcessMemory::read(u32::MAX).is_err() && ProcessorTime::now(&[u32::MAX]).is_err(),
            "nobody has this number"
        );
    }
}
