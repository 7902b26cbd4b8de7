//! The packages of a site and a server, as made by `make package`: their content, the hardening of the services, and
//! that no package manager ever removes a ledger. `.ci/boot.sh` tests both under a real systemd.

mod image;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::stage::TestResult;
use support::workspace;

/// The highest exposure that `systemd-analyze security` may report, in tenths.
const EXPOSURE: &str = "15";

/// Runs a command to its end and returns its output.
fn run_command(command: &mut Command) -> TestResult<String> {
    let Output { status, stdout, stderr } = command.output()?;
    let (out, error) = (String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr).into_owned());
    if status.success() { Ok(out + &error) } else { Err(format!("{command:?}: {status}\n{out}{error}").into()) }
}

/// Makes the package of the `worker`, the `server` or the `cli` from the program that the tests use.
fn package(name: &str, version: &str, out: &Path) -> TestResult<PathBuf> {
    let program = if name == "cli" { "undertone".to_owned() } else { format!("undertone-{name}") };
    let program = workspace::program(&program)?;
    let binaries = program.parent().ok_or("the program lies in a folder")?;
    let printed = run_command(
        Command::new(workspace::root().join(".ci/package.sh"))
            .arg("--out")
            .arg(out)
            .arg("--binaries")
            .arg(binaries)
            .args(["--compression", "none", "--version", version, name]),
    )?;
    let file = printed.lines().find(|line| line.rsplit('.').next() == Some("deb")).ok_or("no package was named")?;
    Ok(file.into())
}

/// An empty system for installation; scripts run outside of it.
struct EmptySystem(tempfile::TempDir);

impl EmptySystem {
    fn new() -> TestResult<Self> {
        let root = tempfile::tempdir()?;
        for folder in ["info", "updates", "triggers"] {
            fs::create_dir_all(root.path().join("var/lib/dpkg").join(folder))?;
        }
        fs::write(root.path().join("var/lib/dpkg/status"), "")?;
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755))?;
        Ok(Self(root))
    }

    fn path(&self, of: &str) -> PathBuf {
        self.0.path().join(of)
    }

    /// Runs dpkg on the root; its dependencies are those of this machine.
    fn dpkg(&self, arguments: &[&str]) -> TestResult<String> {
        let root = format!("--root={}", self.0.path().display());
        run_command(
            Command::new("dpkg")
                .args([root.as_str(), "--force-script-chrootless", "--force-depends", "--force-confold"])
                .args(arguments),
        )
    }

    /// Runs the worker's program as its own user, in its own folder.
    fn worker(&self, arguments: &[&str]) -> TestResult<String> {
        let site = fs::metadata(self.path("var/lib/undertone-worker"))?;
        run_command(
            Command::new("setpriv")
                .arg(format!("--reuid={}", site.uid()))
                .arg(format!("--regid={}", site.gid()))
                .args(["--clear-groups", "--no-new-privs"])
                .arg(self.path("usr/bin/undertone-worker"))
                .arg("--site")
                .arg(self.path("var/lib/undertone-worker"))
                .args(arguments),
        )
    }
}

/// Returns whether this process may install packages into a folder; otherwise prints a note.
fn may_install() -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    let may = is_root && ["dpkg-deb", "dpkg-shlibdeps", "systemd-sysusers", "setpriv"].into_iter().all(has);
    if !may {
        eprintln!("not root on Debian: installing the package is not tested");
    }
    may
}

#[test]
fn package_install_upgrade_and_purge_keep_the_ledger() -> TestResult<()> {
    if !may_install() {
        return Ok(());
    }
    let out = tempfile::tempdir()?;
    let root = EmptySystem::new()?;
    let old = package("worker", "0.1.0", out.path())?;
    root.dpkg(&["-i", &old.to_string_lossy()])?;
    let site = root.path("var/lib/undertone-worker");
    let folder = fs::metadata(&site)?;
    assert_eq!(folder.permissions().mode() & 0o777, 0o700);
    let user = fs::read_to_string(root.path("etc/passwd"))?;
    assert!(
        user.contains(&format!("undertone-worker:x:{}:{}:", folder.uid(), folder.gid())) && user.contains("nologin"),
        "{user}"
    );
    assert_ne!(folder.uid(), 0);
    let secrets = fs::metadata(root.path("etc/default/undertone-worker"))?;
    assert_eq!((secrets.permissions().mode() & 0o777, secrets.uid(), secrets.gid()), (0o640, 0, folder.gid()));
    assert!(root.worker(&["--version"])?.starts_with("undertone-worker "));
    let enabled = root.path("etc/systemd/system/multi-user.target.wants/undertone-worker.service");
    assert!(fs::symlink_metadata(&enabled).is_ok(), "it is enabled in an image too, where no systemd runs");

    // A site made as its user: a ledger, a policy, and its admin's settings for the service.
    let copy = backup(&root, out.path(), &folder)?;
    root.worker(&["restore", copy.as_str()])?;
    let ledger = root.worker(&["ledger", "verify"])?;
    fs::write(root.path("etc/default/undertone-worker"), "UNDERTONE_LOG=debug\n")?;
    let policy = fs::read(site.join("policy.toml"))?;

    let new = package("worker", "0.2.0", out.path())?;
    root.dpkg(&["-i", &new.to_string_lossy()])?;
    let installed = root.dpkg(&["-s", "undertone-worker"])?;
    assert!(installed.contains("Version: 0.2.0") && installed.contains("install ok installed"), "{installed}");
    assert_eq!(root.worker(&["ledger", "verify"])?, ledger);
    assert_eq!(fs::read(site.join("policy.toml"))?, policy);
    assert_eq!(fs::read_to_string(root.path("etc/default/undertone-worker"))?, "UNDERTONE_LOG=debug\n");

    let purged = root.dpkg(&["--purge", "undertone-worker"])?;
    assert!(purged.contains("is kept"), "{purged}");
    assert!(!root.path("usr/bin/undertone-worker").exists() && !root.path("etc/default/undertone-worker").exists());
    assert!(fs::symlink_metadata(&enabled).is_err(), "nothing of the package is left but the site");
    for file in ["ledger.db", "key", "policy.toml", "config.toml"] {
        assert!(site.join(file).exists(), "{file}");
    }
    // Installed once more, it is the same site.
    root.dpkg(&["-i", &new.to_string_lossy()])?;
    assert_eq!(root.worker(&["ledger", "verify"])?, ledger);
    Ok(())
}

#[test]
fn server_package_keeps_its_secrets_from_other_users() -> TestResult<()> {
    if !may_install() {
        return Ok(());
    }
    let out = tempfile::tempdir()?;
    let root = EmptySystem::new()?;
    let old = package("server", "0.1.0", out.path())?;
    root.dpkg(&["-i", &old.to_string_lossy()])?;
    let data = fs::metadata(root.path("var/lib/undertone-server"))?;
    assert_eq!(data.permissions().mode() & 0o777, 0o700);
    assert_ne!(data.uid(), 0, "the service has a user of its own");
    let secrets = root.path("etc/default/undertone-server");
    let access = || -> TestResult<(u32, u32, u32)> {
        let file = fs::metadata(&secrets)?;
        Ok((file.permissions().mode() & 0o777, file.uid(), file.gid()))
    };
    assert_eq!(access()?, (0o640, 0, data.gid()), "root writes it, and only the service's group reads it");
    let config = fs::metadata(root.path("etc/undertone/server.toml"))?;
    assert_eq!((config.permissions().mode() & 0o777, config.uid()), (0o644, 0), "it holds no secrets");

    // An upgrade closes a file that was opened meanwhile, and keeps its content.
    fs::write(&secrets, "UNDERTONE_DATABASE_URL=postgres://undertone:secret@127.0.0.1/undertone\n")?;
    fs::set_permissions(&secrets, fs::Permissions::from_mode(0o644))?;
    let new = package("server", "0.2.0", out.path())?;
    root.dpkg(&["-i", &new.to_string_lossy()])?;
    assert_eq!(access()?, (0o640, 0, data.gid()));
    assert!(fs::read_to_string(&secrets)?.contains("secret"));
    Ok(())
}

#[test]
fn command_line_package_has_manual_and_completions() -> TestResult<()> {
    if !may_install() {
        return Ok(());
    }
    let out = tempfile::tempdir()?;
    let root = EmptySystem::new()?;
    let file = package("cli", "0.1.0", out.path())?;
    root.dpkg(&["-i", &file.to_string_lossy()])?;
    let version = run_command(Command::new(root.path("usr/bin/undertone")).arg("--version"))?;
    assert!(version.starts_with("undertone "), "{version}");
    for path in [
        "usr/share/man/man1/undertone.1.gz",
        "usr/share/man/man1/undertone-sign-in.1.gz",
        "usr/share/bash-completion/completions/undertone",
        "usr/share/zsh/vendor-completions/_undertone",
        "usr/share/fish/vendor_completions.d/undertone.fish",
        "usr/share/doc/undertone/sbom.cdx.json",
    ] {
        assert!(fs::metadata(root.path(path)).is_ok_and(|file| file.len() > 100), "{path}");
    }
    assert!(
        !root.path("etc/default/undertone").exists() && !root.path("lib/systemd/system").exists(),
        "it is no service"
    );
    Ok(())
}

#[test]
fn the_services_are_as_closed_as_they_can_be() -> TestResult<()> {
    if !Command::new("systemd-analyze").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("there is no systemd-analyze: the services are not looked at");
        return Ok(());
    }
    let root = tempfile::tempdir()?;
    for service in ["worker", "server"] {
        let name = format!("undertone-{service}.service");
        let unit = workspace::root().join("packaging").join(service).join(&name);
        let security = ["security", "--offline=yes", "--no-pager"];
        run_command(Command::new("systemd-analyze").args(security).arg(format!("--threshold={EXPOSURE}")).arg(&unit))?;
        // Every line is valid. The program is not on this machine, so another one replaces it.
        let text = fs::read_to_string(&unit)?.replace(&format!("/usr/bin/undertone-{service}"), "/bin/true");
        let copy = root.path().join(&name);
        fs::write(&copy, text)?;
        let verified = run_command(
            Command::new("systemd-analyze").args(["verify", "--man=no", "--recursive-errors=no"]).arg(&copy),
        )?;
        assert_eq!(verified.trim(), "", "{name}");
    }
    Ok(())
}

/// The set `@system-service` of systemd 252 (Debian 12) lacks the calls of Landlock, and a refused call leaves programs unconfined.
#[test]
fn worker_unit_allows_the_calls_of_landlock_by_name() -> TestResult<()> {
    let unit = fs::read_to_string(workspace::root().join("packaging/worker/undertone-worker.service"))?;
    let filters = unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter="));
    let allowed: Vec<&str> = filters.filter(|set| !set.starts_with('~')).flat_map(str::split_whitespace).collect();
    for call in ["landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"] {
        assert!(allowed.contains(&call), "{call} is not among {allowed:?}");
    }
    Ok(())
}

/// A quota would slow a service down on an idle machine too; a weight counts where processors are short.
#[test]
fn units_have_weights_and_no_quota_and_the_readme_names_them() -> TestResult<()> {
    for service in ["server", "worker"] {
        let folder = workspace::root().join("packaging").join(service);
        let unit = fs::read_to_string(folder.join(format!("undertone-{service}.service")))?;
        let readme = fs::read_to_string(folder.join("README.Debian"))?;
        for key in ["CPUWeight", "IOWeight"] {
            let values: Vec<&str> = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect();
            let [value] = values[..] else {
                return Err(format!("{service}: {key} is set {} times", values.len()).into());
            };
            let weight: u32 = value.parse()?;
            assert!(
                (1..100).contains(&weight),
                "{service}: programs of the usual weight come first, not {key}={weight}"
            );
            assert!(readme.contains(&format!("{key}={value}")), "{service}: README.Debian names no {key}={value}");
        }
        assert!(!unit.lines().any(|line| line.starts_with("CPUQuota=")), "{service}");
        // Addresses are the site's own: the unit filters none, and the file says how to.
        assert!(!unit.contains("IPAddressDeny="), "{service}");
        assert!(readme.contains("\n    IPAddressDeny=any\n    IPAddressAllow=localhost\n"), "{service}");
    }
    Ok(())
}

/// Returns a backup of a site with an empty ledger, owned by the worker's user.
fn backup(root: &EmptySystem, out: &Path, owner: &fs::Metadata) -> TestResult<String> {
    let site = out.join("site");
    fs::create_dir(&site)?;
    let key = "11".repeat(32);
    let config = format!(
        "server = \"http://127.0.0.1:8421\"\nserver_key = \"{}\"\nworker = \"{id}\"\nworker_name = \"north\"\norganization = \"{id}\"\norganization_name = \"North\"\n",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        id = uuid::Uuid::nil(),
    );
    for (name, text) in [("config.toml", config.as_str()), ("key", key.as_str()), ("policy.toml", "")] {
        fs::write(site.join(name), text)?;
        fs::set_permissions(site.join(name), fs::Permissions::from_mode(0o600))?;
    }
    undertone_worker::site::store::Store::create(&site.join("ledger.db"))?;
    let file = out.join("site.backup");
    run_command(
        Command::new(root.path("usr/bin/undertone-worker"))
            .arg("--site")
            .arg(&site)
            .args(["backup", "--unsealed"])
            .arg(&file),
    )?;
    for path in [&file, &out.to_owned()] {
        std::os::unix::fs::chown(path, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(file.to_string_lossy().into_owned())
}
