//! The files that a program may read and write.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::confinement::ProgramConfinement;
use undertone_worker_site::clock;

/// Folders of programs, libraries and their system files. `/etc` is not included as a whole, because services store
/// passwords there.
const SYSTEM: [&str; 8] = ["/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/sys"];
/// Entries below `/proc` that programs may read, besides their own process. Other processes are excluded: their
/// environment may contain keys.
const PROCESSES: [&str; 9] =
    ["cpuinfo", "driver", "filesystems", "loadavg", "meminfo", "stat", "sys", "uptime", "version"];
/// Entries below `/etc` that programs may read.
const CONFIGURATION: [&str; 16] = [
    "alternatives",
    "fonts",
    "group",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ld.so.preload",
    "locale.alias",
    "locale.conf",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "passwd",
    "ssl/openssl.cnf",
    "timezone",
];
/// Devices that programs may read and write, besides those whose names begin with `nvidia`.
const DEVICES: [&str; 8] = ["null", "zero", "full", "random", "urandom", "shm", "dri", "kfd"];
/// Entries of the site's folder that no program can access, even if an argument names them.
const SITE: [&str; 8] =
    ["key", "key.next", "key-change.json", "ledger.db", "ledger.db-wal", "ledger.db-shm", "data", "transcripts"];
/// The search path if the environment has none.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The paths that a program may read, and those that it may write.
#[derive(Debug, Default)]
pub(super) struct FileAccess {
    pub(super) readable: Vec<PathBuf>,
    pub(super) writable: Vec<PathBuf>,
}

/// The arguments of a program, which may name files, and the paths that it may access besides.
#[derive(Debug, Default)]
pub(super) struct FileRequest {
    pub(super) arguments: Vec<OsString>,
    pub(super) readable: Vec<PathBuf>,
    pub(super) writable: Vec<PathBuf>,
}

/// Returns the search path of programs.
pub(super) fn search_path() -> OsString {
    std::env::var_os("PATH").filter(|path| !path.is_empty()).unwrap_or_else(|| PATH.into())
}

/// Returns the path of a program: `program` itself if it has a folder, otherwise the first match on the search path.
pub(super) fn find(program: &OsStr) -> io::Result<PathBuf> {
    let is_program =
        |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    let path = Path::new(program);
    let path = if path.components().count() > 1 {
        Some(std::path::absolute(path)?).filter(|path| path.exists())
    } else {
        std::env::split_paths(&search_path()).map(|folder| folder.join(path)).find(is_program)
    };
    path.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns the paths that a program may read and write.
pub(super) fn access(
    program: &Path,
    request: &FileRequest,
    confinement: &ProgramConfinement,
    scratch: &Path,
) -> FileAccess {
    let mut access = FileAccess::default();
    access.readable.extend(SYSTEM.map(PathBuf::from));
    access.readable.extend(CONFIGURATION.map(|name| Path::new("/etc").join(name)));
    access.readable.extend(PROCESSES.map(|name| Path::new("/proc").join(name)));
    let python = entries(Path::new("/etc"), |name| name.starts_with("python"));
    access.readable.extend(python);
    access.readable.extend(std::env::split_paths(&search_path()));
    access.readable.extend(confinement.programs.folders.iter().cloned());
    installed(program, &mut access.readable, true);
    // Excludes folders that contain the site's folder, which no program may access.
    access.readable.retain(|path| !holds_site(path, confinement));
    let arguments = request.arguments.iter().flat_map(|argument| argument_files(argument));
    for path in arguments.chain(request.readable.iter().cloned()) {
        access.readable.extend(explicit(&path, confinement));
    }
    access.writable.extend(DEVICES.map(|name| Path::new("/dev").join(name)));
    access.writable.extend(entries(Path::new("/dev"), |name| name.starts_with("nvidia")));
    access.writable.push(scratch.to_owned());
    let folders = confinement.programs.writable.iter().filter(|path| !holds_site(path, confinement));
    let paths = folders.chain(&request.writable).filter(|path| !is_kept(path, confinement));
    access.writable.extend(paths.cloned());
    // Landlock needs an existing path. Create the file first: a permission for its folder would cover all files there.
    access.writable.retain(|path| path.exists());
    access
}

fn entries(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let matches = entries.flatten().filter(|entry| wanted(&entry.file_name().to_string_lossy()));
    matches.map(|entry| entry.path()).collect()
}

/// Adds the folders in which a program is installed: the folder of each link to it, and, for a folder `bin`, its parent
/// with the libraries. Also adds those of the interpreter that a script names.
fn installed(program: &Path, folders: &mut Vec<PathBuf>, follows_script: bool) {
    let mut link = Some(program.to_owned());
    // The number of links that the kernel follows.
    for _ in 0..40 {
        let Some(path) = link.take() else { break };
        if let Some(folder) = path.parent() {
            let is_bin = folder.file_name() == Some(OsStr::new("bin"));
            folders.push(folder.parent().filter(|_| is_bin).unwrap_or(folder).to_owned());
        }
        link = fs::read_link(&path).ok().map(|target| path.parent().unwrap_or(Path::new("/")).join(target));
    }
    if let Ok(target) = program.canonicalize()
        && let Some(folder) = target.parent()
    {
        let is_bin = folder.file_name() == Some(OsStr::new("bin"));
        folders.push(folder.parent().filter(|_| is_bin).unwrap_or(folder).to_owned());
    }
    if let Some(interpreter) = interpreter(program).filter(|_| follows_script) {
        installed(&interpreter, folders, false);
    }
}

/// Returns the interpreter in the first line of a script.
fn interpreter(program: &Path) -> Option<PathBuf> {
    let mut first = Vec::new();
    fs::File::open(program).ok()?.take(256).read_to_end(&mut first).ok()?;
    let line = first.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let text = String::from_utf8_lossy(line).trim().to_owned();
    let mut words = text.split_whitespace();
    let path = PathBuf::from(words.next()?);
    if path.file_name() == Some(OsStr::new("env")) { find(OsStr::new(words.next()?)).ok() } else { Some(path) }
}

/// Returns the files and folders that an argument names: as a whole, or after `=`.
fn argument_files(argument: &OsStr) -> Vec<PathBuf> {
    let text = argument.to_string_lossy();
    let candidates = [Some(text.as_ref()), text.split_once('=').map(|(_, value)| value)];
    let existing = candidates.into_iter().flatten().filter(|text| text.contains('/') || text.contains('.'));
    existing.map(Path::new).filter(|path| path.exists()).filter_map(|path| std::path::absolute(path).ok()).collect()
}

/// Returns the readable path for an explicitly named path: a folder, a file with its siblings, or, in the site's folder
/// and in shared folders, the file alone.
fn explicit(path: &Path, confinement: &ProgramConfinement) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    if is_kept(&path, confinement) || holds_site(&path, confinement) {
        return None;
    }
    let in_site = confinement.site.as_ref().is_some_and(|site| path.starts_with(site));
    let Some(beside) = path.parent().filter(|_| path.is_file() && !in_site) else { return Some(path) };
    let is_shared = beside.components().count() <= 2
        || std::env::temp_dir().canonicalize().is_ok_and(|temporary| temporary == beside);
    if is_shared || holds_site(beside, confinement) { Some(path) } else { Some(beside.to_owned()) }
}

/// Returns true if a path is the site's folder or contains it.
fn holds_site(path: &Path, confinement: &ProgramConfinement) -> bool {
    let Some(site) = &confinement.site else { return false };
    path.canonicalize().is_ok_and(|path| site.starts_with(path))
}

/// Returns true if no program may access the path.
fn is_kept(path: &Path, confinement: &ProgramConfinement) -> bool {
    let Some(site) = &confinement.site else { return false };
    let Ok(path) = path.canonicalize() else { return false };
    let Ok(inside) = path.strip_prefix(site) else { return false };
    inside.components().next().is_none_or(|first| SITE.iter().any(|kept| first.as_os_str() == *kept))
}

/// A folder for the files of one program, removed with its content on drop.
#[derive(Debug)]
pub(super) struct ScratchFolder(PathBuf);

impl ScratchFolder {
    pub(super) fn make() -> io::Result<Self> {
        let name = hex::encode(clock::entropy::<16>()?);
        let path = std::env::temp_dir().join(format!("undertone-program-{name}"));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
