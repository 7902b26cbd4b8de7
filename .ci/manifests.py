"""Checks the manifests below a folder: `manifests.py FOLDER VERSION`.

Each document must match the schema of its kind in that version of Kubernetes, strictly: an unknown field is an error. A kustomization lists
exactly the other manifests of its folder. Selectors select pods of the folder, and the names of accounts, volume claims, configurations and
ports that a pod refers to exist. Prints each error, and exits with 1 when there is one.
"""

import sys
from pathlib import Path

import kubernetes_validate
import yaml

errors = []


def read(path):
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def check_schema(path, documents, version):
    for document in documents:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            errors.append(f"{path}: {error.message} at {error.path}")


def check_references(folder, documents, kustomization):
    def named(kind):
        return {document["metadata"]["name"] for document in documents if document["kind"] == kind}

    pods = [d["spec"]["template"] for d in documents if d["kind"] in ("Deployment", "StatefulSet")]
    labels = [set(pod["metadata"]["labels"].items()) for pod in pods]

    def check_selector(name, selector):
        if not any(set(selector.items()) <= of_pod for of_pod in labels):
            errors.append(f"{folder}: {name} selects no pod")

    for document in documents:
        name, spec = f"{document['kind']} {document['metadata']['name']}", document.get("spec", {})
        if document["kind"] == "Service":
            check_selector(name, spec["selector"])
        elif "selector" in spec:
            check_selector(name, spec["selector"]["matchLabels"])
        elif "podSelector" in spec:
            check_selector(name, spec["podSelector"]["matchLabels"])
    configurations = {entry["name"] for entry in kustomization.get("configMapGenerator", [])}
    for pod in pods:
        spec = pod["spec"]
        if spec["serviceAccountName"] not in named("ServiceAccount"):
            errors.append(f"{folder}: there is no account {spec['serviceAccountName']}")
        for volume in spec["volumes"]:
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim and claim not in named("PersistentVolumeClaim"):
                errors.append(f"{folder}: there is no volume claim {claim}")
        for container in spec["containers"]:
            ports = {port["name"] for port in container.get("ports", [])}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                port = container.get(probe, {}).get("httpGet", {}).get("port")
                if port and port not in ports:
                    errors.append(f"{folder}: {probe} asks at {port}, which is no port")
            for source in container.get("envFrom", []):
                name = source.get("configMapRef", {}).get("name")
                if name and name not in configurations:
                    errors.append(f"{folder}: there is no configuration {name}")


def main():
    root, version = Path(sys.argv[1]), sys.argv[2]
    folders = sorted(path.parent for path in root.glob("*/kustomization.yaml"))
    if not folders:
        errors.append(f"{root} has no kustomization")
    for folder in folders:
        kustomization = read(folder / "kustomization.yaml")[0]
        files = sorted(path for path in folder.glob("*.yaml") if path.name != "kustomization.yaml")
        if sorted(kustomization["resources"]) != [path.name for path in files]:
            errors.append(f"{folder}: kustomization.yaml lists other resources than the folder has")
        documents = []
        for path in files:
            documents += read(path)
            check_schema(path, read(path), version)
        check_references(folder, documents, kustomization)
    print("\n".join(errors) or f"{len(folders)} folders are valid")
    sys.exit(1 if errors else 0)


main()
