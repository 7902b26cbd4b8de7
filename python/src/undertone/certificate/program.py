"""The full check by the program `undertone-server certificate verify`, which computes every figure again."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace

from ..errors import VerificationError
from .verdict import POINTS, Finding, PointState, Verdict

__all__ = ["parse_report", "run_program"]

LINE = re.compile(r"^(ok|-|FAILED)\s+(\w+)\s+(.*)$")
STATES = {"ok": PointState.HOLDS, "-": PointState.UNCHECKED, "FAILED": PointState.FAILS}
# The exit status of a verification with findings.
UNSOUND = 3
TIME_LIMIT = 600.0


def parse_report(report: str) -> Verdict:
    """Parses the lines of the program's report.

    Raises:
        VerificationError: A line is none that this package knows.
    """
    findings: dict[str, Finding] = {}
    for line in filter(None, report.splitlines()):
        match = LINE.match(line)
        if match is None or match[2] not in POINTS:
            raise VerificationError(f"the report of undertone-server has a line that this package does not know: {line}")
        state, name, text = STATES[match[1]], match[2], match[3]
        if name in findings:
            text = f"{findings[name].text}\n{text}"
        findings[name] = Finding(state, text, "undertone-server")
    return Verdict(findings)


def run_program(
    program: str | os.PathLike[str],
    file: str | os.PathLike[str],
    *,
    server_key: str | None = None,
    site_keys: Sequence[str] = (),
    model: str | os.PathLike[str] | None = None,
) -> Verdict:
    """Runs the program on a certificate's file; it needs no server, database or network.

    Raises:
        VerificationError: The program does not run, or cannot read a file.
    """
    command = [os.fspath(program), "certificate", "verify", os.fspath(file)]
    command += ["--server-key", server_key] if server_key else []
    command += [word for key in site_keys for word in ("--site-key", key)]
    command += ["--model", os.fspath(model)] if model is not None else []
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIME_LIMIT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise VerificationError(f"{command[0]} does not run: {error}") from error
    if result.returncode not in (0, UNSOUND):
        raise VerificationError(f"{command[0]} failed: {result.stderr.strip()}")
    verdict = parse_report(result.stdout)
    if verdict.holds != (result.returncode == 0):
        raise VerificationError(f"the report of {command[0]} does not agree with its exit status {result.returncode}")
    signature = verdict.findings.get("signature")
    if server_key is None and signature is not None and signature.state is PointState.HOLDS:
        # The program used the key that the certificate names, and says so in words.
        weaker = replace(signature, state=PointState.PARTLY)
        return Verdict({**verdict.findings, "signature": weaker})
    return verdict
