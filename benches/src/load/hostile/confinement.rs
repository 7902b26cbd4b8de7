//! The limits of the packaged unit for a server that is measured, as far as this machine lets a process have them: files by `prlimit`,
//! memory and tasks by a control group, where this process may make one. What cannot be had is told, and never passed over.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use support::stage::TestResult;
use support::workspace;

/// The unit whose limits count.
const UNIT: &str = "packaging/server/undertone-server.service";
/// Where mounts and the control groups of this process stand.
const MOUNTS: &str = "/proc/self/mounts";
const GROUPS: &str = "/proc/self/cgroup";
/// Becomes the command after `--`, in the groups before it.
const ENTER: &str = r#"while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@""#;
/// Times that a group is removed, whose last process may still be ending.
const REMOVALS: usize = 20;
/// Pause between two of them.
const PAUSE: Duration = Duration::from_millis(50);

/// The limits of the packaged unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnitLimits {
    files: u64,
    tasks: u64,
    memory: u64,
}

impl UnitLimits {
    /// Reads them from the unit.
    ///
    /// # Errors
    /// When the unit sets one of them in no way that is known here.
    pub(super) fn read() -> TestResult<Self> {
        Self::parse(&fs::read_to_string(workspace::root().join(UNIT))?)
    }

    fn parse(unit: &str) -> TestResult<Self> {
        let number = |key: &str| -> TestResult<u64> {
            let line = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            line.and_then(parse_number).ok_or_else(|| format!("{UNIT} sets no {key} that is a number").into())
        };
        Ok(Self { files: number("LimitNOFILE")?, tasks: number("TasksMax")?, memory: number("MemoryMax")? })
    }
}

/// Returns a number of systemd, with the letter of its power of 1,024.
fn parse_number(text: &str) -> Option<u64> {
    let text = text.trim();
    let power = text.chars().last().and_then(|letter| "KMGT".find(letter));
    let digits = text.trim_end_matches(['K', 'M', 'G', 'T']);
    digits.parse::<u64>().ok()?.checked_mul(1 << (10 * power.map_or(0, |power| power + 1)))
}

/// The limits under which the server is started. Dropped after the server, it removes what it made.
#[derive(Debug)]
pub(super) struct ServerConfinement {
    asked: UnitLimits,
    files: u64,
    groups: Vec<PathBuf>,
    /// Why there is no control group.
    refusal: Option<String>,
}

impl ServerConfinement {
    /// Makes what the machine allows.
    ///
    /// # Errors
    /// When the unit cannot be read, or there is no `prlimit`.
    pub(super) fn new() -> TestResult<Self> {
        let limits = UnitLimits::read()?;
        let mut confinement = Self { asked: limits, files: limits.files, groups: Vec::new(), refusal: None };
        if !confinement.works() {
            confinement.files = most_files().map_or(limits.files, |most| most.min(limits.files));
            if !confinement.works() {
                return Err("`prlimit` limits no files here: install util-linux".into());
            }
        }
        match make_groups(limits) {
            Ok(groups) => {
                confinement.groups = groups;
                if !confinement.works() {
                    confinement.refusal = Some("a process may not enter a control group".to_owned());
                    confinement.remove_groups();
                }
            }
            Err(refusal) => confinement.refusal = Some(refusal.to_string()),
        }
        Ok(confinement)
    }

    /// Returns the command that becomes a program within the limits.
    pub(super) fn wrapper(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = ["sh", "-c", ENTER, "sh"].map(OsString::from).to_vec();
        words.extend(self.groups.iter().map(|group| group.clone().into_os_string()));
        words.extend(["--".into(), "prlimit".into(), format!("--nofile={0}:{0}", self.files).into()]);
        words
    }

    /// Returns what is in force for a process that was started by the wrapper, beside what the unit asks for.
    pub(super) fn figures(&self, process: u32) -> Value {
        let is_in_group = self.refusal.is_none();
        json!({
            "files": { "unit": self.asked.files, "in_force": open_files_of(process) },
            "memory_mib": { "unit": self.asked.memory >> 20, "in_force": is_in_group.then_some(self.asked.memory >> 20) },
            "tasks": { "unit": self.asked.tasks, "in_force": is_in_group.then_some(self.asked.tasks) },
            "without_control_group_because": self.refusal,
        })
    }

    /// Returns whether a program can be started within the limits.
    fn works(&self) -> bool {
        let words = self.wrapper();
        let [first, rest @ ..] = &*words else { return false };
        let status = Command::new(first).args(rest).arg("true").stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    fn remove_groups(&mut self) {
        for group in self.groups.drain(..) {
            for _ in 0..REMOVALS {
                if fs::remove_dir(&group).is_ok() {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}

impl Drop for ServerConfinement {
    fn drop(&mut self) {
        self.remove_groups();
    }
}

/// Returns the most files that this process may allow another.
fn most_files() -> Option<u64> {
    open_files(&fs::read_to_string("/proc/self/limits").ok()?)?.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the most files that a process may have open now.
fn open_files_of(process: u32) -> Option<u64> {
    open_files(&fs::read_to_string(format!("/proc/{process}/limits")).ok()?)?.split_whitespace().next()?.parse().ok()
}

fn open_files(limits: &str) -> Option<&str> {
    limits.lines().find_map(|line| line.strip_prefix("Max open files"))
}

/// Makes a control group with the unit's memory and tasks: one of version 2, or one for each controller of version 1.
fn make_groups(limits: UnitLimits) -> TestResult<Vec<PathBuf>> {
    let (mounts, own) = (fs::read_to_string(MOUNTS)?, fs::read_to_string(GROUPS)?);
    let name = format!("undertone-hostile-{}", std::process::id());
    let memory = ("memory.max", "memory.limit_in_bytes", limits.memory);
    let tasks = ("pids.max", "pids.max", limits.tasks);
    if let Some(parents) = unified(&mounts, &own) {
        for parent in parents {
            if let Some(group) = make_group(&parent.join(&name), &[(memory.0, memory.2), (tasks.0, tasks.2)]) {
                return Ok(vec![group]);
            }
        }
    }
    let mut groups = Vec::new();
    for (controller, file, value) in [("memory", memory.1, memory.2), ("pids", tasks.1, tasks.2)] {
        let parent = controlled(&mounts, &own, controller);
        let Some(group) = parent.and_then(|parent| make_group(&parent.join(&name), &[(file, value)])) else {
            for group in &groups {
                let _ = fs::remove_dir(group);
            }
            return Err(
                format!("no control group can be made for {controller}: its mount is missing or read-only").into()
            );
        };
        groups.push(group);
    }
    Ok(groups)
}

/// Makes a group with these limits, or nothing.
fn make_group(folder: &Path, limits: &[(&str, u64)]) -> Option<PathBuf> {
    fs::create_dir(folder).ok()?;
    // A file that is not there belongs to a controller that is not enabled here; none may be made.
    let is_limited = limits.iter().all(|(file, value)| {
        let file = folder.join(file);
        file.exists() && fs::write(file, value.to_string()).is_ok()
    });
    if is_limited {
        return Some(folder.to_owned());
    }
    let _ = fs::remove_dir(folder);
    None
}

/// Returns the groups of version 2 in which one may be made: that of this process, and those above it.
fn unified(mounts: &str, own: &str) -> Option<Vec<PathBuf>> {
    let root = mount(mounts, "cgroup2", None)?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let group = root.join(path);
    Some(group.ancestors().take_while(|ancestor| ancestor.starts_with(&root)).map(Path::to_owned).collect())
}

/// Returns the group of this process for a controller of version 1.
fn controlled(mounts: &str, own: &str, controller: &str) -> Option<PathBuf> {
    let root = mount(mounts, "cgroup", Some(controller))?;
    let path = own.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(":/")?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    })?;
    Some(root.join(path))
}

/// Returns where a file system of this kind is mounted, with this option.
fn mount(mounts: &str, kind: &str, option: Option<&str>) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let folder = words.next()?;
        let is_kind = words.next()? == kind;
        let mut options = words.next()?.split(',');
        (is_kind && option.is_none_or(|option| options.any(|word| word == option))).then(|| PathBuf::from(folder))
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{UnitLimits, controlled, parse_number, unified};

    const MOUNTS: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    const OWN: &str = "4:memory:/one\n2:cpu,cpuacct:/\n0::/slice/session\n";

    #[test]
    fn unit_has_limits_of_files_tasks_and_memory() {
        let limits = UnitLimits::read().expect("the packaged unit");
        assert!(limits.files >= 1024 && limits.tasks >= 64 && limits.memory >= 1 << 30, "{limits:?}");
        assert!(UnitLimits::parse("LimitNOFILE=1024\nTasksMax=1\nMemoryMax=infinity").is_err());
    }

    #[test]
    fn numbers_of_systemd_have_letters() {
        assert_eq!(["7", "2K", "4G"].map(parse_number), [Some(7), Some(2048), Some(4 << 30)]);
        assert_eq!(["", "G", "infinity"].map(parse_number), [None; 3]);
    }

    #[test]
    fn groups_are_found_by_mounts_and_membership() {
        assert_eq!(controlled(MOUNTS, OWN, "memory"), Some(PathBuf::from("/sys/fs/cgroup/memory/one")));
        assert_eq!(controlled(MOUNTS, OWN, "pids"), None);
        let parents = ["slice/session", "slice", ""].map(|path| PathBuf::from("/sys/fs/cgroup/unified").join(path));
        assert_eq!(unified(MOUNTS, OWN), Some(parents.to_vec()));
    }
}
