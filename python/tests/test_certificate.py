"""Verification of certificates: of a real job, of lies that the server signs, and of forged proofs."""

from __future__ import annotations

import copy
import hashlib
import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import undertone
from consortium import LocalConsortium, program
from undertone import Certificate, PointState, VerificationError
from undertone.certificate.merkle import hash_leaf, hash_node, proves_inclusion
from undertone.certificate.program import parse_report
from undertone.certificate.signed import (
    CERTIFICATE,
    HEAD,
    RECEIPT,
    SMALL_ORDER,
    PublicKey,
    SignedError,
    open_document,
    parse_object,
)
from undertone.certificate.verdict import POINTS
from undertone.rest.models import Job

FIGURES = {"mechanism", "accountant", "epsilon", "rule", "lineage", "account"}


@pytest.fixture(scope="module")
def certificate(client: undertone.Client, trained: Job) -> Certificate:
    return client.certificate(trained)


@pytest.fixture(scope="module")
def keys(consortium: LocalConsortium, certificate: Certificate) -> dict[str, Any]:
    return {"server_key": consortium.server_key, "site_keys": [party["site_key"] for party in certificate.content["parties"]]}


def test_package_checks_what_needs_no_figures(
    certificate: Certificate, keys: dict[str, Any], client: undertone.Client, trained: Job, tmp_path: pathlib.Path
) -> None:
    model = client.download(trained, "model.safetensors", tmp_path)
    verdict = certificate.verify(**keys, model=model)
    assert verdict.holds and not verdict.complete, str(verdict)
    assert list(verdict.findings) == list(POINTS)
    assert set(verdict.unchecked) == FIGURES | {"manifest", "receipts", "audit"}, str(verdict)
    assert all(verdict.findings[name].state is PointState.UNCHECKED for name in FIGURES)
    assert "not computed" in str(verdict)
    alone = certificate.verify()
    assert alone.holds and {"signature", "sites", "model"} <= set(alone.unchecked)


def test_program_completes_the_verdict(
    certificate: Certificate, keys: dict[str, Any], client: undertone.Client, trained: Job, tmp_path: pathlib.Path
) -> None:
    model = client.download(trained, "model.safetensors", tmp_path)
    verdict = certificate.verify(**keys, model=model, program=program("undertone-server"))
    assert verdict.complete and verdict.require() is verdict, str(verdict)
    without = certificate.verify(site_keys=keys["site_keys"], model=model, program=program("undertone-server"))
    assert without.holds and without.unchecked == ("signature",), "nothing says that the key is the server's"
    with pytest.raises(VerificationError, match="does not run"):
        certificate.verify(program=tmp_path / "nothing")


def test_costs_are_those_of_the_certificate(certificate: Certificate) -> None:
    (row,) = list(certificate.costs())
    assert row["dataset"] == "north-speech" and row["limit"] == 50.0 and row["delta"] == 1e-6
    assert 0 < row["tight"] < row["epsilon"] <= row["limit"]


def test_file_survives_a_disk(certificate: Certificate, keys: dict[str, Any], tmp_path: pathlib.Path) -> None:
    path = certificate.save(tmp_path / "certificate.json")
    assert Certificate.load(path).verify(**keys).holds
    path.write_text(path.read_text().replace('"payload"', '"text"', 1))
    with pytest.raises(VerificationError, match="payload, signature and evidence"):
        Certificate.load(path)
    path.write_text('{"payload": "{}", "payload": "{}"}')
    with pytest.raises(VerificationError, match="twice"):
        Certificate.load(path)


def test_another_key_or_model_is_found(
    certificate: Certificate, keys: dict[str, Any], consortium: LocalConsortium, tmp_path: pathlib.Path
) -> None:
    other = Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    assert certificate.verify(server_key=other).failed == ("signature",)
    assert certificate.verify(site_keys=[other]).failed == ("sites",)
    wrong = tmp_path / "model"
    wrong.write_bytes(b"another model")
    verdict = certificate.verify(**keys, model=wrong)
    assert verdict.failed == ("model",)
    with pytest.raises(VerificationError, match="FAILED  model"):
        verdict.require()
    with pytest.raises(VerificationError, match="server_key"):
        certificate.verify(server_key="00")


Lie = Callable[[dict[str, Any], dict[str, Any]], None]


def party(content: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in content["parties"] if one["charged"])
    return found


def raise_round(content: dict[str, Any], evidence: dict[str, Any]) -> None:
    receipt = evidence["receipts"][0]["receipt"]
    receipt["payload"] = receipt["payload"].replace('"round":1', '"round":2')


def shift_leaf(content: dict[str, Any], evidence: dict[str, Any]) -> None:
    logged = evidence["receipts"][0]["logged"]
    logged["leaf"] = logged["leaf"].replace('"count":1', '"count":0')


def cut_proof(content: dict[str, Any], evidence: dict[str, Any]) -> None:
    evidence["receipts"][0]["logged"]["inclusion"].pop()


def swap_places(content: dict[str, Any], evidence: dict[str, Any]) -> None:
    first, second = evidence["receipts"][:2]
    first["logged"], second["logged"] = second["logged"], first["logged"]


LIES: dict[str, tuple[Lie, set[str]]] = {
    "other title": (lambda content, _: content["job"].update(title="Another"), {"manifest"}),
    "other size": (lambda content, _: party(content).update(units=10**6), {"manifest"}),
    "other noise": (
        lambda content, _: party(content)["charged"]["mechanism"]["event"].update(noise_multiplier=9.0),
        {"manifest", "receipts", "counts"},
    ),
    "fewer paid": (lambda content, _: party(content)["charged"]["releases"].update(committed=1), {"counts"}),
    "fewer counted": (lambda content, _: party(content)["charged"]["releases"].update(counted=1), {"counts"}),
    "unknown rules": (lambda content, _: content.update(version=3), {"counts"}),
    "no clock": (lambda content, _: party(content)["charged"].update(clock=None), {"counts"}),
    "other site": (lambda content, _: party(content).update(site_key="5" * 64), {"receipts", "chain", "counts"}),
    "receipt withheld": (lambda _, evidence: evidence["receipts"].pop(), {"chain", "counts"}),
    "receipt changed": (raise_round, {"receipts", "chain", "counts"}),
    "receipts exchanged": (lambda _, evidence: evidence["receipts"].reverse(), {"chain"}),
    "receipt twice": (lambda _, evidence: evidence["receipts"].append(evidence["receipts"][-1]), {"chain", "counts"}),
    "leaf changed": (shift_leaf, {"log"}),
    "proof cut": (cut_proof, {"log"}),
    "places exchanged": (swap_places, {"log"}),
    "place withheld": (lambda _, evidence: evidence["receipts"][0].update(logged=None), {"log"}),
    "other account": (
        lambda content, _: party(content)["charged"]["account"].update(account="00000000-0000-0000-0000-000000000000"),
        {"log"},
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_lie_that_the_server_signs_is_found(name: str, certificate: Certificate, keys: dict[str, Any], consortium: LocalConsortium) -> None:
    lie, points = LIES[name]
    content, file = copy.deepcopy(certificate.content), copy.deepcopy(certificate._file)
    lie(content, file["evidence"])
    if content != certificate.content:
        file |= sign(CERTIFICATE.domain, json.dumps(content), consortium)
    found = Certificate(file).verify(server_key=keys["server_key"])
    assert points <= set(found.failed) <= points | {"log"}, str(found)
    full = Certificate(file).verify(server_key=keys["server_key"], program=program("undertone-server"))
    assert set(found.failed) <= set(full.failed), "the program agrees"


def sign(domain: str, payload: str, consortium: LocalConsortium) -> dict[str, str]:
    """Signs with the key of the server of the tests."""
    seed = bytes.fromhex((consortium.folder / "server/signing.key").read_text().strip())
    signature = Ed25519PrivateKey.from_private_bytes(seed).sign(domain.encode() + b"\0" + payload.encode())
    return {"payload": payload, "signature": signature.hex()}


def make_signed(key: Ed25519PrivateKey, domain: str, document: Any) -> dict[str, Any]:
    payload = json.dumps(document)
    return {"payload": payload, "signature": key.sign(domain.encode() + b"\0" + payload.encode()).hex()}


def public(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def make_chain(first: Ed25519PrivateKey, root: Ed25519PrivateKey, online: Ed25519PrivateKey, **changes: Any) -> str:
    """Returns a chain of keys as JSON."""
    introduction = make_signed(first, "undertone/root-introduction/1", {"first": public(first), "root": public(root)})
    by_root = root.sign(b"undertone/root-introduction/1\0" + introduction["payload"].encode()).hex()
    validity = {"from": "2026-11-01T00:00:00Z", "until": "2026-12-01T00:00:00Z"}
    content = {"serial": 1, "least_serial": 0, "key": public(online), "purpose": "log", **validity, **changes}
    certificate = make_signed(root, "undertone/key-certificate/1", content)
    return json.dumps({"certificate": certificate, "introduction": {"by_first": introduction, "by_root": by_root}})


def test_certified_key_signs_its_purpose_in_its_time() -> None:
    first, root, online, other = (Ed25519PrivateKey.generate() for _ in range(4))
    head = make_signed(online, HEAD.domain, {"size": 1, "at": "2026-11-15T00:00:00Z"})

    def open_with(chain: str, key: Ed25519PrivateKey = first) -> dict[str, Any]:
        return open_document({**head, "signature": head["signature"] + chain}, PublicKey(public(key)), HEAD)

    assert open_with(make_chain(first, root, online))["size"] == 1
    refused = {
        "does not hold": make_chain(first, root, other),
        "kind of document": make_chain(first, root, online, purpose="job"),
        "not valid at the time": make_chain(first, root, online, until="2026-11-15T00:00:00Z"),
        "too long": make_chain(first, root, online, purpose="log" + " " * 4096),
    }
    for message, chain in refused.items():
        with pytest.raises(SignedError, match=message):
            open_with(chain)
    with pytest.raises(SignedError, match="does not hold"):
        open_with(make_chain(first, root, online), other)
    with pytest.raises(SignedError, match="does not hold"):
        open_with("")
    receipt = make_signed(online, RECEIPT.domain, {"sequence": 1})
    with pytest.raises(SignedError, match="kind of document"):
        chained = receipt["signature"] + make_chain(first, root, online)
        open_document({**receipt, "signature": chained}, PublicKey(public(first)), RECEIPT)


def test_document_opens_as_its_own_kind_only() -> None:
    key = Ed25519PrivateKey.generate()
    signed = make_signed(key, RECEIPT.domain, {"sequence": 1})
    assert open_document(signed, PublicKey(public(key)), RECEIPT) == {"sequence": 1}
    with pytest.raises(SignedError, match="does not hold"):
        open_document(signed, PublicKey(public(key)), HEAD)
    with pytest.raises(SignedError, match="twice"):
        parse_object('{"a": {"b": 1, "b": 2}}')


def test_keys_of_small_order_are_refused() -> None:
    assert len(SMALL_ORDER) == 5
    for y in SMALL_ORDER:
        for sign_bit in (0, 1 << 255):
            with pytest.raises(SignedError, match="small order"):
                PublicKey((y | sign_bit).to_bytes(32, "little").hex())


def test_every_leaf_of_every_tree_is_proved() -> None:
    def root_of(leaves: list[bytes]) -> bytes:
        if len(leaves) == 1:
            return hash_leaf(leaves[0])
        split = 1 << (len(leaves) - 1).bit_length() - 1
        return hash_node(root_of(leaves[:split]), root_of(leaves[split:]))

    def path(position: int, leaves: list[bytes]) -> list[bytes]:
        if len(leaves) == 1:
            return []
        split = 1 << (len(leaves) - 1).bit_length() - 1
        if position < split:
            return [*path(position, leaves[:split]), root_of(leaves[split:])]
        return [*path(position - split, leaves[split:]), root_of(leaves[:split])]

    for size in range(1, 34):
        leaves = [number.to_bytes(2, "big") for number in range(size)]
        root = root_of(leaves)
        for position, leaf in enumerate(leaves):
            proof = path(position, leaves)
            assert proves_inclusion(leaf, position, size, root, proof)
            assert not proves_inclusion(leaf + b"x", position, size, root, proof)
            assert not proves_inclusion(leaf, position, size, root, [*proof, root])
            assert not proves_inclusion(leaf, position, size, hashlib.sha256(root).digest(), proof)
            if size > 1:
                assert not proves_inclusion(leaf, (position + 1) % size, size, root, proof)
                assert not proves_inclusion(leaf, position, size, root, proof[:-1])
    assert not proves_inclusion(b"", 1, 1, b"", []) and not proves_inclusion(b"", -1, 1, b"", [])


def test_report_of_the_program_is_read_line_by_line() -> None:
    verdict = parse_report(
        "ok      signature  by a key\nFAILED  counts     one\nFAILED  counts     two\n-       model      not checked: none\n"
    )
    assert verdict.failed == ("counts",) and verdict.findings["counts"].text == "one\ntwo"
    assert "model" in verdict.unchecked and "epsilon" in verdict.unchecked
    with pytest.raises(VerificationError, match="does not know"):
        parse_report("ok      horoscope  favourable")
