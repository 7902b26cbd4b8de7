//! Restrictions that the kernel enforces on a program: files and connections by Landlock
//! (<https://docs.kernel.org/userspace-api/landlock.html>), sockets by a filter of system calls, because Landlock
//! covers TCP only.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope, path_beneath_rules,
};

use super::files::FileAccess;

/// The newest rules that are requested; an older kernel enforces those that it supports.
const RULES: ABI = ABI::V6;

/// Remedy for a kernel that lacks a restriction.
const NEWER_KERNEL: &str =
    "start the worker on a kernel that has it: engines and recognizers run with less around them";
/// Restrictions that a kernel may lack, with the ABI version that introduced them.
const WALLS: [(ABI, &str); 3] = [
    (ABI::V1, "programs are not kept from the site's files: the kernel has no Landlock (5.13, `lsm=landlock`)"),
    (
        ABI::V4,
        "programs are not kept from TCP by Landlock, but by the filter of system calls alone: the kernel is older than 6.7",
    ),
    (ABI::V6, "programs may send signals to the worker: the kernel is older than 6.12"),
];
/// The missing restriction if a filter of system calls around the worker refuses Landlock, whatever the kernel supports.
const REFUSED_LANDLOCK: MissingWall = MissingWall {
    problem: "programs are not kept from the site's files: the filter of system calls around the worker refuses Landlock",
    remedy: "allow its calls: in a unit of systemd, `SystemCallFilter=landlock_create_ruleset landlock_add_rule \
             landlock_restrict_self`; in a container, by its seccomp profile",
};

/// A restriction that is not in force around programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingWall {
    /// The restriction, and the reason why it is missing.
    pub problem: &'static str,
    /// The change that brings it.
    pub remedy: &'static str,
}

/// Landlock as this process finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LandlockState {
    /// The kernel has it.
    Available,
    /// The kernel was built or booted without it.
    Unsupported,
    /// A filter of system calls refuses the call before the kernel sees it.
    Refused,
}

impl LandlockState {
    /// Returns the state that the error of a request for the ABI version stands for; `None` is success.
    fn from_errno(errno: Option<i32>) -> Self {
        match errno {
            None => Self::Available,
            // The two errors that landlock_create_ruleset(2) documents for a kernel without it.
            Some(libc::ENOSYS | libc::EOPNOTSUPP) => Self::Unsupported,
            Some(_) => Self::Refused,
        }
    }

    /// Asks the kernel. The crate `landlock` reads every error as a kernel without Landlock.
    pub(super) fn query() -> Self {
        const VERSION: libc::c_uint = 1;
        // SAFETY: for this flag the kernel requires a null pointer and reads no memory.
        #[expect(unsafe_code, reason = "the standard library has no such call")]
        let version = unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION)
        };
        let errno = (version < 0).then(|| io::Error::last_os_error().raw_os_error().unwrap_or_default());
        Self::from_errno(errno)
    }
}

/// Returns each restriction that is not in force, with its remedy.
pub fn missing_walls() -> Vec<MissingWall> {
    if LandlockState::query() == LandlockState::Refused {
        return vec![REFUSED_LANDLOCK];
    }
    let has = |abi: ABI| rules(abi, false, CompatLevel::HardRequirement).is_ok();
    let missing = WALLS.into_iter().filter(|(abi, _)| !has(*abi));
    missing.map(|(_, problem)| MissingWall { problem, remedy: NEWER_KERNEL }).collect()
}

fn rules(abi: ABI, network: bool, level: CompatLevel) -> Result<RulesetCreated, RulesetError> {
    let rules = Ruleset::default().set_compatibility(level).handle_access(AccessFs::from_all(abi))?;
    let rules = if network || abi < ABI::V4 { rules } else { rules.handle_access(AccessNet::from_all(abi))? };
    let rules = if abi < ABI::V6 { rules } else { rules.scope(Scope::from_all(abi))? };
    rules.create()
}

/// Restricts a program that is about to be started.
pub(super) fn raise(command: &mut Command, access: FileAccess, network: bool) -> io::Result<()> {
    let FileAccess { readable, writable } = access;
    let rules = rules(RULES, network, CompatLevel::BestEffort)
        .and_then(|rules| rules.add_rules(path_beneath_rules(readable, AccessFs::from_read(RULES))))
        .and_then(|rules| rules.add_rules(path_beneath_rules(writable, AccessFs::from_all(RULES))))
        .map_err(io::Error::other)?;
    let mut rules = Some(rules);
    let parent = std::process::id();
    let behind = move || {
        end_with_parent(parent)?;
        if let Some(rules) = rules.take() {
            // Its own process, whose number is known only here.
            let own = PathFd::new("/proc/self").map_err(io::Error::other)?;
            let rules = rules.add_rule(PathBeneath::new(own, AccessFs::from_read(RULES))).map_err(io::Error::other)?;
            // Also sets `no_new_privs`, which a filter requires.
            rules.restrict_self().map_err(|_| io::Error::from(io::ErrorKind::PermissionDenied))?;
        }
        if network { Ok(()) } else { filter::refuse_sockets() }
    };
    // SAFETY: between fork and exec the closure makes system calls only, on memory that was made before.
    #[expect(unsafe_code, reason = "nothing else runs between fork and exec")]
    unsafe {
        command.pre_exec(behind);
    }
    Ok(())
}

/// Makes the kernel end this process when the thread that started it ends.
fn end_with_parent(parent: u32) -> io::Result<()> {
    // SAFETY: `prctl` reads no memory for this option; `getppid` has no arguments.
    #[expect(unsafe_code, reason = "the standard library has no such call")]
    let (set, now) = unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::getppid()) };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    // The worker may have ended before the call.
    if u32::try_from(now).is_ok_and(|now| now == parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
}

/// Returns the process group that a program leads.
pub(super) fn group_of(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap_or_default()
}

/// Ends a program and all processes of its group.
pub(super) fn kill_group(child: &Child) {
    kill(group_of(child));
}

pub(super) fn kill(group: i32) {
    // Groups 0 and 1 are this process's own group and every process.
    if group > 1 {
        // SAFETY: the call has no memory; a group that has ended is no error here.
        #[expect(unsafe_code, reason = "the standard library ends a process, not its group")]
        unsafe {
            libc::kill(-group, libc::SIGKILL);
        }
    }
}

/// A filter of system calls (seccomp, classic BPF) that rejects Internet, packet and raw-device sockets. It also
/// rejects io_uring, which creates sockets without the filtered call.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod filter {
    use std::io;

    use libc::{BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter, sock_fprog};

    /// AUDIT_ARCH_* of <linux/audit.h>.
    #[cfg(target_arch = "x86_64")]
    const ARCHITECTURE: u32 = 0xC000_003E;
    #[cfg(target_arch = "aarch64")]
    const ARCHITECTURE: u32 = 0xC000_00B7;
    /// System call numbers from here on belong to x32, an ABI that programs no longer use.
    const X32: u32 = 0x4000_0000;
    /// Offsets in `struct seccomp_data`: number, architecture, low half of the first argument.
    const NUMBER: u32 = 0;
    const OF_ARCHITECTURE: u32 = 4;
    const FAMILY: u32 = 16;
    const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EACCES as u32;

    const fn statement(code: u32, k: u32) -> sock_filter {
        sock_filter { code: code as u16, jt: 0, jf: 0, k }
    }

    const fn jump(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
        sock_filter { code: code as u16, jt, jf, k }
    }

    const LOAD: u32 = BPF_LD | BPF_W | BPF_ABS;
    const EQUALS: u32 = BPF_JMP | BPF_JEQ | BPF_K;
    const AT_LEAST: u32 = BPF_JMP | BPF_JGE | BPF_K;

    /// Jump targets count the statements between; the last two statements return "refused" and "allowed".
    static PROGRAM: [sock_filter; 11] = [
        statement(LOAD, OF_ARCHITECTURE),
        jump(EQUALS, ARCHITECTURE, 0, 7),
        statement(LOAD, NUMBER),
        jump(AT_LEAST, X32, 5, 0),
        jump(EQUALS, libc::SYS_io_uring_setup as u32, 4, 0),
        jump(EQUALS, libc::SYS_socket as u32, 0, 4),
        statement(LOAD, FAMILY),
        // AF_UNIX is allowed: its reach is that of the file system.
        jump(EQUALS, libc::AF_UNIX as u32, 2, 0),
        jump(EQUALS, libc::AF_NETLINK as u32, 1, 0),
        statement(BPF_RET | BPF_K, REFUSED),
        statement(BPF_RET | BPF_K, libc::SECCOMP_RET_ALLOW),
    ];

    pub(super) fn refuse_sockets() -> io::Result<()> {
        let program = sock_fprog { len: PROGRAM.len() as u16, filter: PROGRAM.as_ptr().cast_mut() };
        // SAFETY: the kernel copies the program, which is never written.
        #[expect(unsafe_code, reason = "the standard library has no such call")]
        let set = unsafe {
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 {
                libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
            } else {
                -1
            }
        };
        if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod filter {
    /// On other processors, only Landlock restricts TCP.
    pub(super) const fn refuse_sockets() -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{LandlockState, REFUSED_LANDLOCK, missing_walls};

    #[test]
    fn refused_call_is_no_kernel_without_landlock() {
        assert_eq!(LandlockState::from_errno(None), LandlockState::Available);
        for errno in [libc::ENOSYS, libc::EOPNOTSUPP] {
            assert_eq!(LandlockState::from_errno(Some(errno)), LandlockState::Unsupported);
        }
        for errno in [libc::EPERM, libc::EACCES] {
            assert_eq!(LandlockState::from_errno(Some(errno)), LandlockState::Refused);
        }
    }

    #[test]
    fn refused_landlock_is_reported_with_the_calls_to_allow() {
        let is_refused = LandlockState::query() == LandlockState::Refused;
        assert_eq!(missing_walls().contains(&REFUSED_LANDLOCK), is_refused);
        for call in ["landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"] {
            assert!(REFUSED_LANDLOCK.remedy.contains(call), "{call}");
        }
    }
}
