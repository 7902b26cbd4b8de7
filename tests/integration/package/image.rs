//! The OCI images, made from the packages: they start as their own user with a root that cannot be written, and keep their data on the
//! volume. The manifests of Kubernetes match their schemas, and settings in them and in the compose file exist.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::stage::TestResult;
use support::workspace;

use super::{may_install, run_command};

/// The versions of Kubernetes whose schemas the manifests match: an old and a new one.
const KUBERNETES: [&str; 2] = ["1.30", "1.37"];
/// The user of the images.
const USER: u32 = 10_001;
/// The time between two questions to a starting or stopping server.
const PAUSE: Duration = Duration::from_millis(100);
/// Time for the server to start and to stop.
const PATIENCE: Duration = Duration::from_mins(1);

/// Returns whether images can be made and run here; otherwise prints a note.
fn may_run_images() -> bool {
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    let has_namespaces = || {
        let unshare = Command::new("unshare").args(["--mount", "--pid", "--fork", "--uts", "--ipc", "true"]).output();
        unshare.is_ok_and(|output| output.status.success())
    };
    let may = may_install() && ["mmdebstrap", "umoci", "runc"].into_iter().all(has) && has_namespaces();
    if !may {
        eprintln!("no mmdebstrap, umoci and runc as root: images are not tested");
    }
    may
}

/// An image that was unpacked for a runtime.
struct UnpackedImage {
    bundle: PathBuf,
    config: Value,
}

impl UnpackedImage {
    /// Unpacks the image of a file in the OCI layout.
    fn unpack(file: &Path, version: &str, folder: &Path) -> TestResult<Self> {
        let layout = folder.join("layout");
        fs::create_dir_all(&layout)?;
        run_command(Command::new("tar").arg("-xf").arg(file).arg("-C").arg(&layout))?;
        let bundle = folder.join("bundle");
        let image = format!("{}:{version}", layout.display());
        run_command(Command::new("umoci").args(["unpack", "--image", &image]).arg(&bundle))?;
        let mut config: Value = serde_json::from_slice(&fs::read(bundle.join("config.json"))?)?;
        config["process"]["terminal"] = json!(false);
        config["root"]["readonly"] = json!(true);
        // The test reaches the program by the loopback of this machine.
        let namespaces = config["linux"]["namespaces"].as_array_mut().ok_or("a list of namespaces")?;
        namespaces.retain(|namespace| namespace["type"] != "network");
        Ok(Self { bundle, config })
    }

    fn set_variable(&mut self, name: &str, value: &str) -> TestResult<()> {
        let variables = self.config["process"]["env"].as_array_mut().ok_or("a list of variables")?;
        variables.retain(|variable| !variable.as_str().is_some_and(|text| text.starts_with(&format!("{name}="))));
        variables.push(json!(format!("{name}={value}")));
        Ok(())
    }

    /// Mounts a folder of this machine, which the image's user owns from now on.
    fn mount(&mut self, folder: &Path, place: &str) -> TestResult<()> {
        std::os::unix::fs::chown(folder, Some(USER), Some(USER))?;
        let mount = json!({ "destination": place, "type": "bind", "source": folder, "options": ["rbind", "rw", "nosuid", "nodev"] });
        self.config["mounts"].as_array_mut().ok_or("a list of mounts")?.push(mount);
        Ok(())
    }

    /// Starts the program, with other arguments than the image's where there are any.
    fn start(&mut self, container: &str, arguments: &[&str]) -> TestResult<Child> {
        if !arguments.is_empty() {
            let program = self.config["process"]["args"][0].clone();
            let rest = arguments.iter().map(|argument| json!(argument));
            self.config["process"]["args"] = std::iter::once(program).chain(rest).collect();
        }
        fs::write(self.bundle.join("config.json"), serde_json::to_vec(&self.config)?)?;
        let mut command = Command::new("runc");
        command.args(["run", "--bundle"]).arg(&self.bundle).arg(container);
        Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
    }
}

/// Makes the images of both programs that the tests use, and returns their files and that of the digests.
fn make_images(version: &str, out: &Path, key: &Path) -> TestResult<[PathBuf; 3]> {
    let program = workspace::program("undertone-server")?;
    let binaries = program.parent().ok_or("the program lies in a folder")?;
    run_command(
        Command::new(workspace::root().join(".ci/image.sh"))
            .env("UNDERTONE_SIGNING_KEY", key)
            .arg("--out")
            .arg(out)
            .arg("--binaries")
            .arg(binaries)
            .args(["--version", version, "server", "worker"]),
    )?;
    let architecture = run_command(Command::new("dpkg").arg("--print-architecture"))?;
    let file = |name: &str| out.join(format!("undertone-{name}_{version}_{}.oci.tar", architecture.trim()));
    Ok([file("server"), file("worker"), out.join("SHA256SUMS")])
}

#[test]
fn images_start_as_their_user_and_keep_their_data() -> TestResult<()> {
    if !may_run_images() {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let key = folder.path().join("key");
    run_command(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "release", "-f"]).arg(&key))?;
    let out = folder.path().join("images");
    let [server, worker, sums] = make_images("0.1.0", &out, &key)?;
    check_signature(&sums, &key)?;

    let mut image = UnpackedImage::unpack(&worker, "0.1.0", &folder.path().join("worker"))?;
    let version = image.start("undertone-test-worker", &["--version"])?.wait_with_output()?;
    let printed = String::from_utf8_lossy(&version.stdout).into_owned();
    assert!(version.status.success() && printed.starts_with("undertone-worker "), "{version:?}");

    let data = folder.path().join("data");
    fs::create_dir(&data)?;
    let mut image = UnpackedImage::unpack(&server, "0.1.0", &folder.path().join("server"))?;
    assert_eq!(image.config["process"]["user"], json!({ "uid": USER, "gid": USER }));
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    image.set_variable("UNDERTONE_HTTP", &format!("127.0.0.1:{port}"))?;
    image.set_variable("UNDERTONE_GRPC", "127.0.0.1:0")?;
    image.mount(&data, "/var/lib/undertone-server")?;
    let mut process = image.start("undertone-test-server", &[])?;
    let ready = wait_until_ready(port);
    let description = ask(port, "/api/v1/openapi.json");
    run_command(Command::new("runc").args(["kill", "undertone-test-server", "TERM"]))?;
    let end = wait_for_end(&mut process)?;
    ready?;
    assert!(description?.contains("\"openapi\""));
    assert!(end.success(), "{end}");
    for file in ["signing.key", "operator-link"] {
        let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(data.join(file))?);
        assert_eq!(owner, USER, "{file}");
    }
    Ok(())
}

/// Checks the digests of the files, and that the signature is that of the key.
fn check_signature(sums: &Path, key: &Path) -> TestResult<()> {
    let folder = sums.parent().ok_or("a folder")?;
    run_command(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(folder))?;
    let allowed = folder.join("allowed");
    let public = fs::read_to_string(key.with_extension("pub"))?;
    fs::write(&allowed, format!("release@undertone.example {public}"))?;
    let verify = |sums: &Path| -> TestResult<ExitStatus> {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-Y", "verify", "-n", "undertone", "-I", "release@undertone.example", "-f"]).arg(&allowed);
        command.arg("-s").arg(folder.join("SHA256SUMS.sig")).stdin(fs::File::open(sums)?);
        Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).status()?)
    };
    assert!(verify(sums)?.success(), "the release key signs the digests");
    let other = folder.join("other");
    fs::write(&other, fs::read_to_string(sums)?.replace('a', "b"))?;
    assert!(!verify(&other)?.success(), "other digests have no signature");
    Ok(())
}

/// Returns the answer of the server to a request, with its head.
fn ask(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn wait_until_ready(port: u16) -> TestResult<()> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if ask(port, "/health/ready").is_ok_and(|answer| answer.starts_with("HTTP/1.1 204")) {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
    Err("the server is not ready in time".into())
}

fn wait_for_end(process: &mut Child) -> TestResult<ExitStatus> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(status) = process.try_wait()? {
            return Ok(status);
        }
        thread::sleep(PAUSE);
    }
    process.kill()?;
    Err("the server does not stop".into())
}

#[test]
fn manifests_match_their_schemas() -> TestResult<()> {
    let Some(python) = std::env::var_os("UNDERTONE_MANIFESTS") else {
        eprintln!("no validator: the manifests of Kubernetes are not checked");
        return Ok(());
    };
    let checker = workspace::root().join(".ci/manifests.py");
    let check =
        |folder: &Path, version: &str| run_command(Command::new(&python).arg(&checker).arg(folder).arg(version));
    let manifests = workspace::root().join("packaging/kubernetes");
    for version in KUBERNETES {
        assert!(check(&manifests, version)?.contains("2 folders are valid"));
    }
    // The check finds an unknown field, a selector of nothing and a probe of no port.
    for (place, wrong) in [("replicas: 2", "replica: 2"), ("port: https, scheme", "port: http, scheme")] {
        let copy = tempfile::tempdir()?;
        run_command(Command::new("cp").arg("-r").arg(&manifests).arg(copy.path()))?;
        let file = copy.path().join("kubernetes/server/deployment.yaml");
        fs::write(&file, fs::read_to_string(&file)?.replace(place, wrong))?;
        assert!(check(&copy.path().join("kubernetes"), KUBERNETES[0]).is_err(), "{wrong}");
    }
    Ok(())
}

#[test]
fn settings_of_manifests_and_compose_file_exist() -> TestResult<()> {
    let known = fs::read_to_string(workspace::root().join("server/OPERATION.md"))?;
    let mut settings = BTreeSet::new();
    for file in workspace::files("packaging", "yaml") {
        let text = fs::read_to_string(workspace::root().join(&file))?;
        let is_part = |character: char| !(character.is_ascii_uppercase() || character == '_');
        settings.extend(text.split(is_part).filter(|word| word.starts_with("UNDERTONE_")).map(str::to_owned));
    }
    // The version of the image, in the compose file alone.
    assert!(settings.remove("UNDERTONE_VERSION"));
    assert!(settings.len() > 5, "{settings:?}");
    for setting in settings {
        assert!(known.contains(&format!("`{setting}`")), "{setting} is no setting of the server");
    }
    Ok(())
}
