"""A steward's approvals, signed with a key file, for datasets whose site verifies signatures."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Self
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from .certificate.signed import MANIFEST, PublicKey, SignedError, digest_payload, open_document, parse_hex, parse_object
from .errors import VerificationError
from .rest.models import Review, SignedApproval

__all__ = ["StewardKey"]

DOMAIN = b"undertone/approval/1"


class StewardKey:
    """A key file of `undertone-worker steward-key make`. Its `repr` shows the public half alone."""

    def __init__(self, seed: bytes) -> None:
        """Takes the 32 bytes of a private key."""
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public_key = self._key.public_key().public_bytes_raw().hex()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a key file.

        Raises:
            VerificationError: The file holds no key.
        """
        text = pathlib.Path(path).read_text(encoding="ascii", errors="replace").strip()
        try:
            return cls(parse_hex(text, 32, "the key"))
        except SignedError:
            raise VerificationError(f"{os.fspath(path)} holds no key of `undertone-worker steward-key make`") from None

    def approve(self, review: Review, *, server_key: str | None = None, terms: Mapping[str, Any] | None = None) -> SignedApproval:
        """Signs the approval of the manifest in a review, by its digest. Read the manifest before.

        Args:
            review: The answer of `Client.review`.
            server_key: The server's public key, hex; if given, the manifest must have its signature.
            terms: The answer to the terms that the proposal leaves open: `{"noise_multiplier": 2.0}`.

        Raises:
            VerificationError: The manifest is of another job, or its signature does not hold.
        """
        manifest = review.manifest.to_dict()
        try:
            if server_key is None:
                content = parse_object(manifest["payload"])
            else:
                content = open_document(manifest, PublicKey(server_key), MANIFEST)
        except SignedError as error:
            raise VerificationError(f"the manifest: {error}") from error
        if content.get("job") != str(review.job) or digest_payload(manifest) != review.digest:
            raise VerificationError("the manifest in the review is of another job, or has another digest")
        return self._sign(digest_payload(manifest), review.job, review.dataset, terms)

    def _sign(self, manifest: str, job: UUID, dataset: UUID, terms: Mapping[str, Any] | None) -> SignedApproval:
        statement: dict[str, Any] = {"manifest": manifest, "job": str(job), "dataset": str(dataset), "decision": "approve"}
        if terms:
            statement["terms"] = dict(terms)
        payload = json.dumps(statement, separators=(",", ":"))
        signature = self._key.sign(DOMAIN + b"\0" + payload.encode()).hex()
        return SignedApproval.from_dict({"payload": payload, "proof": {"kind": "ed25519", "signature": signature}})

    def __repr__(self) -> str:
        return f"<StewardKey {self.public_key}>"
