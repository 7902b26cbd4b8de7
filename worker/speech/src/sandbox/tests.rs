//! Checks with scripts the limits of a confined program, and that real engines still work.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use super::Start;
use super::confinement::{ProgramConfinement, Programs};
use super::files::{self, ScratchFolder};
use super::walls::LandlockState;

/// Returns true if the kernel enforces Landlock for this process; otherwise prints that the test is skipped.
fn has_landlock() -> bool {
    let state = LandlockState::query();
    if state != LandlockState::Available {
        eprintln!("skipped: Landlock is {state:?} here");
    }
    state == LandlockState::Available
}

/// Runs a program as a site without `[programs]` does, whatever other tests of this process have set.
fn run(program: &str, script: &str) -> std::io::Result<Output> {
    let start = Start::new(program).args(["-c", script]);
    start.spawn_in(&ProgramConfinement::default(), Stdio::null(), Stdio::piped(), Stdio::piped())?.output()
}

/// Runs a shell script and returns its output.
fn shell(script: &str) -> String {
    String::from_utf8_lossy(&run("sh", script).unwrap().stdout).into_owned()
}

/// Runs a script of the system's Python; `None` if there is none.
fn python(script: &str) -> Option<String> {
    let output = run("/usr/bin/python3", script).ok()?;
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &complaints)
}

/// Makes a folder that belongs to no program. Shared memory, where tests may keep their files, belongs to all of them.
fn folder_of_others() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

#[test]
fn program_gets_four_variables_of_the_environment() {
    let printed = shell("env | cut -d= -f1 | sort");
    let names: Vec<&str> = printed.lines().filter(|name| !matches!(*name, "PWD" | "SHLVL" | "_" | "OLDPWD")).collect();
    assert_eq!(names, ["HOME", "LANG", "PATH", "TMPDIR"]);
}

#[test]
fn program_does_not_read_a_file_that_is_not_its_own() {
    if !has_landlock() {
        return;
    }
    let site = folder_of_others();
    fs::write(site.path().join("key"), "secret").unwrap();
    let path = site.path().join("key").display().to_string();
    let printed = shell(&format!("cat {path}; ls {}; echo done", site.path().display()));
    assert_eq!(printed, "done\n");
    for file in ["/etc/shadow", "/etc/default/*", "/proc/$PPID/environ"] {
        assert_eq!(shell(&format!("cat {file}")), "", "{file}");
    }
}

#[test]
fn program_writes_to_its_own_folder_alone() {
    if !has_landlock() {
        return;
    }
    let elsewhere = folder_of_others();
    let file = elsewhere.path().join("left").display().to_string();
    let printed = shell(&format!("echo x > {file}; echo y > $TMPDIR/mine && cat $TMPDIR/mine; echo $TMPDIR"));
    let mut lines = printed.lines();
    assert_eq!(lines.next(), Some("y"), "{printed}");
    assert!(!Path::new(lines.next().unwrap()).exists(), "its folder goes with it");
    assert!(!elsewhere.path().join("left").exists());
}

#[test]
fn program_opens_no_connection() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let script = format!(
        "import socket\n\
         for kind, port in ((socket.SOCK_STREAM, {}), (socket.SOCK_DGRAM, {})):\n\
         \x20   try:\n\
         \x20       s = socket.socket(socket.AF_INET, kind); s.connect(('127.0.0.1', port)); s.send(b'x'); print('sent')\n\
         \x20   except OSError as error: print(type(error).__name__)\n",
        tcp.local_addr().unwrap().port(),
        udp.local_addr().unwrap().port()
    );
    let Some(printed) = python(&script) else {
        eprintln!("skipped: there is no python3");
        return;
    };
    assert_eq!(printed, "PermissionError\nPermissionError\n");
    assert!(udp.recv(&mut [0]).is_err(), "nothing arrived");
}

#[test]
fn program_ends_with_all_that_it_started() {
    let mut running = Start::new("sh")
        .args(["-c", "sleep 600 & echo $!; wait"])
        .spawn(Stdio::null(), Stdio::piped(), Stdio::null())
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(running.take_output().unwrap()), &mut line).unwrap();
    let started = PathBuf::from(format!("/proc/{}/stat", line.trim()));
    let lives = || fs::read_to_string(&started).is_ok_and(|stat| !stat.contains(") Z "));
    assert!(lives());
    running.end();
    let end = Instant::now() + Duration::from_secs(10);
    while lives() {
        assert!(Instant::now() < end, "it goes on");
        std::thread::yield_now();
    }
}

/// The thread that started a program may end before the program does.
#[test]
fn program_outlives_the_thread_that_asked_for_it() {
    let starter =
        std::thread::spawn(|| Start::new("cat").spawn(Stdio::piped(), Stdio::piped(), Stdio::null()).unwrap());
    let mut running = starter.join().unwrap();
    std::io::Write::write_all(&mut running.take_input().unwrap(), b"still here").unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut running.take_output().unwrap(), &mut text).unwrap();
    assert_eq!(text, "still here");
}

#[test]
fn unknown_program_is_not_found() {
    let error = Start::new("no-such-engine").output().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn site_is_not_reached_where_an_argument_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().canonicalize().unwrap();
    for name in ["key", "voice.onnx"] {
        fs::write(site.join(name), "x").unwrap();
    }
    let confinement = ProgramConfinement {
        site: Some(site.clone()),
        programs: Programs { folders: vec![site.clone()], ..Programs::default() },
    };
    let key = format!("--key={}", site.join("key").display());
    let start = Start::new("sh").args([site.join("voice.onnx").as_os_str(), key.as_ref(), site.as_os_str()]);
    let scratch = ScratchFolder::make().unwrap();
    let access = files::access(Path::new("/bin/sh"), &start.request, &confinement, scratch.path());
    let inside: Vec<_> = access.readable.iter().filter(|path| path.starts_with(&site)).collect();
    assert_eq!(inside, [&site.join("voice.onnx")]);
    assert!(!access.readable.iter().any(|path| site.starts_with(path)), "{:?}", access.readable);
}

#[test]
fn espeak_still_speaks() {
    let output = match Start::new("espeak-ng").args(["-v", "en-us", "--stdout", "seven"]).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: there is no espeak-ng");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert!(
        output.status.success() && output.stdout.starts_with(b"RIFF") && output.stdout.len() > 10_000,
        "{output:?}"
    );
}
