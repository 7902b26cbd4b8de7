//! The process's memory settings: the engine allocates and frees big buffers in every round.

/// Makes the allocator keep freed blocks of any size instead of returning them to the system: otherwise each round
/// maps, faults in and unmaps hundreds of megabytes. Call it first in `main`, before any thread; it does nothing with
/// an allocator other than glibc's.
pub fn keep_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "glibc offers no other interface for this")]
    // SAFETY: `mallopt` takes two integers and only changes the allocator's own thresholds. It is safe before other
    // threads allocate, and glibc ignores unknown parameters.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}
