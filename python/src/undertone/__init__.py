"""Client of an Undertone server: plan, propose and follow jobs under differential privacy, and verify their certificates.

`connect` gives a `Client`, `connect_async` an `AsyncClient` with the same methods. `undertone.rest` is generated from the server's
description and reaches every operation: `undertone.rest.api.jobs.pause_job.sync(job.id, client=client.rest, body=...)`.
"""

from ._shared import print_progress
from ._transport import RetryPolicy
from .aio import AsyncClient, connect_async
from .approval import StewardKey
from .certificate import Certificate, Finding, PointState, Verdict
from .client import Client, connect
from .errors import (
    FieldViolation,
    JobEnded,
    ProblemError,
    UndertoneError,
    UnexpectedResponse,
    VerificationError,
    WaitTimeout,
)
from .tables import Table

__all__ = [
    "AsyncClient",
    "Certificate",
    "Client",
    "FieldViolation",
    "Finding",
    "JobEnded",
    "PointState",
    "ProblemError",
    "RetryPolicy",
    "StewardKey",
    "Table",
    "UndertoneError",
    "UnexpectedResponse",
    "Verdict",
    "VerificationError",
    "WaitTimeout",
    "connect",
    "connect_async",
    "print_progress",
]
