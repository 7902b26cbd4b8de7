"""An S3-compatible store on loopback for tests: OpenStack Swift with its S3 interface, one device, one user, in a folder.

    python serve.py FOLDER PORT KEY_ID KEY

makes rings and configuration in FOLDER, starts Swift's four servers, makes the bucket `undertone`, prints `serving`, and ends
them when it is ended itself. Meant for tests only: it keeps one copy of everything and syncs nothing.
"""

import hashlib
import hmac
import http.client
import os
import pathlib
import pwd
import signal
import socket
import subprocess
import sys
import time

folder, port, key_id, key = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]), sys.argv[3], sys.argv[4]
tools = pathlib.Path(sys.executable).parent
user = pwd.getpwuid(os.getuid()).pw_name
account, tester = key_id.split(":")


# Each server has a loopback address of its own. Swift's sockets share a port of one address without an error, and then a request
# of the one server reaches the other.
addresses = {"account": "127.0.0.2", "container": "127.0.0.3", "object": "127.0.0.4"}


def free_port(address):
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def write(name, text):
    (folder / name).write_text(text)


def ring(kind, address, at):
    builder = str(folder / f"{kind}.builder")
    for arguments in (
        ["create", "4", "1", "0"],
        ["add", "--region", "1", "--zone", "1", "--ip", address, "--port", str(at), "--device", "one", "--weight", "1"],
        ["rebalance"],
    ):
        subprocess.run([tools / "swift-ring-builder", builder, *arguments], check=True, stdout=subprocess.DEVNULL)


(folder / "devices" / "one").mkdir(parents=True, exist_ok=True)
write("swift.conf", "[swift-hash]\nswift_hash_path_suffix = undertone\n[storage-policy:0]\nname = one\ndefault = yes\n")
ports = {kind: free_port(address) for kind, address in addresses.items()}
for kind, at in ports.items():
    ring(kind, addresses[kind], at)
    write(
        f"{kind}.conf",
        f"""[DEFAULT]
bind_ip = {addresses[kind]}
bind_port = {at}
user = {user}
swift_dir = {folder}
devices = {folder / "devices"}
mount_check = false
workers = 0
log_level = ERROR
fallocate_reserve = 0
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
""",
    )
write(
    "proxy.conf",
    f"""[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
user = {user}
swift_dir = {folder}
workers = 0
log_level = ERROR
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck cache listing_formats bulk s3api tempauth slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
[filter:s3api]
use = egg:swift#s3api
s3_acl = false
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_{account}_{tester} = {key} .admin
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
""",
)

children = []


def stop(*_):
    for child in children:
        child.terminate()
    for child in children:
        child.wait()
    sys.exit(0)


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
for kind in (*ports, "proxy"):
    children.append(subprocess.Popen([tools / f"swift-{kind}-server", folder / f"{kind}.conf"], cwd=folder))


def listens(address, at):
    with socket.socket() as probe:
        return probe.connect_ex((address, at)) == 0


deadline = time.monotonic() + 90
sockets = [*((addresses[kind], at) for kind, at in ports.items()), ("127.0.0.1", port)]
while not all(listens(*place) for place in sockets):
    if time.monotonic() > deadline or any(child.poll() is not None for child in children):
        print("Swift did not start", file=sys.stderr)
        stop()
    time.sleep(0.1)


def signed(secret, *parts):
    for part in parts:
        secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
    return secret


# The bucket, by a request that is signed as AWS describes it (Signature Version 4).
host, empty = f"127.0.0.1:{port}", hashlib.sha256(b"").hexdigest()
now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
names = "host;x-amz-content-sha256;x-amz-date"
request = f"PUT\n/undertone\n\nhost:{host}\nx-amz-content-sha256:{empty}\nx-amz-date:{now}\n\n{names}\n{empty}"
scope = f"{now[:8]}/us-east-1/s3/aws4_request"
text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
signature = signed(b"AWS4" + key.encode(), *scope.split("/"), text).hex()
headers = {
    "x-amz-date": now,
    "x-amz-content-sha256": empty,
    "Authorization": f"AWS4-HMAC-SHA256 Credential={key_id}/{scope}, SignedHeaders={names}, Signature={signature}",
}
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
connection.request("PUT", "/undertone", headers=headers)
made = connection.getresponse()
said = made.read()
if made.status != 200:
    print(f"the bucket was not made: {made.status} {said}", file=sys.stderr)
    stop()
print("serving", flush=True)
while all(child.poll() is None for child in children):
    time.sleep(0.2)
stop()
