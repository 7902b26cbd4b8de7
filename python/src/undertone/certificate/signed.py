"""Signed documents: Ed25519 over the domain, a zero byte and the exact bytes of the payload (`api/src/signed.rs`).

A document of the server may be signed by a certified key. Then the chain of its key follows the 128 hexadecimal digits of the
signature, as JSON: a certificate by the root, and the introduction of the root by the server's first key
(`api/src/signed/server_keys`). Without a state of its own a reader cannot see that a later certificate revoked an earlier one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

__all__ = ["DocumentKind", "PublicKey", "SignedError", "digest_payload", "open_document", "parse_object"]

SIGNATURE_DIGITS = 128
MOST_CHAIN_CHARACTERS = 4096
# The prime of the field of Ed25519 (RFC 8032, section 5.1), and the y of all points of order 1, 2, 4 and 8. A key or a commitment of
# small order makes one signature hold for many messages, and `cryptography` accepts it.
PRIME = 2**255 - 19
SMALL_ORDER = frozenset(
    {
        0,
        1,
        PRIME - 1,
        int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"),
        int.from_bytes(bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"),
    }
)


class SignedError(ValueError):
    """A document whose signature does not hold, or that is not the expected document."""


@dataclass(frozen=True)
class DocumentKind:
    """A kind of signed document.

    Attributes:
        domain: The prefix of the payload under the signature.
        purpose: The purpose of the certified keys that may sign it; `None` if a key itself signs.
        stated_time: The field with the time by which a certificate is judged.
    """

    domain: str
    purpose: str | None = None
    stated_time: str | None = None


CERTIFICATE = DocumentKind("undertone/certificate/1", "job", "issued_at")
MANIFEST = DocumentKind("undertone/manifest/1", "job", "issued_at")
RECEIPT = DocumentKind("undertone/receipt/1")
AUDIT = DocumentKind("undertone/audit/1")
HEAD = DocumentKind("undertone/head/1", "log", "at")
COUNTERSIGNATURE = DocumentKind("undertone/countersignature/1", "log", "at")
KEY_CERTIFICATE = DocumentKind("undertone/key-certificate/1")
ROOT_INTRODUCTION = DocumentKind("undertone/root-introduction/1")


class PublicKey:
    """An Ed25519 public key."""

    def __init__(self, text: str) -> None:
        """Parses 64 hexadecimal digits.

        Raises:
            SignedError: It is no key, or one of small order.
        """
        self.hex = text.strip().lower()
        encoded = parse_hex(self.hex, 32, "the key")
        if is_small_order(encoded):
            raise SignedError("the key is of small order")
        self._bytes = encoded
        self._key = Ed25519PublicKey.from_public_bytes(encoded)

    @property
    def log_id(self) -> str:
        """The id of the log whose heads this key signs: SHA-256 of the key (RFC 6962, section 3.2)."""
        return hashlib.sha256(self._bytes).hexdigest()

    def verify(self, signature: bytes, message: bytes) -> None:
        """Verifies a signature of 64 bytes.

        Raises:
            SignedError: This key did not sign this message.
        """
        try:
            if is_small_order(signature[:32]):
                raise SignedError("the signature does not hold")
            self._key.verify(signature, message)
        except InvalidSignature as error:
            raise SignedError("the signature does not hold") from error


def is_small_order(encoded: bytes) -> bool:
    """Returns whether a point of 32 bytes has an order of 1, 2, 4 or 8."""
    return (int.from_bytes(encoded, "little") & (2**255 - 1)) % PRIME in SMALL_ORDER


def parse_hex(text: str, size: int, what: str) -> bytes:
    """Parses exactly `size` bytes of hexadecimal digits."""
    try:
        encoded = bytes.fromhex(text) if len(text) == 2 * size and text.isalnum() else b""
    except ValueError:
        encoded = b""
    if len(encoded) != size:
        raise SignedError(f"{what} is not {2 * size} hexadecimal digits")
    return encoded


def parse_object(text: str) -> dict[str, Any]:
    """Parses a JSON object in which no name stands twice.

    Raises:
        SignedError: It is no such object.
    """

    def keep_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        if len(document) != len(pairs):
            raise SignedError("a name stands twice in an object")
        return document

    try:
        document = json.loads(text, object_pairs_hook=keep_unique)
    except (ValueError, RecursionError) as error:
        raise SignedError(f"the payload is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise SignedError("the payload is no object")
    return document


def digest_payload(signed: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of a document's payload, hex, which identifies it."""
    return hashlib.sha256(read_text(signed, "payload").encode()).hexdigest()


def read_text(document: Mapping[str, Any], name: str) -> str:
    """Returns a text field of a document."""
    value = document.get(name)
    if not isinstance(value, str):
        raise SignedError(f"the document has no text {name!r}")
    return value


def open_document(signed: Mapping[str, Any], key: PublicKey, kind: DocumentKind) -> dict[str, Any]:
    """Opens a document, if `key` or a key that it certifies signed it.

    Args:
        signed: `payload` and `signature`.
        key: A site's key, or the server's first key.
        kind: The expected kind of document.

    Raises:
        SignedError: The signature does not hold, or the payload is not an object.
    """
    payload, text = read_text(signed, "payload"), read_text(signed, "signature")
    document = parse_object(payload)
    message = kind.domain.encode() + b"\0" + payload.encode()
    signature = parse_hex(text[:SIGNATURE_DIGITS], 64, "the signature")
    chain = text[SIGNATURE_DIGITS:]
    signer = key if not chain else certified_key(chain, key, kind, document)
    signer.verify(signature, message)
    return document


def certified_key(chain: str, first: PublicKey, kind: DocumentKind, document: Mapping[str, Any]) -> PublicKey:
    """Returns the key of a chain, if a root that `first` introduced certifies it for this document."""
    if kind.purpose is None or kind.stated_time is None:
        raise SignedError("the key may not sign this kind of document")
    if len(chain.encode()) > MOST_CHAIN_CHARACTERS:
        raise SignedError("the chain of the key is too long")
    links = parse_object(chain)
    root = introduced_root(links.get("introduction"), first)
    certificate = links.get("certificate")
    if set(links) != {"certificate", "introduction"} or not isinstance(certificate, dict):
        raise SignedError("the chain of the key is not well formed")
    content = open_document(certificate, root, KEY_CERTIFICATE)
    if content.get("purpose") != kind.purpose:
        raise SignedError("the key may not sign this kind of document")
    at = parse_time(document, kind.stated_time)
    if not parse_time(content, "from") <= at < parse_time(content, "until"):
        raise SignedError("the key was not valid at the time that the document states")
    return PublicKey(read_text(content, "key"))


def introduced_root(introduction: Any, first: PublicKey) -> PublicKey:
    """Returns the root of an introduction that both keys signed."""
    if not isinstance(introduction, dict) or not isinstance(introduction.get("by_first"), dict):
        raise SignedError("the introduction of the root is not well formed")
    by_first = introduction["by_first"]
    content = open_document(by_first, first, ROOT_INTRODUCTION)
    if read_text(content, "first").lower() != first.hex:
        raise SignedError("another server's key introduced the root")
    root = PublicKey(read_text(content, "root"))
    by_root = {"payload": by_first["payload"], "signature": read_text(introduction, "by_root")}
    open_document(by_root, root, ROOT_INTRODUCTION)
    return root


def parse_time(document: Mapping[str, Any], name: str) -> datetime:
    """Parses a field with a time of RFC 3339."""
    try:
        moment = datetime.fromisoformat(read_text(document, name))
    except ValueError as error:
        raise SignedError(f"{name} is not a time") from error
    if moment.tzinfo is None:
        raise SignedError(f"{name} is a time without a zone")
    return moment
