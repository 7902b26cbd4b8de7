"""Tries the packages of server and worker in a booted Debian system, as an administrator uses them, and says of each
claim whether it holds.

    python3 try.py ROOT LOG OLD_SERVER OLD_WORKER NEW_SERVER NEW_WORKER

ROOT is a system that nothing has booted yet (see `boot.sh`), with the packages in it; LOG takes what its console says.
Exits with 1 when a claim does not hold, and with 2 when the system cannot be booted here.
"""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import consortium
from consortium import CLOUD_PORT, FOLDER, Site
from system import Refused, System, within

SERVICES = ("undertone-server", "undertone-worker")
HERE = pathlib.Path(__file__).parent
# The exposure that `systemd-analyze security` may find at most.
EXPOSURE = 1.5
# Seconds of a job on a recording of some seconds, on a slow machine with programs that were not built for release.
JOB = 1200
# Seconds that a service may take to stop; each unit gives it more.
STOP = 15
# What a service may write to: its own folder, and what nobody else sees.
WRITABLE = ("/dev/mqueue", "/dev/shm", "/tmp", "/var/tmp")

failures = []


def claim(name, holds, detail=""):
    """Prints whether a claim holds, and remembers it when it does not."""
    print(f"{'ok    ' if holds else 'FAILED'}  {name}" + (f": {detail}" if detail else ""), flush=True)
    if not holds:
        failures.append(name)


def chapter(work, *arguments):
    """Claims that belong together; whether all of them could be tried. What could not is a failure."""
    print(f"\n{work.__doc__.strip()}", flush=True)
    try:
        work(*arguments)
        return True
    except (Refused, KeyError, IndexError, ValueError, OSError, subprocess.TimeoutExpired) as error:
        claim(f"nothing stands in the way of `{work.__name__}`", False, f"{type(error).__name__}: {error}")
        system = arguments[0]
        for name in SERVICES:
            print("\n".join(f"        {line}" for line in system.messages(name, "--lines=12")), flush=True)
        return False


def installed(system, site, packages):
    """The packages are installed"""
    system.run("apt-get", "install", "--yes", *packages)
    claim(
        "apt-get installs and configures both",
        all(re.match("[0-9]", version(system, name)) for name in SERVICES),
    )
    claim(
        "a new server is not started before its addresses are decided",
        not system.succeeds("systemctl", "is-active", "undertone-server"),
    )
    claim("a worker is enabled from the start", system.succeeds("systemctl", "is-enabled", "undertone-worker"))
    system.run("systemctl", "start", "undertone-worker")
    claim(
        "a site that is not enrolled has a worker that waits, and does not fail",
        system.show("undertone-worker", "Result", "ActiveState") == {"Result": "success", "ActiveState": "inactive"},
    )
    for name in SERVICES:
        claim(
            f"the folder of {name} is its own alone",
            system.run("stat", "--format=%a %U", f"/var/lib/{name}") == f"700 {name}",
        )


def version(system, name):
    return system.run(
        "dpkg-query", "--show", "--showformat=${db:Status-Abbrev}${Version}", name, check=False
    ).removeprefix("ii ")


def founded(system, site):
    """The server serves, and a site is enrolled"""
    system.run("systemctl", "enable", "--now", "undertone-server")
    within(30, "health", lambda: site.health("ready") == "204")
    claim("/health/live and /health/ready answer 204", (site.health("live"), site.health("ready")) == ("204", "204"))
    token = site.found()
    claim("the link in its log makes the first operator, who founds a consortium", True)
    site.worker("enroll", token)
    site.prepare()
    shutil.copy(HERE / "cloud.py", system.path("/usr/local/lib/cloud.py"))
    system.run(
        "systemd-run",
        "--unit=cloud",
        "--property=DynamicUser=yes",
        "/usr/bin/python3",
        "/usr/local/lib/cloud.py",
        str(CLOUD_PORT),
    )
    modes = system.run(
        "sh", "-c", f"stat --format='%a %n' {FOLDER}/key {FOLDER}/ledger.db {FOLDER}/policy.toml {FOLDER}/config.toml"
    )
    claim(
        "key, ledger, policy and configuration are for their owner alone",
        all(line.startswith("600 ") for line in modes.splitlines()),
    )
    system.run("systemctl", "start", "undertone-worker")
    within(30, "the worker at the server", site.online)
    claim("the worker's service reports to the server", True)
    # What it says after its object is the same for people.
    doctor, _ = json.JSONDecoder().raw_decode(site.worker("doctor", "--json", check=False))
    wrong = [check for check in doctor["checks"] if check["state"] == "fail"]
    claim("`doctor` finds nothing wrong", not wrong, wrong or f"{len(doctor['checks'])} checks")


def contained(system, site, service):
    """What the service is kept from"""
    name = f"undertone-{service}"
    own = f"/var/lib/{name}"
    exposure = float(
        re.search(
            r"([0-9.]+) \S+ \S*$", system.run("systemd-analyze", "security", "--no-pager", name).splitlines()[-1]
        ).group(1)
    )
    claim(f"systemd-analyze security finds {name} exposed by {EXPOSURE} of 10 at most", exposure <= EXPOSURE, exposure)
    process = system.show(name, "MainPID")["MainPID"]
    status = dict(
        line.split(":\t", 1) for line in system.run("cat", f"/proc/{process}/status").splitlines() if ":\t" in line
    )
    user = system.run("id", "--user", name)
    claim(
        f"{name} runs as its own user", set(status["Uid"].split()) == {user} and user != "0", status["Uid"].split()[0]
    )
    claim(
        "it has no capability, and none to gain",
        all(int(status[of], 16) == 0 for of in ("CapEff", "CapPrm", "CapBnd", "CapAmb")),
    )
    claim(
        "it can get no new privileges, and its system calls are filtered",
        (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"),
    )
    told = probe(system, service)
    if service == "worker" and has_landlock(system):
        claim(
            "the worker confines programs, and its log warns of no open files",
            not any("programs are not kept from the site's files" in line for line in system.messages(name)),
        )
    else:
        told["works"].pop("keep a program from the site's key", None)
    for what, how in told["held"].items():
        claim(f"behind its walls nothing can {what}", bool(how), how or "it can")
    for what, how in told["works"].items():
        claim(f"behind its walls it can {what}", not how, how or "")
    claim(
        "it can write to its own folder and to what nobody else sees, and nowhere else",
        set(told["folders"]) == {*WRITABLE, own},
        " ".join(told["folders"]),
    )


def has_landlock(system):
    """Whether this kernel, and what boots the system, let a process ask for Landlock outside of any unit."""
    script = "import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(444, None, 0, 1) < 1)"
    has = system.succeeds("python3", "-c", script)
    if not has:
        print("        the booted system has no Landlock: the walls around programs are not tried", flush=True)
    return has


def probe(system, service):
    """What is found by a process in a unit with all that the service's has, but its program."""
    shutil.copy(HERE / "probe.py", system.path("/usr/local/lib/probe.py"))
    # There is something to see and to abuse, so that what is not seen is hidden and not merely absent.
    for folder in (*WRITABLE, "/home", "/root"):
        system.run("touch", f"{folder}/undertone-marker")
    system.run("chmod", "755", "/root", "/home")
    system.run("install", "--mode=4755", "/usr/bin/id", "/usr/local/lib/undertone-id")
    system.run(
        "sh", "-c", "printf '#!/bin/sh\nexec /usr/local/lib/undertone-id --user\n' > /usr/local/bin/undertone-marker"
    )
    system.run("chmod", "755", "/usr/local/bin/undertone-marker")
    said = system.run("sudo", "-u", f"undertone-{service}", "/usr/local/bin/undertone-marker", check=False)
    # The last line: sudo may have a word before it.
    claim(
        f"outside its walls undertone-{service} becomes root by a program that is root's",
        said.splitlines()[-1:] == ["0"],
        said,
    )
    unit = system.run("cat", f"/lib/systemd/system/undertone-{service}.service")
    kept = [
        line for line in unit.splitlines() if not re.match(r"(Exec|Type|Restart|Condition|WantedBy|StartLimit)", line)
    ]
    text = "\n".join(kept).replace(
        "[Service]", f"[Service]\nType=oneshot\nExecStart=/usr/bin/python3 /usr/local/lib/probe.py {service}"
    )
    name = f"probe-{service}.service"
    system.run("sh", "-c", f"cat > /run/systemd/system/{name}", input=text)
    system.run("systemctl", "daemon-reload")
    system.run("systemctl", "start", name)
    return next(json.loads(line) for line in system.messages(name) if line.startswith("{"))


def worked(system, site):
    """A job goes through the services: PocketSphinx, a speech engine and a provider"""
    job, (state, reason) = site.transcribe(JOB)
    claim("the job is finished", state == "finished", reason or "")
    heard = sum("heard a sound" in line for line in system.messages("cloud"))
    claim("the provider heard sounds", heard > 0, f"{heard}")
    results = site.as_user("find", f"{FOLDER}/transcripts/{job}", "-type", "f", "-printf", "%m %f\n").splitlines()
    claim(
        "transcript and report are at the site, for their owner alone",
        len(results) > 2 and all(line.startswith("600 ") for line in results),
        len(results),
    )
    shown, verified = site.spent()
    claim(
        "the site's ledger has paid, and holds",
        consortium.DATASET in shown and bool(re.search(r"\b1\b", verified)),
        verified.splitlines()[0],
    )


def stopped(system, site):
    """The services stop, start and fall"""
    for name in reversed(SERVICES):
        begun = time.monotonic()
        system.run("systemctl", "stop", name)
        took = time.monotonic() - begun
        ended = system.show(name, "Result", "ExecMainStatus")
        claim(
            f"{name} stops by itself when it is told to",
            took < STOP and ended == {"Result": "success", "ExecMainStatus": "0"},
            f"{took:.1f} s",
        )
    log = "\n".join(system.messages("undertone-worker"))
    claim("the worker says that it stops", "its runs continue from their checkpoints" in log)
    for name in SERVICES:
        system.run("systemctl", "start", name)
        before = system.show(name, "MainPID")
        system.run("systemctl", "restart", name)
        claim(
            f"{name} is restarted",
            system.show(name, "MainPID") != before and system.succeeds("systemctl", "is-active", name),
        )
        killed = system.show(name, "MainPID")["MainPID"]
        system.run("kill", "-KILL", killed)
        within(60, f"{name} after it was killed", lambda: system.show(name, "MainPID")["MainPID"] not in ("0", killed))
        claim(f"{name} comes back when it is killed", True)
    within(30, "health", lambda: site.health("ready") == "204")
    within(60, "the worker at the server", lambda: signed_in(site))
    claim("the worker finds the server again", True)


def signed_in(site):
    site.sign_in()
    return site.online()


def mistaken(system, site):
    """Mistakes in the configuration"""
    kept = site.as_user("cat", f"{FOLDER}/config.toml")
    site.as_user("sh", "-c", f"cat > {FOLDER}/config.toml", input="nonsense = 1\n" + kept + "\n")
    claim(
        "a worker with a mistake in its configuration does not start",
        not system.succeeds("systemctl", "restart", "undertone-worker"),
    )
    claim("its log names the mistake", any("nonsense" in line for line in system.messages("undertone-worker")))
    site.as_user("sh", "-c", f"cat > {FOLDER}/config.toml", input=kept + "\n")
    within(
        60, "the worker with its mistake mended", lambda: system.succeeds("systemctl", "is-active", "undertone-worker")
    )
    claim("mended, it starts by itself", True)
    path = system.path("/etc/undertone/server.toml")
    kept = path.read_text()
    path.write_text(kept + "\nnonsense = 1\n")
    claim(
        "a server with a mistake in its configuration does not start",
        not system.succeeds("systemctl", "restart", "undertone-server"),
    )
    claim("its log names the mistake", any("nonsense" in line for line in system.messages("undertone-server")))
    path.write_text(kept)
    system.run("systemctl", "restart", "undertone-server")
    within(30, "health", lambda: site.health("ready") == "204")


def logged(system, site):
    """What is logged"""
    for name, line in (
        ("undertone-worker", "UNDERTONE_LOG_FORMAT=json"),
        ("undertone-server", "UNDERTONE_LOG__JSON=true"),
    ):
        lines = system.journal(name)
        claim(
            f"every line of {name} is text without colours",
            bool(lines) and not any("\x1b" in entry["MESSAGE"] for entry in lines),
            len(lines),
        )
        system.run("sh", "-c", f"echo {line} >> /etc/default/{name}")
        begun = system.run("date", "+%Y-%m-%d %H:%M:%S")
        time.sleep(1)
        system.run("systemctl", "restart", name)
        within(30, f"a line of {name}", lambda: objects(system, name, begun))
        found = objects(system, name, begun)
        claim(
            f"with {line} a line of {name} is an object with time, level and target",
            all({"timestamp", "level", "target"} <= set(entry) for entry in found),
            len(found),
        )
    log = "\n".join(line for name in SERVICES for line in system.messages(name))
    claim(
        "no password, token, key, e-mail or word of a recording is in the log",
        not any(secret in log for secret in site.secrets),
    )


def objects(system, name, since):
    """Lines of the program itself that are JSON objects."""
    lines = [
        entry["MESSAGE"]
        for entry in system.journal(name, f"--since={since}")
        if entry.get("_COMM", "").startswith("undertone")
    ]
    return [json.loads(line) for line in lines if line.startswith("{")]


def upgraded(system, site, packages):
    """A newer version is installed"""
    kept = state(system, site)
    before = {name: system.show(name, "MainPID")["MainPID"] for name in SERVICES}
    old = version(system, "undertone-worker")
    system.run("apt-get", "install", "--yes", *packages)
    claim(
        "both are of the newer version",
        version(system, "undertone-worker") > old and version(system, "undertone-server") > old,
        version(system, "undertone-worker"),
    )
    for name in SERVICES:
        now = system.show(name, "MainPID")["MainPID"]
        claim(
            f"{name} runs, started anew",
            now not in ("0", before[name]) and system.succeeds("systemctl", "is-active", name),
        )
    within(30, "health", lambda: site.health("ready") == "204")
    within(60, "the worker at the server", lambda: signed_in(site))
    unchanged(system, site, kept, "an upgrade")


def state(system, site):
    """All that must outlive packages: what the ledgers say, and each file that a person wrote."""
    files = [f"{FOLDER}/{name}" for name in ("key", "policy.toml", "config.toml", "cloud.key")]
    files += [
        "/etc/undertone/server.toml",
        "/etc/default/undertone-server",
        "/etc/default/undertone-worker",
        "/var/lib/undertone-server/signing.key",
    ]
    sums = system.run("sha256sum", *files)
    transcripts = site.as_user("sh", "-c", f"find {FOLDER}/transcripts {FOLDER}/data -type f | sort | xargs sha256sum")
    return {"ledger": site.spent()[0], "files": sums, "data": transcripts, "entries": entries(site)}


def entries(site):
    """The consortium's ledger, row by row."""
    dataset = site.dataset()
    rows = site.rest("GET", f"/api/v1/datasets/{dataset}/ledger?limit=200")["items"]
    return [(row["kind"], row["count"]) for row in rows]


def unchanged(system, site, before, what):
    now = state(system, site)
    for part in before:
        claim(
            f"{what} changes nothing of: {part}",
            now[part] == before[part],
            "" if now[part] == before[part] else f"{before[part]}\n{now[part]}",
        )
    claim(
        f"after {what} the site's ledger holds, and the consortium's",
        "The ledger is valid" in site.spent()[1] and holds_at_server(system),
    )


def holds_at_server(system):
    """Whether the server's own examination of the ledger finds nothing."""
    settings = "set -a; . /etc/default/undertone-server; UNDERTONE_DATA_DIR=/var/lib/undertone-server"
    command = f"{settings} exec undertone-server --config /etc/undertone/server.toml verify"
    return system.succeeds("sudo", "-u", "undertone-server", "sh", "-c", command)


def rebooted(system, site):
    """The machine is started anew"""
    kept = state(system, site)
    system.reboot()
    within(60, "health", lambda: site.health("ready") == "204")
    within(60, "the worker at the server", lambda: signed_in(site))
    claim(
        "both services are there again, and the worker reports",
        all(system.succeeds("systemctl", "is-active", name) for name in SERVICES),
    )
    unchanged(system, site, kept, "a reboot")


def removed(system, site, packages):
    """The packages are removed, installed again, and purged"""
    kept = state(system, site)
    system.run("apt-get", "remove", "--yes", *SERVICES)
    claim("removed, neither runs", not any(system.succeeds("pgrep", "--full", f"/usr/bin/{name}") for name in SERVICES))
    claim("their programs are gone", not any(system.path(f"/usr/bin/{name}").exists() for name in SERVICES))
    system.run("apt-get", "install", "--yes", *packages)
    claim(
        "installed again, both are enabled as they were",
        all(system.succeeds("systemctl", "is-enabled", name) for name in SERVICES),
    )
    system.run("systemctl", "start", *SERVICES)
    within(30, "health", lambda: site.health("ready") == "204")
    within(60, "the worker at the server", lambda: signed_in(site))
    unchanged(system, site, kept, "a removal")
    said = system.run("apt-get", "purge", "--yes", *SERVICES)
    claim("a purge says what it keeps, and why", all(f"/var/lib/{name} is kept" in said for name in SERVICES))
    claim(
        "configuration in /etc is gone, and what was enabled",
        system.run("sh", "-c", "find /etc /run/systemd /var/lib/systemd -name '*undertone*'") == "",
    )
    left = [f"{FOLDER}/{name}" for name in ("ledger.db", "key", "policy.toml", "config.toml")]
    left += [f"/var/lib/undertone-server/{name}" for name in ("undertone.sqlite", "signing.key")]
    claim("ledgers and keys are not", all(system.path(path).exists() for path in left))
    owner = system.run("stat", "--format=%U", FOLDER)
    claim("and belong to the same user", owner == "undertone-worker", owner)


def main():
    # Whoever ends this ends the system too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    root, log, *packages = sys.argv[1:]
    old, new = packages[:2], packages[2:]
    system = System(root, log)
    try:
        print(f"booted: {system.boot()}, {system.run('systemctl', '--version').splitlines()[0]}", flush=True)
    except (Refused, OSError) as error:
        print(f"no system can be booted here: {error}")
        system.stop()
        return 2
    site = Site(system)
    try:
        # Without these there is nothing to try; each of the others stands by itself.
        if chapter(installed, system, site, old) and chapter(founded, system, site):
            for service in ("server", "worker"):
                chapter(contained, system, site, service)
            chapter(worked, system, site)
            chapter(stopped, system, site)
            chapter(mistaken, system, site)
            chapter(logged, system, site)
            chapter(upgraded, system, site, new)
            chapter(rebooted, system, site)
            chapter(removed, system, site, new)
    finally:
        system.stop()
    print(f"\n{len(failures)} claims do not hold" if failures else "\nevery claim holds")
    return 1 if failures else 0


sys.exit(main())
