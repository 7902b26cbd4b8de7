"""Exceptions: each failure of the server with its code, its fields and its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .rest.models import Job

__all__ = [
    "FieldViolation",
    "JobEnded",
    "ProblemError",
    "UndertoneError",
    "UnexpectedResponse",
    "VerificationError",
    "WaitTimeout",
]


class UndertoneError(Exception):
    """The base of this package's exceptions. Failures of the network are those of httpx."""


@dataclass(frozen=True)
class FieldViolation:
    """A violation of one field.

    Attributes:
        field: The path of the field, dots between, indices as numbers: `spec.participants.2.noise.clip`.
        message: The defect and the valid range.
    """

    field: str
    message: str


class ProblemError(UndertoneError):
    """A refusal by the server: an RFC 9457 problem document.

    Attributes:
        status: The HTTP status, 400 to 599.
        code: The code of the failure: `validation_failed`, `budget_exceeded`, `forbidden`.
        title: The title of the code.
        detail: The occurrence and the remedy, as a sentence.
        violations: Every violation, if the input is invalid.
        refusals: The figures of each account that refused, as the server wrote them.
        retry_after: Seconds after which the request may be repeated, if known.
    """

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(document.get("code", "unknown"))
        self.title = str(document.get("title", ""))
        self.detail = str(document.get("detail", ""))
        self.violations = tuple(
            FieldViolation(str(one.get("field", "")), str(one.get("message", ""))) for one in document.get("violations") or []
        )
        self.refusals: tuple[Mapping[str, Any], ...] = tuple(document.get("refusals") or [])
        self.retry_after: int | None = document.get("retry_after")
        lines = [f"{self.detail or self.title} ({self.code}, HTTP {status})"]
        lines += [f"  {one.field}: {one.message}" for one in self.violations]
        super().__init__("\n".join(lines))


class UnexpectedResponse(UndertoneError):
    """A response that is none of the server's: of a proxy, or of another program at the address.

    Attributes:
        status: The HTTP status.
    """

    def __init__(self, status: int, what: str) -> None:
        self.status = status
        super().__init__(f"the response with HTTP status {status} is not of an Undertone server: {what}")


class JobEnded(UndertoneError):
    """A job that ended without a result: failed, cancelled or refused.

    Attributes:
        job: The job in its final state.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        reason = job.reason if isinstance(job.reason, str) else "no reason was given"
        super().__init__(f'the job "{job.title}" is {job.state}: {reason}')


class WaitTimeout(UndertoneError, TimeoutError):
    """A job that did not end within the time of the wait. The job itself goes on."""


class VerificationError(UndertoneError):
    """A certificate that cannot be examined: no certificate file, no key, or a program that does not run."""
