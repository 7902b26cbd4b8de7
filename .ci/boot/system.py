"""A Debian system in a folder, booted by systemd-nspawn: its own processes, network (loopback only) and users.

Commands run in it as root, as somebody who is logged in there runs them. Nothing of it reaches the machine around it.
"""

import json
import os
import pathlib
import signal
import subprocess
import time

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "DEBIAN_FRONTEND": "noninteractive",
    "SYSTEMD_PAGER": "",
    "SYSTEMD_COLORS": "0",
}
# Seconds until a system must be up, or down.
BOOT = 120


class Refused(Exception):
    """A command that failed, with what it said."""


class System:
    def __init__(self, root, log):
        self.root = pathlib.Path(root)
        self.log = open(log, "ab")
        self.nspawn = None
        self.init = None

    def boot(self):
        """Starts it, and waits until everything in it that starts by itself has started."""
        arguments = [
            "systemd-nspawn",
            f"--directory={self.root}",
            "--machine=undertone-boot",
            "--boot",
            "--private-network",
            "--register=no",
            "--link-journal=no",
            "--resolv-conf=off",
            "--timezone=off",
            "--console=pipe",
            "--quiet",
        ]
        # Where systemd does not run, there is nobody to ask for a control group: it stays in that of this process.
        if not os.path.isdir("/run/systemd/system"):
            arguments.append("--keep-unit")
        environment = os.environ | {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
        self.nspawn = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            env=environment,
            start_new_session=True,
        )
        self.init = within(BOOT, "the system's first process", self._first_process)
        within(BOOT, "the system's manager", lambda: self.succeeds("systemctl", "show", "--property=Version"))
        state = self.run("systemctl", "is-system-running", "--wait", check=False)
        if state not in ("running", "degraded"):
            raise Refused(f"the system is {state or 'not up'}")
        return state

    def _first_process(self):
        if self.nspawn.poll() is not None:
            raise Refused(f"systemd-nspawn ended with {self.nspawn.returncode}")
        # systemd-nspawn has a process between itself and the first of the system only while it prepares.
        for child in children(self.nspawn.pid):
            if own_pids(child)[-1:] == ["1"] and pathlib.Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return child
        return None

    def reboot(self):
        """As an administrator does it in there."""
        self.run("systemctl", "reboot", check=False)
        self._wait_for_end()
        return self.boot()

    def _wait_for_end(self):
        try:
            self.nspawn.wait(BOOT)
        except subprocess.TimeoutExpired:
            raise Refused(f"the system is not down after {BOOT} s") from None

    def stop(self):
        """Shuts it down; by force where it does not go."""
        if self.nspawn is None or self.nspawn.poll() is not None:
            return
        self.run("systemctl", "poweroff", check=False)
        try:
            self._wait_for_end()
        except Refused:
            if self.init:
                os.kill(int(self.init), signal.SIGKILL)
            self.nspawn.kill()
            self.nspawn.wait()

    def command(self, *arguments):
        variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        enter = ["nsenter", f"--target={self.init}", "--all", "--root", "--wd"]
        return [*enter, "env", "-i", *variables, *arguments]

    def run(self, *arguments, check=True, input=None, seconds=300):
        """What a command in it prints, both streams. With `check`, a failure is an exception."""
        done = subprocess.run(
            self.command(*arguments),
            input=input,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
        )
        if check and done.returncode != 0:
            raise Refused(f"{' '.join(arguments)[:200]}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout.strip()

    def succeeds(self, *arguments):
        return (
            subprocess.run(self.command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
            == 0
        )

    def show(self, unit, *properties):
        """Properties of a unit, by their names."""
        said = self.run("systemctl", "show", unit, *(f"--property={name}" for name in properties))
        return dict(line.split("=", 1) for line in said.splitlines())

    def journal(self, unit, *arguments):
        """What a unit has logged, an object for each line."""
        said = self.run("journalctl", "--output=json", "--all", "--no-pager", f"--unit={unit}", *arguments)
        entries = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
        for entry in entries:
            message = entry.get("MESSAGE") or ""
            # What has control characters is a list of bytes.
            entry["MESSAGE"] = bytes(message).decode(errors="replace") if isinstance(message, list) else message
        return entries

    def messages(self, unit, *arguments):
        """The same, as lines of text."""
        return [entry["MESSAGE"] for entry in self.journal(unit, *arguments)]

    def path(self, path):
        return self.root / path.lstrip("/")


def within(seconds, what, look):
    """What `look` gives as soon as it gives something."""
    until = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > until:
            raise Refused(f"{what}: not within {seconds} s")
        time.sleep(0.2)


def children(process):
    found = pathlib.Path("/proc").glob("[0-9]*/stat")
    parents = {}
    for stat in found:
        try:
            # The name in parentheses may hold anything.
            parents[stat.parent.name] = stat.read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
    return [child for child, parent in parents.items() if parent == str(process)]


def own_pids(process):
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return []
    return next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
