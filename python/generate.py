"""Generates the package `undertone.rest` from the reviewed description of REST.

    python generate.py FOLDER

The interpreter needs openapi-python-client (`.ci/client.sh` prints such a Python). The description is the snapshot with which a test
of the server compares its own, so that this needs no running server.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
SNAPSHOT = HERE.parent / "server/src/rest/snapshots/undertone_server__rest__tests__the_description_is_what_was_agreed.snap"
# Messages of the generator for parts of the description that it leaves out.
LOSSES = ("Endpoint will not be generated", "response will be omitted", "Unable to process schema")


def read_description(path: pathlib.Path) -> dict[str, Any]:
    """Returns the description in a snapshot: JSON below two lines of three hyphens."""
    _, _, text = path.read_text(encoding="utf-8").split("---\n", 2)
    description = json.loads(text)
    if not isinstance(description, dict):
        raise ValueError(f"{path} holds no OpenAPI document")
    return description


def share_items(description: dict[str, Any]) -> int:
    """Replaces the written-out items of each page `Page_X` by a reference to `X`; returns their number.

    The generator would make a second class of every such item.
    """
    schemas = description["components"]["schemas"]
    count = 0
    for name, page in schemas.items():
        item = name.removeprefix("Page_")
        if item == name or item not in schemas:
            continue
        items = page["properties"]["items"]
        if items["items"] == schemas[item]:
            items["items"] = {"$ref": f"#/components/schemas/{item}"}
            count += 1
    return count


def open_objects(node: Any) -> None:
    """Describes objects without named fields as any value, in place.

    The generator makes a class of each, and fails where it reads the schema around one twice. Such a value is a `dict` in the client.
    """
    if isinstance(node, dict):
        if node.get("type") == "object" and set(node) <= {"type", "description"}:
            del node["type"]
        for value in node.values():
            open_objects(value)
    elif isinstance(node, list):
        for value in node:
            open_objects(value)


def drop_security(description: dict[str, Any]) -> None:
    """Removes the security of each operation: a client of either class sends its credential with each request."""
    for operations in description["paths"].values():
        for operation in operations.values():
            if isinstance(operation, dict):
                operation.pop("security", None)


def generate(target: pathlib.Path) -> None:
    """Writes the package into `target`, which must not exist."""
    description = read_description(SNAPSHOT)
    share_items(description)
    open_objects(description["components"]["schemas"])
    drop_security(description)
    with tempfile.TemporaryDirectory() as folder:
        document = pathlib.Path(folder, "openapi.json")
        document.write_text(json.dumps(description), encoding="utf-8")
        command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none", "--path", str(document)]
        command += ["--config", str(HERE / "generator.yml"), "--output-path", str(target)]
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    text = result.stdout + result.stderr
    if result.returncode != 0 or any(loss in text for loss in LOSSES):
        raise SystemExit(f"the client cannot be generated:\n{text}")
    if not (target / "client.py").is_file():
        raise SystemExit(f"the generator wrote no client:\n{text}")
    (target / "py.typed").touch()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: generate.py FOLDER")
    generate(pathlib.Path(sys.argv[1]))
