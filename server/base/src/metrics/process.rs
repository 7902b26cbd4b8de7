//! The operating system's figures of this process; all are zero on systems other than Linux.

/// The resources of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ProcessUsage {
    /// Bytes of resident memory.
    pub(super) resident: u64,
    /// Processor time of the process, in user and kernel mode, seconds.
    pub(super) processor: f64,
    /// Open files and sockets.
    pub(super) open_files: u64,
    /// Threads.
    pub(super) threads: u64,
}

impl ProcessUsage {
    /// Reads the current figures.
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

/// Returns the sum of fields 14 and 15 of `stat` (proc(5)), which are in hundredths of a second for any tick rate of
/// the kernel.
fn processor(stat: &str) -> f64 {
    // The program's name may contain any character, including blanks, and ends with the last parenthesis.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
