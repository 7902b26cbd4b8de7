//! How the process keeps memory: the engine's big buffers come and go with every round.

/// Tells the allocator to keep freed blocks of any size instead of giving them back to the system: otherwise each round maps,
/// faults in and unmaps hundreds of megabytes. To be called first in `main`, before there are threads; does nothing where
/// the allocator is not glibc's.
pub fn keep_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "glibc has no other way to be told")]
    // SAFETY: `mallopt` takes two integers and only changes the allocator's own thresholds; it is safe before other
    // threads allocate, and glibc ignores what it does not know.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}
