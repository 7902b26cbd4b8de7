//! A watchdog for the input being processed, which reports an input that never ends. And the process's peak memory.

use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

use crate::HANGING;

/// The number of printed bytes of an input.
const SHOWN: usize = 4096;

/// A message to the watchdog.
enum WatchMessage {
    Begins(Vec<u8>),
    Ends,
}

/// Ends the process when an input does not end.
pub(crate) struct InputWatchdog(Sender<WatchMessage>);

impl InputWatchdog {
    /// Watches the target with this name, until it is dropped.
    pub(crate) fn start(name: &'static str) -> Self {
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let mut under_way: Option<Vec<u8>> = None;
            loop {
                match told.recv_timeout(HANGING) {
                    Ok(WatchMessage::Begins(input)) => under_way = Some(input),
                    Ok(WatchMessage::Ends) => under_way = None,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        if let Some(input) = &under_way {
                            // Bypasses the capture of a test's output, which would be lost with the process.
                            let _ = writeln!(std::io::stderr(), "{name} hangs: {}", format_input(input));
                            std::process::abort();
                        }
                    }
                }
            }
        });
        Self(tell)
    }

    pub(crate) fn begin(&self, input: &[u8]) {
        let _ = self.0.send(WatchMessage::Begins(input.to_vec()));
    }

    pub(crate) fn end(&self) {
        let _ = self.0.send(WatchMessage::Ends);
    }
}

/// Formats an input for use in a test: a byte string, cut after its first 4 KiB.
pub(crate) fn format_input(input: &[u8]) -> String {
    let head = &input[..input.len().min(SHOWN)];
    let rest = if input.len() > SHOWN { "..." } else { "" };
    format!("b\"{}\"{rest}", head.escape_ascii())
}

/// Returns the peak memory of this process, MiB; 0 where the system does not report it.
pub(crate) fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

#[cfg(test)]
mod tests {
    use super::{SHOWN, format_input, peak_memory};

    #[test]
    fn an_input_is_shown_as_it_can_be_pasted_and_not_without_end() {
        assert_eq!(format_input(b"a\"\0\xff"), r#"b"a\"\x00\xff""#);
        assert_eq!(format_input(&[b'a'; 2 * SHOWN]).len(), SHOWN + 6);
    }

    #[test]
    fn the_memory_of_a_process_is_more_than_nothing() {
        assert!(!cfg!(target_os = "linux") || peak_memory() > 0);
    }
}
