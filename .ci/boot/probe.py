"""What a process may do behind a unit's walls: run in a unit that has all of them, prints one JSON object.

    python3 probe.py worker|server

`held` says of each thing that must be refused how it was, or false; `folders` are all folders that can be written to;
`works` says of each thing that the service needs why it cannot be done, or false. What others left for it to see is
named `undertone-marker`.
"""

import ctypes
import errno
import json
import mmap
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

service = sys.argv[1]
state = f"/var/lib/undertone-{service}"
libc = ctypes.CDLL(None, use_errno=True)


def refused(work):
    """Whether it is, and how."""
    try:
        work()
    except (OSError, subprocess.CalledProcessError) as error:
        return str(error) or type(error).__name__
    return False


def call(name, *arguments):
    """One of the C library's functions, whose failure is an error."""
    ctypes.set_errno(0)
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def write(path):
    pathlib.Path(path).write_text("probe")


def listen():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()


def set_user_bit():
    path = pathlib.Path(tempfile.mkstemp(dir=state)[1])
    try:
        path.chmod(0o4700)
    finally:
        path.unlink()


def write_sealed(path):
    """Refused because nobody may write there: that this user may not is not enough."""
    try:
        write(path)
    except OSError as error:
        if error.errno == errno.EROFS:
            raise


def become_root():
    """By a program that runs as its owner, who is root."""
    done = subprocess.run(["/usr/local/bin/undertone-marker"], check=True, capture_output=True, text=True)
    if done.stdout.strip() != "0":
        raise PermissionError(f"it runs as {done.stdout.strip()}")


def others():
    """Processes of others that can be seen."""

    def is_of_another(entry):
        try:
            return os.stat(f"/proc/{entry}").st_uid != os.getuid()
        except (FileNotFoundError, ProcessLookupError):
            # It ended meanwhile, which says nothing of the others.
            return False

    if not any(is_of_another(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        raise PermissionError("no other is seen")


def enter_home(path):
    # An empty stand-in may be there, which has nothing of the folder.
    if not os.listdir(path):
        raise PermissionError("nothing is there")


def see_marker(folder):
    if not os.path.exists(f"{folder}/undertone-marker"):
        raise PermissionError("nothing of others is there")


def block_devices():
    if not any(os.path.exists(f"/dev/{name}") for name in ("kmsg", "mem", "vda", "sda", "fuse", "loop-control")):
        raise PermissionError("no device is there")


CLONE_NEWUSER, MS_BIND = 0x10000000, 4096
hold = {
    "write to /etc": lambda: write_sealed("/etc/undertone-probe"),
    "write to its configuration": lambda: write_sealed("/etc/default/undertone-probe"),
    "write to /usr": lambda: write_sealed("/usr/bin/undertone-probe"),
    "write to /var/lib": lambda: write_sealed("/var/lib/undertone-probe"),
    "write to /proc/sys": lambda: write("/proc/sys/kernel/core_pattern"),
    "see /root": lambda: enter_home("/root"),
    "see /home": lambda: enter_home("/home"),
    "see processes of others": others,
    "see devices": block_devices,
    "become root by a program that is root's": become_root,
    "make a program that runs as its owner": set_user_bit,
    "mount": lambda: call("mount", b"/etc", b"/tmp", None, MS_BIND, None),
    "make a user namespace": lambda: call("unshare", CLONE_NEWUSER),
    "name the machine": lambda: call("sethostname", b"probe", 5),
    "have memory that is written and run": lambda: mmap.mmap(
        -1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    ),
    "open a packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    "open a netlink socket": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
}
for shared in ("/dev/mqueue", "/dev/shm", "/tmp", "/var/tmp"):
    hold[f"see what others have in {shared}"] = lambda folder=shared: see_marker(folder)
if service == "worker":
    hold["listen"] = listen

status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines() if ":" in line)
facts = {name: status[name].split()[0] for name in ("Uid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")}

folders = []
for folder, below, _ in os.walk("/"):
    if folder == "/":
        below[:] = [name for name in below if name not in ("proc", "sys")]
    if os.access(folder, os.W_OK):
        folders.append(folder)
        below[:] = []


def speak():
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        subprocess.run(["espeak-ng", "-v", "en-us", "-w", file.name, "a word"], check=True, capture_output=True)
        if os.path.getsize(file.name) < 1000:
            raise OSError("there is no sound")


def keep():
    path = pathlib.Path(state, "probe")
    write(path)
    path.unlink()


def keep_program_from_key():
    """What the worker does around a program, by the three system calls: nothing may be read but /usr."""
    create, add, restrict = 444, 445, 446
    read_file, read_folder = 4, 8

    class Ruleset(ctypes.Structure):
        _fields_ = [("access", ctypes.c_uint64)]

    class Below(ctypes.Structure):
        _pack_ = 1
        _fields_ = [("access", ctypes.c_uint64), ("folder", ctypes.c_int)]

    def checked(*arguments):
        ctypes.set_errno(0)
        result = libc.syscall(*arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    ruleset = checked(create, ctypes.byref(Ruleset(read_file | read_folder)), ctypes.sizeof(Ruleset), 0)
    folder = os.open("/usr", os.O_PATH)
    checked(add, ruleset, 1, ctypes.byref(Below(read_file | read_folder, folder)), 0)
    reading, writing = os.pipe()
    if os.fork() == 0:
        # A process that is confined stays so; its end is the exit code.
        try:
            checked(restrict, ruleset, 0)
            os.listdir("/usr")
            pathlib.Path(state, "key").read_bytes()
            os.write(writing, b"it reads the key")
        except PermissionError:
            pass
        except OSError as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    os.wait()
    problem = os.read(reading, 1000).decode()
    if problem:
        raise OSError(problem)


needs = {"write to its own folder": keep, "look a name up": lambda: socket.getaddrinfo("localhost", 80)}
if service == "worker":
    needs["run a speech engine"] = speak
    needs["keep a program from the site's key"] = keep_program_from_key
else:
    needs["listen"] = listen

print(
    json.dumps(
        {
            "held": {name: refused(work) for name, work in hold.items()},
            "works": {name: refused(work) for name, work in needs.items()},
            "folders": folders,
            **facts,
        }
    )
)
