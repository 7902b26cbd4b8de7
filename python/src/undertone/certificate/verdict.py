"""The result of the checks of a certificate, point by point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from ..errors import VerificationError

__all__ = ["POINTS", "Finding", "PointState", "Verdict"]

# The points, in the order and with the names of `undertone-server certificate verify`.
POINTS: Mapping[str, str] = MappingProxyType(
    {
        "signature": "the stated key signed this certificate",
        "manifest": "the manifest is the server's, and agrees with the certificate",
        "sites": "the sites' keys are the known ones",
        "mechanism": "noise, sampling and clip follow from the manifest",
        "receipts": "each receipt is signed by its site and pays for a planned release",
        "chain": "the receipts are complete, unbroken pieces of the sites' chains",
        "counts": "the number of releases is correct",
        "accountant": "the formulas are those of the verifier",
        "epsilon": "each party's epsilon follows from its releases",
        "rule": "the consortium's epsilon follows under the rule",
        "lineage": "the cost of the jobs that the initial model follows from adds up",
        "account": "each account's stated balance is within its limit and includes this job",
        "log": "each receipt is charged in the server's log under the signed head",
        "audit": "no audit measured more than the claim",
        "model": "the file at hand is the job's",
    }
)


class PointState(StrEnum):
    """The state of a point."""

    HOLDS = "ok"
    PARTLY = "partly"
    UNCHECKED = "-"
    FAILS = "FAILED"


@dataclass(frozen=True)
class Finding:
    """The result for one point.

    Attributes:
        state: Whether it holds.
        text: What was found; for `PARTLY` also what was not checked.
        by: The verifier: `undertone` (this package), or `undertone-server`.
    """

    state: PointState
    text: str
    by: str = "undertone"


@dataclass(frozen=True)
class Verdict:
    """The results for all points that could be reached. An earlier failure can leave later points out.

    Attributes:
        findings: The finding of each point, by name.
    """

    findings: Mapping[str, Finding]

    @property
    def holds(self) -> bool:
        """Whether nothing that was checked is wrong. See `complete` for whether all was checked."""
        return bool(self.findings) and not self.failed

    @property
    def complete(self) -> bool:
        """Whether every point was checked in full, and holds."""
        return set(self.findings) == set(POINTS) and all(one.state is PointState.HOLDS for one in self.findings.values())

    @property
    def failed(self) -> tuple[str, ...]:
        """The points that do not hold."""
        return self._select(PointState.FAILS)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The points that were not checked in full, or not reached."""
        known = self._select(PointState.PARTLY, PointState.UNCHECKED)
        return known + tuple(name for name in POINTS if name not in self.findings)

    def _select(self, *states: PointState) -> tuple[str, ...]:
        return tuple(name for name in POINTS if name in self.findings and self.findings[name].state in states)

    def require(self) -> Verdict:
        """Returns this verdict.

        Raises:
            VerificationError: Some point does not hold.
        """
        if not self.holds:
            raise VerificationError(f"the certificate does not hold:\n{self}")
        return self

    def merge(self, other: Verdict) -> Verdict:
        """Returns both verdicts as one: a failure in either counts, otherwise the finding that checked more."""
        order = (PointState.FAILS, PointState.HOLDS, PointState.PARTLY, PointState.UNCHECKED)
        merged: dict[str, Finding] = {}
        for name in POINTS:
            candidates = [one.findings[name] for one in (self, other) if name in one.findings]
            if candidates:
                merged[name] = min(candidates, key=lambda finding: order.index(finding.state))
        return Verdict(merged)

    def __str__(self) -> str:
        lines = []
        for name, finding in self.findings.items():
            texts = finding.text.split("\n") if finding.state is PointState.FAILS else [finding.text]
            lines += [f"{finding.state:<8}{name:<11}{text}" for text in texts]
        lines += [f"{PointState.UNCHECKED:<8}{name:<11}not reached" for name in POINTS if name not in self.findings]
        return "\n".join(lines)
