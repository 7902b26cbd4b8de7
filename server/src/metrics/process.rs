//! What the operating system says of this process. Elsewhere than on Linux it says nothing.

/// What the process uses.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Usage {
    /// Bytes of memory that are resident.
    pub(super) resident: u64,
    /// Seconds of processors, in it and in the system for it.
    pub(super) processor: f64,
    /// Open files and sockets.
    pub(super) open_files: u64,
    /// Threads.
    pub(super) threads: u64,
}

impl Usage {
    /// Now.
    pub(super) fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let open_files = std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64);
        let resident = field(&status, "VmRSS:") * 1024;
        Self { resident, processor: processor(&stat), open_files, threads: field(&status, "Threads:") }
    }
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// Fields 14 and 15 of `stat` (proc(5)), in hundredths of a second whatever the kernel's own tick is.
fn processor(stat: &str) -> f64 {
    // The program's name may hold anything, blanks included, and ends with the last parenthesis.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
