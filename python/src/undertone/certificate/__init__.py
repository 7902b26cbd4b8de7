"""Certificates: the privacy cost of a job, and its verification on this machine."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Self

from ..errors import VerificationError
from ..tables import Table
from .checks import TrustedInputs, check_certificate
from .program import run_program
from .signed import PublicKey, SignedError, parse_object
from .verdict import POINTS, Finding, PointState, Verdict

__all__ = ["POINTS", "Certificate", "Finding", "PointState", "Verdict"]


class Certificate:
    """A certificate's file: the statement that the server signed, with its evidence."""

    def __init__(self, file: Mapping[str, Any]) -> None:
        """Takes the file as the server sends it.

        Raises:
            VerificationError: It is no certificate's file.
        """
        if set(file) != {"payload", "signature", "evidence"}:
            raise VerificationError("a certificate's file has payload, signature and evidence, and nothing else")
        self._file = dict(file)
        try:
            self.content: dict[str, Any] = parse_object(str(file["payload"]))
        except SignedError as error:
            raise VerificationError(f"the certificate cannot be read: {error}") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a file that `save`, the dashboard or REST wrote.

        Raises:
            VerificationError: It is no certificate's file.
        """
        try:
            file = parse_object(pathlib.Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise VerificationError(f"{os.fspath(path)} is no certificate file: {error}") from error
        return cls(file)

    def save(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Writes the file, with payload and signature byte for byte as the server signed them."""
        target = pathlib.Path(path)
        target.write_text(json.dumps(self._file, ensure_ascii=False), encoding="utf-8")
        return target

    def costs(self) -> Table:
        """Returns the stated cost of each charged dataset. These are the server's figures; `verify` examines them.

        `epsilon` is the figure of budgets (Rényi) and `tight` that of this job alone, both at `delta`. `spent` is the lifetime account
        of the dataset after the job, and `limit` its limit.
        """
        columns = ("dataset", "unit", "adjacency", "releases", "epsilon", "tight", "delta", "spent", "limit")
        rows = []
        for party in self.content.get("parties", []):
            charged = party.get("charged")
            if charged is not None:
                account = charged["account"]
                row = [party["dataset_name"], charged["unit"], charged["adjacency"], charged["releases"]["counted"]]
                row += [(charged.get(name) or {}).get("epsilon") for name in ("renyi", "tight")]
                rows.append([*row, account.get("delta"), account["spent"], account.get("limit")])
        return Table(columns, rows)

    def verify(
        self,
        *,
        server_key: str | None = None,
        site_keys: Sequence[str] = (),
        model: str | os.PathLike[str] | None = None,
        program: str | os.PathLike[str] | None = None,
    ) -> Verdict:
        """Checks the certificate on this machine, without the server.

        This package checks signatures, digests, chains, counts and proofs of the log. It computes no epsilon: those points are
        `unchecked` unless `program` names an `undertone-server`, whose `certificate verify` computes each figure again.

        Args:
            server_key: The server's public key, hex, as a worker's enrolment pinned it. Without it the key that the certificate names is
                used, which proves less.
            site_keys: Public keys of sites, hex: if given, each site must have one of them.
            model: A file that must be one of the job's.
            program: The program `undertone-server`, for the figures.

        Raises:
            VerificationError: A given key is none, or the program does not run.
        """
        try:
            key = PublicKey(server_key) if server_key is not None else None
        except SignedError as error:
            raise VerificationError(f"server_key: {error}; expected the server's public key") from error
        known = TrustedInputs(key, frozenset(one.lower() for one in site_keys), measure(model) if model is not None else None)
        verdict = check_certificate(self._file, known)
        if program is None:
            return verdict
        with tempfile.TemporaryDirectory() as folder:
            file = self.save(pathlib.Path(folder, "certificate.json"))
            full = run_program(program, file, server_key=server_key, site_keys=site_keys, model=model)
        return verdict.merge(full)

    def __repr__(self) -> str:
        job = self.content.get("job", {})
        return f"<Certificate of {job.get('title')!r}, issued {self.content.get('issued_at')}>"


def measure(path: str | os.PathLike[str]) -> tuple[int, str]:
    """Returns the bytes and the SHA-256 of a file, which may be larger than the memory."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return file.tell(), digest.hexdigest()
