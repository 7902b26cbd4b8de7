"""What both clients share: arguments, answers and the ends of jobs."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from uuid import UUID

import httpx

from ._transport import BUSY
from .errors import JobEnded, ProblemError, UndertoneError, UnexpectedResponse, WaitTimeout
from .events import ServerEvent
from .rest.models import (
    AnnotationLabel,
    AnnotationSkip,
    AnnotationUnsure,
    Artifact,
    Consortium,
    Job,
    JobEvent,
    NewAnnotationLabel,
    NewAnnotationSkip,
    State,
)

T = TypeVar("T")

URL_VARIABLE = "UNDERTONE_URL"
KEY_VARIABLE = "UNDERTONE_KEY"
API = "/api/v1"
# The most items of a page.
PAGE = 200
# The states in which a job stays.
FINAL_STATES = frozenset({State.FINISHED, State.FAILED, State.CANCELLED, State.REFUSED})
# The server sends a comment every 15 seconds; a stream that is silent for longer is lost, or a proxy holds it back.
STREAM_SILENCE = 45.0
# Seconds between two looks at a job without a stream of events: the first wait, and the longest.
POLL_FIRST = 0.5
POLL_LONGEST = 10.0
# The failures in a row after which a client stops to follow a job.
MOST_FAILURES = 30
CHUNK = 1 << 16


class HasId(Protocol):
    """A job, dataset, consortium, question or file, as the server describes it."""

    @property
    def id(self) -> UUID:
        """Its id."""


Reference = UUID | str | HasId
JobDocument = Mapping[str, Any] | str | os.PathLike[str]
ProgressCallback = Callable[[JobEvent], object]
Annotation = AnnotationLabel | AnnotationSkip | AnnotationUnsure


def identify(reference: Reference) -> UUID:
    """Returns the id of an object, or of its id as text.

    Raises:
        ValueError: The text is no id.
    """
    if isinstance(reference, UUID):
        return reference
    if isinstance(reference, str):
        try:
            return UUID(reference)
        except ValueError:
            raise ValueError(f"{reference!r} is no id: expected a UUID, or an object that has one") from None
    return reference.id


def expect(kind: type[T], answer: object) -> T:
    """Returns an answer of the expected kind. Failures are raised before, where the response arrives.

    Raises:
        UnexpectedResponse: It is of another kind.
    """
    if not isinstance(answer, kind):
        raise UnexpectedResponse(200, f"it is no {kind.__name__}")
    return answer


def expect_list(kind: type[T], answer: object) -> list[T]:
    """Returns a list of the expected kind, as `expect`."""
    return [expect(kind, item) for item in expect(list, answer)]


def expect_annotation(answer: object) -> Annotation:
    """Returns an answer to a question, as `expect`."""
    if isinstance(answer, (AnnotationLabel, AnnotationSkip, AnnotationUnsure)):
        return answer
    raise UnexpectedResponse(200, "it is no annotation")


def find_address(url: str | None) -> str:
    """Returns the address of REST of a server.

    Raises:
        ValueError: There is no address.
    """
    url = url or os.environ.get(URL_VARIABLE)
    if not url:
        raise ValueError(f"give the server's address, as url or in {URL_VARIABLE}: https://undertone.example.org")
    parsed = httpx.URL(url)
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"{url!r} is no address of a server: expected https://undertone.example.org")
    return str(parsed).rstrip("/").removesuffix(API) + API


def read_document(job: JobDocument) -> dict[str, Any]:
    """Returns a job's document: `title`, `kind` and `spec`, as a mapping or in a JSON file.

    The server examines the fields: its refusal names each violation with its path.

    Raises:
        ValueError: It is no such document.
    """
    if isinstance(job, Mapping):
        document = dict(job)
    else:
        document = json.loads(pathlib.Path(job).read_text(encoding="utf-8"))
    if not isinstance(document, dict) or not {"title", "kind", "spec"} <= set(document):
        raise ValueError("a job's document is an object with title, kind and spec")
    return document


def choose_consortium(consortia: Sequence[Consortium], name: str | None) -> Consortium:
    """Returns the consortium with a name, or the only one.

    Raises:
        UndertoneError: There is no such consortium, or several.
    """
    names = ", ".join(repr(one.name) for one in consortia) or "none"
    chosen = [one for one in consortia if name is None or one.name == name]
    if len(chosen) != 1:
        wanted = "a consortium by itself" if name is None else repr(name)
        raise UndertoneError(f"the caller sees no {wanted}: name one of {names}")
    return chosen[0]


def choose_artifact(artifacts: Sequence[Artifact], name: str) -> Artifact:
    """Returns the file with a name.

    Raises:
        UndertoneError: The job has no such file.
    """
    for artifact in artifacts:
        if artifact.name == name:
            return artifact
    names = ", ".join(one.name for one in artifacts) or "none"
    raise UndertoneError(f"the job has no file {name!r}; its files are {names}")


def read_event(event: ServerEvent) -> JobEvent | None:
    """Returns the state of a job in an event; `None` for another event."""
    return JobEvent.from_dict(json.loads(event.data)) if event.name == "job" else None


def describe_job(job: Mapping[str, Any], progress: Mapping[str, Any]) -> JobEvent:
    """Returns the event of a job as two answers describe it."""
    return JobEvent.from_dict({"job": job, "progress": progress, "diagnoses": job.get("diagnoses", []), "log": 0})


def is_over(event: JobEvent) -> bool:
    """Returns whether a job stays in the state of an event."""
    return event.job.state in FINAL_STATES


def require_finished(job: Job) -> Job:
    """Returns a finished job.

    Raises:
        JobEnded: It ended without a result.
    """
    if job.state is not State.FINISHED:
        raise JobEnded(job)
    return job


def make_annotation(label: str | None) -> NewAnnotationLabel | NewAnnotationSkip:
    """Returns the answer with a label, or the one that leaves a question to others."""
    if label is None:
        return NewAnnotationSkip.from_dict({"answer": "skip"})
    return NewAnnotationLabel.from_dict({"answer": "label", "label": label})


def print_progress(event: JobEvent) -> None:
    """Prints a line about a job: its state, its rounds, its newest measurement and what it waits for."""
    job, progress = event.job, event.progress
    line = f"{job.title}: {job.state}, round {job.rounds_done} of {job.rounds}"
    if progress.measurements:
        newest = progress.measurements[-1]
        line += f", {newest.series} {newest.test} {100 * newest.accuracy:.1f} % right"
    print(f"{line}. {progress.now}")


def check_deadline(deadline: float | None) -> None:
    """Raises `WaitTimeout` after a moment of the monotonic clock."""
    if deadline is not None and time.monotonic() >= deadline:
        raise WaitTimeout("the job did not end in time; it goes on")


def require_passing(error: Exception) -> None:
    """Raises a failure again that is the server's answer, and not of the network or of a busy server."""
    if isinstance(error, (ProblemError, UnexpectedResponse)) and error.status not in BUSY:
        raise error


def read_silence(deadline: float | None) -> float:
    """Returns the seconds for which a stream may be silent, at most until a moment of the monotonic clock."""
    return STREAM_SILENCE if deadline is None else max(0.1, min(STREAM_SILENCE, deadline - time.monotonic()))


def shorten_pause(pause: float, deadline: float | None) -> float:
    """Returns the seconds of a pause, at most until a moment of the monotonic clock."""
    return pause if deadline is None else max(0.0, min(pause, deadline - time.monotonic()))


class FileWriter:
    """Writes a download beside its target and moves it there once size and SHA-256 are the announced ones."""

    def __init__(self, artifact: Artifact, target: pathlib.Path) -> None:
        self._artifact = artifact
        self._target = target
        self._part = target.with_name(f".{target.name}.part")
        self._file = self._part.open("wb")
        self._digest = hashlib.sha256()
        self._size = 0

    def write(self, chunk: bytes) -> None:
        """Writes the next bytes."""
        self._file.write(chunk)
        self._digest.update(chunk)
        self._size += len(chunk)

    def finish(self) -> pathlib.Path:
        """Moves the file to its target.

        Raises:
            UndertoneError: The bytes are not those that the server announced.
        """
        self._file.close()
        if (self._size, self._digest.hexdigest()) != (self._artifact.size, self._artifact.digest):
            raise UndertoneError(f"{self._artifact.name}: the received bytes are not those that the server announced; try again")
        self._part.replace(self._target)
        return self._target

    def discard(self) -> None:
        """Removes what was written, unless it was moved."""
        self._file.close()
        self._part.unlink(missing_ok=True)


def choose_target(artifact: Artifact, path: str | os.PathLike[str] | None) -> pathlib.Path:
    """Returns where a file is written: the path, or the file's own name in it if it is a folder."""
    # The name is the server's: without a folder of its own, it stays in the chosen one.
    name = pathlib.PurePath(artifact.name).name
    target = pathlib.Path(path) if path is not None else pathlib.Path()
    return target / name if target.is_dir() else target
