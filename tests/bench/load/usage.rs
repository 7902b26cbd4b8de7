//! What processes need of the machine, by the files of `/proc`.

use std::fs;
use std::thread;

use serde_json::{Value, json};
use support::stage::Staged;

/// Ticks in a second, as Linux shows them to every program.
const TICKS: f64 = 100.0;
/// Where processor time in user mode stands in `/proc/PID/stat`, counted from behind the program's name; that in the kernel follows.
const USER: usize = 11;

/// Memory of a process, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    /// Most that was ever resident.
    most: u64,
    /// Resident now.
    now: u64,
}

impl Memory {
    /// Of a running process.
    ///
    /// # Errors
    /// When it is gone, or the system does not say.
    pub(super) fn of(process: u32) -> Staged<Self> {
        let text = fs::read_to_string(format!("/proc/{process}/status"))?;
        Ok(Self { most: kilobytes(&text, "VmHWM:")? * 1024, now: kilobytes(&text, "VmRSS:")? * 1024 })
    }

    /// Resident now, in MiB.
    pub(super) const fn resident_mib(&self) -> u64 {
        self.now >> 20
    }

    pub(super) fn figures(&self) -> Value {
        json!({ "highest_resident_bytes": self.most, "resident_bytes": self.now })
    }
}

fn kilobytes(text: &str, name: &str) -> Staged<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()).ok_or_else(|| format!("no {name} in status"))?;
    Ok(number.parse()?)
}

/// Seconds of processors that were used until a moment.
#[derive(Debug, Clone)]
pub(super) struct Processors {
    servers: Vec<f64>,
    generator: f64,
}

impl Processors {
    /// By the servers with these processes, and by this one.
    ///
    /// # Errors
    /// When one is gone, or the system does not say.
    pub(super) fn now(servers: &[u32]) -> Staged<Self> {
        let servers = servers.iter().map(|process| seconds(&process.to_string())).collect::<Staged<Vec<_>>>()?;
        Ok(Self { servers, generator: seconds("self")? })
    }

    /// Used since an earlier moment.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let servers = self.servers.iter().zip(&earlier.servers).map(|(now, then)| now - then).collect();
        Self { servers, generator: self.generator - earlier.generator }
    }

    /// As shares of all processors of the machine, within so many seconds. What a database of its own used is in neither.
    pub(super) fn figures(&self, within: f64) -> Value {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let whole = within * cores as f64;
        json!({
            "cores": cores, "server_seconds": self.servers, "generator_seconds": self.generator,
            "servers_share": self.servers.iter().sum::<f64>() / whole, "generator_share": self.generator / whole,
        })
    }
}

fn seconds(process: &str) -> Staged<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The program's name stands in brackets and may hold anything.
    let (_, rest) = text.rsplit_once(')').ok_or("no name in stat")?;
    let ticks: Vec<u64> =
        rest.split_whitespace().skip(USER).take(2).map(str::parse::<u64>).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<u64>() as f64 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::{Memory, Processors};

    #[test]
    fn a_process_has_memory_and_its_time_does_not_go_backwards() {
        let own = std::process::id();
        let memory = Memory::of(own).expect("this process runs");
        assert!(memory.most >= memory.now && memory.now > 0, "{memory:?}");
        let before = Processors::now(&[own]).expect("this process runs");
        let spent = Processors::now(&[own]).expect("this process runs").since(&before);
        assert!(spent.generator >= 0.0 && spent.servers.len() == 1, "{spent:?}");
        assert!(Memory::of(u32::MAX).is_err() && Processors::now(&[u32::MAX]).is_err(), "nobody has this number");
    }
}
