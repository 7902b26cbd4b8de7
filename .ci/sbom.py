#!/usr/bin/env python3
"""Prints the bill of materials of a released program as a CycloneDX 1.6 document: the crates that are compiled into it for this
machine's platform, with versions, licences, digests and dependencies, read from `cargo tree` and Cargo.lock.

    SOURCE_DATE_EPOCH=SECONDS .ci/sbom.py undertone-server VERSION

The same sources give the same bytes. Needs Python 3.11 and nothing else.
"""
import datetime
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
WASM = "wasm32-unknown-unknown"
FORMAT = "\t{p}\t{l}"


def cargo_tree(package, *options):
    """Returns the edges of a package's tree: (depth, name, version, licence) a line, depth first."""
    command = ["cargo", "tree", "--locked", "--package", package, "--edges", "normal", "--prefix", "depth", "--format", FORMAT]
    text = subprocess.run([*command, *options], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        if not line.strip():
            continue
        depth, name, licence = (line.split("\t") + [""])[:3]
        name, version = name.split(" ")[:2]
        yield int(depth), name, version.removeprefix("v"), licence.removesuffix(" (*)").strip()


def collect(package, *options):
    """Returns the crates below a package by reference, and the references that each depends on."""
    crates, edges, path = {}, {}, []
    for depth, name, version, licence in cargo_tree(package, *options):
        reference = f"pkg:cargo/{name}@{version}"
        crates[reference] = (name, version, licence)
        edges.setdefault(reference, set())
        del path[depth:]
        if path:
            edges[path[-1]].add(reference)
        path.append(reference)
    return crates, edges


def component(reference, crate, checksums):
    name, version, licence = crate
    entry = {"type": "library", "bom-ref": reference, "name": name, "version": version}
    if licence:
        # Older manifests separate alternatives by a slash.
        entry["licenses"] = [{"expression": licence.replace("/", " OR ") if " " not in licence else licence}]
    checksum = checksums.get((name, version))
    if checksum:
        entry["purl"] = reference
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return entry


def document(program, version):
    crates, edges = collect(program)
    if program == "undertone-server":
        # The part of the dashboard that runs in the browser is in the same package.
        options = ["--no-default-features", "--features", "planner", "--target", WASM]
        for ours, others in zip((crates, edges), collect("undertone-app", *options)):
            for reference, value in others.items():
                ours[reference] = ours[reference] | value if isinstance(value, set) and reference in ours else value
        edges[next(iter(edges))].add(next(ref for ref in edges if ref.startswith("pkg:cargo/undertone-app@")))
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(one["name"], one["version"]): one.get("checksum") for one in lock["package"]}
    root = next(iter(crates))
    name, _, licence = crates.pop(root)
    components = [component(reference, crate, checksums) for reference, crate in sorted(crates.items())]
    dependencies = [{"ref": ref, "dependsOn": sorted(below)} for ref, below in sorted(edges.items())]
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    body = {
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "application", "bom-ref": root, "name": name, "version": version, "licenses": [{"expression": licence}]},
        },
        "components": components,
        "dependencies": dependencies,
    }
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
    serial = uuid.UUID(bytes=digest[:16], version=4)
    return {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", "version": 1, **body}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: .ci/sbom.py PROGRAM VERSION")
    json.dump(document(sys.argv[1], sys.argv[2]), sys.stdout, indent=2)
    print()
