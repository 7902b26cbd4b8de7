"""The asynchronous client: the same methods as `Client`, to be awaited."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import anyio
import httpx

from . import _shared as shared
from . import rest
from ._shared import Annotation, JobDocument, ProgressCallback, Reference, expect, identify
from ._transport import KEY_HEADER, AsyncProblemClient, AsyncRetryTransport, KeyAuth, RetryPolicy, SessionAuth, new_key
from .approval import StewardKey
from .certificate import Certificate
from .errors import ProblemError, UndertoneError, UnexpectedResponse
from .events import EventReader
from .rest.api.consortia import list_consortia, list_datasets
from .rest.api.jobs import (
    approve_job,
    cancel_job,
    get_job,
    get_progress,
    get_report,
    list_artifacts,
    list_job_audits,
    list_jobs,
    refuse_job,
    review_job,
)
from .rest.api.questions import annotate_question, next_questions
from .rest.api.session import finish_sign_in, get_me, sign_in, sign_out
from .rest.models import (
    Approve,
    Artifact,
    AuditView,
    Consortium,
    Dataset,
    HalfSession,
    Job,
    JobEvent,
    JobSummary,
    Member,
    PageConsortium,
    PageDataset,
    PageJobSummary,
    PartyTerms,
    Plan,
    Progress,
    Queue,
    Refuse,
    ReportFile,
    Review,
    SecondStep,
    Session,
    SignIn,
)
from .rest.types import UNSET
from .tables import Table, tabulate_budgets, tabulate_measurements

__all__ = ["AsyncClient", "connect_async"]


async def connect_async(
    url: str | None = None,
    *,
    key: str | None = None,
    email: str | None = None,
    password: str | None = None,
    second_factor: Callable[[], str] | None = None,
    verify: bool | str = True,
    timeout: float = 30.0,
    retries: RetryPolicy | None = None,
) -> AsyncClient:
    """Returns a client of a server, signed in.

    Args:
        url: The server's address; by default in `UNDERTONE_URL`.
        key: An API key, `udk_...`; by default in `UNDERTONE_KEY`.
        email: The e-mail of a member, to sign in with `password` instead of a key.
        password: The member's password.
        second_factor: Returns the six digits of the authenticator, if the member has one.
        verify: Whether the TLS certificate is verified, or the file of the authority to trust.
        timeout: Seconds that connecting, and each wait for bytes, may take.
        retries: When requests are repeated.

    Raises:
        ValueError: There is no address or no credential.
        ProblemError: The server refuses the credential.
    """
    address = shared.find_address(url)
    policy = retries if retries is not None else RetryPolicy()
    transport = AsyncRetryTransport(httpx.AsyncHTTPTransport(verify=httpx.create_ssl_context(verify=verify)), policy)
    http = AsyncProblemClient(base_url=address, timeout=timeout, transport=transport)
    client = AsyncClient(http)
    try:
        await client._sign_in(address, key, email, password, second_factor)
    except BaseException:
        await http.aclose()
        raise
    return client


class AsyncClient:
    """A member's view of a server. `connect_async` makes it; close it, or use it in an `async with` statement.

    A method raises `ProblemError` if the server refuses, and an exception of httpx if the network fails. Objects are named by
    themselves, by their id, or by their id as text.

    Attributes:
        rest: The generated client, for the functions in `undertone.rest.api`: each operation of the server.
    """

    def __init__(self, http: httpx.AsyncClient) -> None:
        """Takes an HTTP client with the address of REST; `connect_async` configures one."""
        self._http = http
        self._is_session = False
        self.rest = rest.Client(base_url=str(http.base_url)).set_async_httpx_client(http)

    async def _sign_in(
        self, address: str, key: str | None, email: str | None, password: str | None, second_factor: Callable[[], str] | None
    ) -> None:
        if (email is None) != (password is None) or (key is not None and email is not None):
            raise ValueError("give a key, or email and password")
        if email is None or password is None:
            key = key or os.environ.get(shared.KEY_VARIABLE)
            if not key:
                raise ValueError(f"give an API key, as key or in {shared.KEY_VARIABLE}, or email and password")
            self._http.auth = KeyAuth(key)
            await self.me()
            return
        answer = await sign_in.asyncio(client=self.rest, body=SignIn(email=email, password=password))
        if isinstance(answer, HalfSession):
            if second_factor is None:
                raise ValueError("this member needs a second step: give second_factor, which returns the authenticator's six digits")
            step = SecondStep(code=second_factor(), half_token=answer.half_token)
            answer = await finish_sign_in.asyncio(client=self.rest, body=step)
        session = expect(Session, answer)
        self._http.auth = SessionAuth(address, session.access_token, session.refresh_token)
        self._is_session = True

    async def close(self) -> None:
        """Closes the connections. A session that began with a password is signed out."""
        try:
            if self._is_session:
                await sign_out.asyncio_detailed(client=self.rest)
        except (httpx.HTTPError, UndertoneError):
            # The session ends by itself when its tokens expire.
            pass
        finally:
            self._is_session = False
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncClient of {self._http.base_url}>"

    async def _post(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Sends a document as it is, so that the server names what is wrong with it; returns the answer."""
        response = await self._http.post(path, json=document, headers={KEY_HEADER: new_key()})
        answer: dict[str, Any] = response.json()
        return answer

    # Who and where

    async def me(self) -> Member:
        """Returns the member whose credential this is."""
        return expect(Member, await get_me.asyncio(client=self.rest))

    async def consortia(self) -> list[Consortium]:
        """Returns the caller's consortia."""
        items: list[Consortium] = []
        page = expect(PageConsortium, await list_consortia.asyncio(client=self.rest, limit=shared.PAGE))
        items += page.items
        while page.next_:
            page = expect(PageConsortium, await list_consortia.asyncio(client=self.rest, limit=shared.PAGE, cursor=page.next_))
            items += page.items
        return items

    async def consortium(self, name: str | None = None) -> Consortium:
        """Returns the consortium with a name; without a name, the caller's only one."""
        return shared.choose_consortium(await self.consortia(), name)

    async def datasets(self, consortium: Reference | None = None) -> list[Dataset]:
        """Returns the datasets of a consortium, by default of the caller's only one."""
        where = await self._find_consortium(consortium)
        items: list[Dataset] = []
        page = expect(PageDataset, await list_datasets.asyncio(where, client=self.rest, limit=shared.PAGE))
        items += page.items
        while page.next_:
            page = expect(PageDataset, await list_datasets.asyncio(where, client=self.rest, limit=shared.PAGE, cursor=page.next_))
            items += page.items
        return items

    async def budgets(self, consortium: Reference | None = None) -> Table:
        """Returns the lifetime accounts of a consortium's datasets: limit, spent and committed epsilon."""
        return tabulate_budgets(await self.datasets(consortium))

    async def _find_consortium(self, consortium: Reference | None) -> UUID:
        return (await self.consortium()).id if consortium is None else identify(consortium)

    # Planning and proposing

    async def plan(self, job: JobDocument, *, consortium: Reference | None = None) -> Plan:
        """Returns the cost of a job and the decision of each budget, without proposing it.

        Args:
            job: Its document, `{"title": ..., "kind": ..., "spec": {...}}`, or a JSON file with it.
            consortium: Where it would run; by default the caller's only consortium.
        """
        where = await self._find_consortium(consortium)
        return Plan.from_dict(await self._post("/plans", {**shared.read_document(job), "consortium": str(where)}))

    async def propose(self, job: JobDocument, *, consortium: Reference | None = None) -> Job:
        """Proposes a job to the owners of its datasets. A repeated request makes one job."""
        where = await self._find_consortium(consortium)
        return Job.from_dict(await self._post(f"/consortia/{where}/jobs", shared.read_document(job)))

    async def review(self, job: Reference, dataset: Reference) -> Review:
        """Returns what a job asks of a dataset: its signed manifest, its cost and its readers."""
        return expect(Review, await review_job.asyncio(identify(job), identify(dataset), client=self.rest))

    async def approve(
        self,
        job: Reference,
        dataset: Reference,
        *,
        key: StewardKey | None = None,
        server_key: str | None = None,
        terms: Mapping[str, Any] | None = None,
    ) -> Job:
        """Approves a job for a dataset of the caller's organization, as its steward.

        Args:
            job: The job.
            dataset: The dataset.
            key: Signs the approval; needed where the site verifies signatures.
            server_key: The server's public key, hex; if given with `key`, the manifest must have its signature.
            terms: The answer to the terms that the proposal leaves open.

        Raises:
            ProblemError: The caller is no steward of the dataset, the job changed meanwhile (`precondition_failed`), or the site
                verifies signatures and there is none (`bad_signature`).
            VerificationError: The manifest does not hold.
        """
        review = await self.review(job, dataset)
        signature = key.approve(review, server_key=server_key, terms=terms) if key is not None else UNSET
        open_terms = PartyTerms.from_dict(terms) if terms is not None and key is None else UNSET
        body = Approve(signature=signature, terms=open_terms)
        answer = await approve_job.asyncio(
            review.job, review.dataset, client=self.rest, body=body, manifest=review.digest, idempotency_key=new_key()
        )
        return expect(Job, answer)

    async def refuse(self, job: Reference, dataset: Reference, reason: str) -> Job:
        """Refuses a job for a dataset, with a reason for the proposer: 1 to 1,000 characters. This ends the job."""
        body = Refuse(reason=reason)
        return expect(
            Job, await refuse_job.asyncio(identify(job), identify(dataset), client=self.rest, body=body, idempotency_key=new_key())
        )

    async def cancel(self, job: Reference) -> Job:
        """Cancels a job that is not over."""
        return expect(Job, await cancel_job.asyncio(identify(job), client=self.rest, idempotency_key=new_key()))

    # Following

    async def jobs(self, consortium: Reference | None = None, *, limit: int = 50) -> list[JobSummary]:
        """Returns the newest jobs of a consortium, at most 200."""
        return expect(PageJobSummary, await list_jobs.asyncio(await self._find_consortium(consortium), client=self.rest, limit=limit)).items

    async def job(self, job: Reference) -> Job:
        """Returns a job in its present state."""
        return expect(Job, await get_job.asyncio(identify(job), client=self.rest))

    async def progress(self, job: Reference) -> Progress:
        """Returns the progress of a job: rounds, participants and measurements."""
        return expect(Progress, await get_progress.asyncio(identify(job), client=self.rest))

    async def follow(self, job: Reference, *, timeout: float | None = None) -> AsyncIterator[JobEvent]:
        """Yields the state of a job after each change, until it is over.

        It reads the server's stream of events, and asks again and again where no stream arrives: behind some proxies, or with too many
        streams open. It survives restarts of the server: it gives up after 30 failures in a row, about five minutes.

        Args:
            job: The job.
            timeout: Seconds after which `WaitTimeout` is raised; without a limit by default.
        """
        where = identify(job)
        deadline = None if timeout is None else time.monotonic() + timeout
        last, poll, failures = "", shared.POLL_FIRST, 0
        while True:
            try:
                async for identifier, event in self._stream(where, last, deadline):
                    last, poll, failures = identifier, shared.POLL_FIRST, 0
                    yield event
                    if shared.is_over(event):
                        return
            except (httpx.TransportError, ProblemError, UnexpectedResponse) as error:
                shared.require_passing(error)
            shared.check_deadline(deadline)
            try:
                event = await self._look(where)
            except (httpx.TransportError, ProblemError, UnexpectedResponse) as error:
                shared.require_passing(error)
                failures += 1
                if failures > shared.MOST_FAILURES:
                    raise
            else:
                failures = 0
                yield event
                if shared.is_over(event):
                    return
            await anyio.sleep(shared.shorten_pause(poll, deadline))
            poll = min(2 * poll, shared.POLL_LONGEST)

    async def _stream(self, job: UUID, last: str, deadline: float | None) -> AsyncIterator[tuple[str, JobEvent]]:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last} if last else {})
        timeout = httpx.Timeout(self._http.timeout.connect, read=shared.read_silence(deadline))
        reader = EventReader()
        async with self._http.stream("GET", f"/jobs/{job}/events", headers=headers, timeout=timeout) as response:
            async for line in response.aiter_lines():
                shared.check_deadline(deadline)
                event = reader.feed(line)
                update = shared.read_event(event) if event is not None else None
                if event is not None and update is not None:
                    yield event.id, update

    async def _look(self, job: UUID) -> JobEvent:
        return shared.describe_job((await self.job(job)).to_dict(), (await self.progress(job)).to_dict())

    async def wait(self, job: Reference, *, timeout: float | None = None, progress: ProgressCallback | None = None) -> Job:
        """Waits until a job has finished, and returns it.

        Args:
            job: The job.
            timeout: Seconds to wait; without a limit by default. The job goes on afterwards.
            progress: Is called with the state after each change; `undertone.print_progress` prints a line.

        Raises:
            JobEnded: The job failed, or was cancelled or refused.
            WaitTimeout: It did not end in time.
        """
        async for event in self.follow(job, timeout=timeout):
            if progress is not None:
                progress(event)
        return shared.require_finished(await self.job(job))

    # Results

    async def measurements(self, job: Reference) -> Table:
        """Returns the measurements of a job on public test sets, oldest first."""
        return tabulate_measurements((await self.progress(job)).measurements)

    async def report(self, job: Reference) -> ReportFile:
        """Returns the report of a finished job."""
        return expect(ReportFile, await get_report.asyncio(identify(job), client=self.rest))

    async def files(self, job: Reference) -> list[Artifact]:
        """Returns the files of a job."""
        return shared.expect_list(Artifact, await list_artifacts.asyncio(identify(job), client=self.rest))

    async def download(self, job: Reference, name: str, path: str | os.PathLike[str] | None = None) -> pathlib.Path:
        """Downloads a file of a job, compares it with its SHA-256, and returns where it is.

        Args:
            job: The job.
            name: The file's name: `model.safetensors`.
            path: A file, or a folder that exists; by default the current folder.

        Raises:
            UndertoneError: The job has no such file, or other bytes arrived than announced.
        """
        artifact = shared.choose_artifact(await self.files(job), name)
        writer = shared.FileWriter(artifact, shared.choose_target(artifact, path))
        try:
            async with self._http.stream("GET", f"/artifacts/{artifact.id}/content") as response:
                async for chunk in response.aiter_bytes(shared.CHUNK):
                    writer.write(chunk)
            return writer.finish()
        finally:
            writer.discard()

    async def certificate(self, job: Reference) -> Certificate:
        """Returns the certificate of a job that is over, with its evidence."""
        return Certificate((await self._http.get(f"/jobs/{identify(job)}/certificate")).json())

    async def audits(self, job: Reference) -> list[AuditView]:
        """Returns the audits of a job."""
        return shared.expect_list(AuditView, await list_job_audits.asyncio(identify(job), client=self.rest))

    # Questions

    async def questions(self, job: Reference) -> Queue:
        """Returns the next questions of a job that the caller has not answered, with the possible labels."""
        return expect(Queue, await next_questions.asyncio(identify(job), client=self.rest))

    async def answer(self, question: Reference, label: str | None) -> Annotation:
        """Answers a question with one of the job's labels; `None` leaves it to others."""
        body = shared.make_annotation(label)
        return shared.expect_annotation(
            await annotate_question.asyncio(identify(question), client=self.rest, body=body, idempotency_key=new_key())
        )
