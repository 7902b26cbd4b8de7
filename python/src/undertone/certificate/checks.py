"""The checks of a certificate that need signatures and hashes only (`server/core/src/service/certificate/verify`).

The figures are not computed here. Where a point of `undertone-server certificate verify` compares more than this module does, the
finding is `PARTLY` and says what is left out.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import signed
from .merkle import proves_inclusion
from .signed import PublicKey, SignedError, digest_payload, open_document, parse_object
from .verdict import Finding, PointState, Verdict

__all__ = ["TrustedInputs", "check_certificate"]

# The version of certificates in which every planned release is counted, made or not.
COUNTS_PLANNED = 2
FIGURES = "not computed by this package: use undertone-server (program=...)"
# The fields of a leaf of the log for a row of an account, in the order in which they are hashed (`api/src/log/leaf.rs`).
LEAF_FIELDS = [
    "previous",
    "account",
    "sequence",
    "kind",
    "job",
    "dataset",
    "series",
    "round",
    "attempt",
    "event",
    "count",
    "evaluator",
    "receipt",
    "certificate",
    "at_unix_milliseconds",
]


@dataclass(frozen=True)
class TrustedInputs:
    """The reader's knowledge from other sources.

    Attributes:
        server_key: The server's first public key; `None` to take the one that the certificate names, which proves less.
        site_keys: Keys of sites, hex: if there are some, each site must have one of them.
        model: The file at hand: its bytes and its SHA-256, hex.
    """

    server_key: PublicKey | None = None
    site_keys: frozenset[str] = frozenset()
    model: tuple[int, str] | None = None


@dataclass(frozen=True)
class OpenedReceipt:
    """A receipt whose site signed it."""

    party: int
    digest: str
    content: dict[str, Any]
    proven: Mapping[str, Any]


@dataclass(frozen=True)
class OpenedCertificate:
    """A certificate under examination."""

    content: dict[str, Any]
    key: PublicKey
    manifest: dict[str, Any]
    receipts: list[OpenedReceipt]

    def parts(self) -> Iterator[tuple[dict[str, Any], list[OpenedReceipt]]]:
        """Returns each party with its receipts."""
        for index, party in enumerate(self.content["parties"]):
            yield party, [one for one in self.receipts if one.party == index]


def find(wrong: Sequence[str], text: str, left_out: str = "") -> Finding:
    """Returns the finding of a point with these defects."""
    if wrong:
        return Finding(PointState.FAILS, "\n".join(wrong))
    if left_out:
        return Finding(PointState.PARTLY, f"{text}; not checked: {left_out}")
    return Finding(PointState.HOLDS, text)


def check_certificate(file: Mapping[str, Any], known: TrustedInputs) -> Verdict:
    """Checks every point that signatures and hashes decide."""
    findings: dict[str, Finding] = {}
    try:
        content, key, findings["signature"] = check_signature(file, known)
    except SignedError as error:
        return Verdict({"signature": Finding(PointState.FAILS, str(error))})
    try:
        evidence = file["evidence"]
        manifest = open_document(evidence["manifest"], key, signed.MANIFEST)
    except (SignedError, KeyError, TypeError) as error:
        findings["manifest"] = Finding(PointState.FAILS, f"the manifest: {error}")
        return Verdict(findings)
    points: dict[str, Callable[[OpenedCertificate], Finding]] = {
        "manifest": lambda opened: check_manifest(opened, digest_payload(evidence["manifest"])),
        "sites": lambda opened: check_sites(opened, known),
        "mechanism": unchecked(FIGURES),
        "receipts": lambda opened: check_receipts(opened, wrong),
        "chain": check_chain,
        "counts": check_counts,
        "accountant": unchecked(FIGURES),
        "epsilon": unchecked(FIGURES),
        "rule": unchecked(FIGURES),
        "lineage": unchecked(FIGURES),
        "account": unchecked(FIGURES),
        "log": check_log,
        "audit": check_audit,
        "model": lambda opened: check_model(opened, known),
    }
    receipts, wrong = open_receipts(content, evidence.get("receipts"))
    opened = OpenedCertificate(content, key, manifest, receipts)
    for name, check in points.items():
        try:
            findings[name] = check(opened)
        except (SignedError, KeyError, TypeError, AttributeError) as error:
            findings[name] = Finding(PointState.FAILS, f"a part is missing or has another form: {error!r}")
    return Verdict(findings)


def unchecked(reason: str) -> Callable[[OpenedCertificate], Finding]:
    """Returns the check of a point that this package does not check."""
    return lambda _: Finding(PointState.UNCHECKED, reason)


def check_signature(file: Mapping[str, Any], known: TrustedInputs) -> tuple[dict[str, Any], PublicKey, Finding]:
    """Opens the certificate: with the known key, otherwise with the key that it names."""
    claimed = parse_object(signed.read_text(file, "payload"))
    issuer = claimed.get("issuer")
    if not isinstance(issuer, dict) or not isinstance(claimed.get("parties"), list):
        raise SignedError("the payload is no certificate")
    named = PublicKey(signed.read_text(issuer, "public_key"))
    key = known.server_key or named
    content = open_document(file, key, signed.CERTIFICATE)
    if named.hex != key.hex:
        raise SignedError("the certificate names another server key than the one that signed it")
    if known.server_key is not None:
        return content, key, Finding(PointState.HOLDS, f"signed by the server's key {key.hex}")
    text = f"signed by the key it names, {key.hex}"
    return content, key, find([], text, "that this key is the server's: give server_key, from a worker's enrolment")


def check_manifest(opened: OpenedCertificate, digest: str) -> Finding:
    """Compares the certificate with the manifest that it names."""
    job, manifest, parties = opened.content["job"], opened.manifest, opened.content["parties"]
    claims = {
        "the certificate names another manifest": job["manifest"] == digest,
        "the manifest is of another job": (job["id"], job["title"]) == (manifest["job"], manifest["title"]),
        "the manifest is of another kind of job": job["kind"] == manifest["kind"],
        "the manifest names another proposer": job["proposed_by"] == manifest["proposed_by"],
        "the manifest is of another consortium": opened.content["consortium"]["id"] == manifest["consortium"],
        "the manifest has another number of parties": len(parties) == len(manifest["participants"]),
    }
    wrong = [text for text, holds in claims.items() if not holds]
    same = ("dataset", "dataset_name", "lineage", "organization", "organization_name", "worker", "purpose", "units")
    for party, asked in zip(parties, manifest["participants"], strict=False):
        if any(party[name] != asked[name] for name in same):
            wrong.append(f"{party['dataset_name']}: the manifest names another dataset, site or size")
        if read_charge(party.get("charged")) != read_planned_charge(asked.get("charge")):
            wrong.append(f"{party['dataset_name']}: unit, adjacency, release or reservation is not the manifest's")
    left_out = "that the charges and the number of rounds follow from the spec"
    return find(wrong, f"{digest}, of {len(parties)} parties", left_out)


def read_charge(charged: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
    if charged is None:
        return None
    return charged["unit"], charged["adjacency"], charged["mechanism"]["event"], charged["releases"]["reserved"]


def read_planned_charge(charge: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
    return None if charge is None else (charge["unit"], charge["adjacency"], charge["event"], charge["releases"])


def check_sites(opened: OpenedCertificate, known: TrustedInputs) -> Finding:
    """Compares the sites' keys with the known ones."""
    if not known.site_keys:
        return Finding(PointState.UNCHECKED, "the sites' keys are those that the certificate names: give site_keys")
    strange = [party for party in opened.content["parties"] if party["site_key"].lower() not in known.site_keys]
    wrong = [f"{party['organization_name']}: {party['site_key']} is none of the given keys" for party in strange]
    return find(wrong, "each site has one of the given keys")


def open_receipts(content: Mapping[str, Any], proven: Any) -> tuple[list[OpenedReceipt], list[str]]:
    """Opens the receipts, each with the key of the site whose dataset it names; returns the defects of the others too."""
    good: list[OpenedReceipt] = []
    wrong: list[str] = []
    if not isinstance(proven, list):
        return good, ["the evidence has no list of receipts"]
    parties = {party.get("dataset"): index for index, party in enumerate(content["parties"])}
    keys: dict[str, PublicKey] = {}
    for number, one in enumerate(proven, start=1):
        try:
            claimed = parse_object(signed.read_text(one["receipt"], "payload"))
            index = parties.get(claimed.get("dataset"))
            if index is None:
                raise SignedError("it names a dataset that the certificate does not")
            text = content["parties"][index]["site_key"]
            key = keys[text] = keys.get(text) or PublicKey(text)
            receipt = open_document(one["receipt"], key, signed.RECEIPT)
            good.append(OpenedReceipt(index, digest_payload(one["receipt"]), receipt, one))
        except (SignedError, KeyError, TypeError) as error:
            wrong.append(f"receipt {number} of the file: {error}")
    return good, wrong


def check_receipts(opened: OpenedCertificate, wrong: list[str]) -> Finding:
    """Checks that each receipt is of this job, site and charge."""
    job, wrong = opened.content["job"], list(wrong)
    for party, receipts in opened.parts():
        charged = party.get("charged")
        for receipt in (one.content for one in receipts):
            place = f"{party['dataset_name']}: receipt {receipt['sequence']}"
            if charged is None:
                wrong.append(f"{place} pays for data that pay nothing")
                continue
            if (receipt["job"], receipt["manifest"]) != (job["id"], job["manifest"]):
                wrong.append(f"{place}: it is of another job or manifest")
            if (receipt["worker"], receipt["lineage"]) != (party["worker"], party["lineage"]):
                wrong.append(f"{place}: it is another site's")
            if (receipt["unit"], receipt["adjacency"]) != (charged["unit"], charged["adjacency"]):
                wrong.append(f"{place}: unit or adjacency differ")
            if receipt["event"] not in (charged["mechanism"]["event"], {"event": "non_private"}):
                wrong.append(f"{place}: the release is not the charged one")
    return find(wrong, f"{len(opened.receipts)} receipts, each signed by its site", "that the manifest plans their rounds")


def check_chain(opened: OpenedCertificate) -> Finding:
    """Checks that the receipts are the pieces of chains that the certificate names, and that neighbours are linked."""
    wrong: list[str] = []
    chains: dict[str, dict[int, OpenedReceipt]] = {}
    for party, receipts in opened.parts():
        numbers = [one.content["sequence"] for one in receipts]
        if any(after <= before for before, after in itertools.pairwise(numbers)):
            wrong.append(f"{party['dataset_name']}: the receipts are not in the order of their numbers")
        for one in receipts:
            chains.setdefault(one.content["worker"], {})[one.content["sequence"]] = one
        charged = party.get("charged")
        if charged is not None and describe_piece(receipts) != charged["receipts"]:
            count = charged["receipts"]["count"]
            wrong.append(f"{party['dataset_name']}: {len(receipts)} receipts are in the file, the certificate names {count} others")
    gaps = 0
    for chain in chains.values():
        order = sorted(chain)
        for number, following in itertools.pairwise(order):
            if following != number + 1:
                gaps += 1
            elif chain[following].content["previous"] != chain[number].digest:
                wrong.append(f"receipt {following} does not follow receipt {number} of its site")
    between = f"; other jobs' receipts lie between at {gaps} places" if gaps else ""
    return find(wrong, f"each link that can be seen holds{between}")


def describe_piece(receipts: Sequence[OpenedReceipt]) -> dict[str, Any]:
    """Returns the piece of a chain as a certificate states it."""
    digests = "".join(f"{one.digest}\n" for one in receipts)
    return {
        "count": len(receipts),
        "first": receipts[0].content["sequence"] if receipts else None,
        "last": receipts[-1].content["sequence"] if receipts else None,
        "head": receipts[-1].digest if receipts else None,
        "list": hashlib.sha256(digests.encode()).hexdigest(),
    }


def check_counts(opened: OpenedCertificate) -> Finding:
    """Checks the numbers of releases against the receipts."""
    wrong: list[str] = []
    total = 0
    version = opened.content.get("version", 1)
    for party, receipts in opened.parts():
        charged = party.get("charged")
        if charged is None:
            continue
        name, states = party["dataset_name"], charged["releases"]
        events = [one.content["event"] for one in receipts]
        paid, exact = events.count(charged["mechanism"]["event"]), events.count({"event": "non_private"})
        attempts = {(one.content["series"], one.content["round"], one.content["attempt"]) for one in receipts}
        counted = count_releases(version, states)
        claims = {
            f"{paid} releases have receipts, the certificate says {states['committed']}": paid == states["committed"],
            f"{exact} exact releases have receipts, not {states['in_the_clear']}": exact == states["in_the_clear"],
            "more was paid than was reserved": states["committed"] <= states["reserved"],
            "one attempt at a round was paid twice": len(attempts) == len(receipts),
            "the ticks of the release clock are not those of the receipts": charged.get("clock") == summarize_ticks(receipts),
            f"the rules of version {version} are not known, or did not hold for zero-out": counted is not None
            and (version >= COUNTS_PLANNED or charged["adjacency"] != "zero_out"),
            f"{states['counted']} releases are counted, {counted} would be right": counted is None or states["counted"] == counted,
        }
        wrong += [f"{name}: {text}" for text, holds in claims.items() if not holds]
        total += paid
    rule = "all that were planned" if version >= COUNTS_PLANNED else "those made, by the rules of version 1"
    return find(wrong, f"{total} releases paid, as the receipts say; the figures count {rule}")


def count_releases(version: int, states: Mapping[str, Any]) -> int | None:
    """Returns how many releases the figures count under the rules of a version; `None` for an unknown version."""
    if version not in (1, COUNTS_PLANNED):
        return None
    committed, reserved = int(states["committed"]), int(states["reserved"])
    return committed if version == 1 and states["settled"] else max(committed, reserved)


def summarize_ticks(receipts: Sequence[OpenedReceipt]) -> dict[str, int] | None:
    """Returns the ticks of the release clock as a certificate states them."""
    ticks = [one.content["tick"] for one in receipts if one.content.get("tick") is not None]
    if not ticks:
        return None
    late = sum(tick["number"] != 1 for tick in ticks)
    return {"period_millis": max(tick["period_millis"] for tick in ticks), "releases": len(ticks), "late": late}


def check_log(opened: OpenedCertificate) -> Finding:
    """Checks that the server's log charges each receipt, under the head in the certificate."""
    if opened.content.get("head") is None:
        return Finding(PointState.UNCHECKED, "the certificate carries no head of the server's log")
    head = open_document(opened.content["head"], opened.key, signed.HEAD)
    if head["server"] != opened.key.log_id:
        return Finding(PointState.FAILS, "the head is of another server's log")
    wrong: list[str] = []
    for party, receipts in opened.parts():
        for one in receipts:
            defect = check_place(one, party, head, opened.key)
            if defect:
                wrong.append(f"{party['dataset_name']}: receipt {one.content['sequence']}: {defect}")
    return find(wrong, f"each receipt is charged in the server's log of {head['size']} entries")


def check_place(one: OpenedReceipt, party: Mapping[str, Any], head: Mapping[str, Any], key: PublicKey) -> str | None:
    """Returns the defect of a receipt's place in the log, if it has one."""
    logged, receipt = one.proven.get("logged"), one.content
    if logged is None:
        return "it comes without its place in the log"
    statement = open_document(logged["countersignature"], key, signed.COUNTERSIGNATURE)
    expected = (receipt["worker"], receipt["sequence"], one.digest, key.log_id)
    if (statement["worker"], statement["sequence"], statement["receipt"], statement["server"]) != expected:
        return "the countersignature is for another receipt"
    root = signed.parse_hex(head["root"], 32, "the root")
    proof = [signed.parse_hex(sibling, 32, "a hash of the proof") for sibling in logged["inclusion"]]
    if not proves_inclusion(logged["leaf"].encode(), statement["position"], head["size"], root, proof):
        return "it is not in the log where its countersignature says"
    leaf = parse_object(logged["leaf"])
    if not is_canonical(leaf, logged["leaf"]):
        return "the leaf is not in the one form that is hashed"
    if leaf["account"] != party["charged"]["account"]["account"]:
        return "the log charges another account"
    charge = {"kind": "commit", "count": 1, "receipt": one.digest}
    charge |= {name: receipt[name] for name in ("job", "dataset", "series", "round", "attempt")}
    if any(leaf[name] != value for name, value in charge.items()) or parse_object(leaf["event"]) != receipt["event"]:
        return "the log charges something else"
    return None


def is_canonical(leaf: Mapping[str, Any], text: str) -> bool:
    """Returns whether a leaf has the fields of a row, in order, written as they are hashed."""
    fields = [name for name in LEAF_FIELDS if name != "certificate" or name in leaf]
    return list(leaf) == fields and json.dumps(leaf, separators=(",", ":"), ensure_ascii=False) == text


def check_audit(opened: OpenedCertificate) -> Finding:
    """Checks that each site signed its audit of this job's releases."""
    wrong: list[str] = []
    missing: list[str] = []
    names: list[str] = []
    for party in opened.content["parties"]:
        charged = party.get("charged")
        audit = charged.get("audit") if charged is not None else None
        if audit is None:
            continue
        if audit.get("statement") is None:
            missing.append(party["dataset_name"])
            continue
        statement = open_document(audit["statement"], PublicKey(party["site_key"]), signed.AUDIT)
        expected = {name: party[name] for name in ("worker", "dataset", "lineage")}
        expected |= {name: charged[name] for name in ("unit", "adjacency")}
        expected |= {"job": opened.content["job"]["id"], "manifest": opened.content["job"]["manifest"]}
        expected |= {"event": charged["mechanism"]["event"], "releases": charged["releases"]["committed"]}
        if any(statement[name] != value for name, value in expected.items()):
            wrong.append(f"{party['dataset_name']}: the statement is about another job, site or release")
        names.append(party["dataset_name"])
    if missing and not wrong:
        return Finding(PointState.UNCHECKED, f"no statement of {', '.join(missing)}")
    text = f"signed statements of {', '.join(names)}" if names else "the certificate names no audit"
    return find(wrong, text, "whether the manifest asks for one, and the measured bounds")


def check_model(opened: OpenedCertificate, known: TrustedInputs) -> Finding:
    """Checks that the file at hand is one of the job's."""
    if known.model is None:
        return Finding(PointState.UNCHECKED, "no file was given (model=...)")
    size, digest = known.model
    for artifact in opened.content["artifacts"]:
        if (artifact["size"], artifact["digest"]) == (size, digest):
            return find([], f"the file is the job's {artifact['name']}")
    return find([f"{digest} ({size} bytes) is none of the job's files"], "")
