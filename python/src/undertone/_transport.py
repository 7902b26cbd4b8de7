"""HTTP: retries of requests that may be repeated, authentication, and failures as exceptions."""

from __future__ import annotations

import email.utils
import random
import threading
import time
import uuid
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from typing import Any

import anyio
import httpx

from .errors import ProblemError, UnexpectedResponse

# Statuses of a server, or of a proxy before it, that cannot answer at the moment.
BUSY = frozenset({429, 502, 503, 504})
# A request of these methods has the same effect once and several times.
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
KEY_HEADER = "Idempotency-Key"


@dataclass(frozen=True)
class RetryPolicy:
    """When and how often a request is repeated.

    A request is repeated if the server did not receive it (no connection, or status 429), or if it may be sent twice: it reads, or it
    carries an `Idempotency-Key`. The wait doubles from `first` to `longest` seconds, with up to a quarter added at random. A
    `Retry-After` of the server counts instead, if it is at most `longest`.

    Attributes:
        attempts: The most attempts, the first included; 1 turns retries off.
        first: The first wait, seconds.
        longest: The longest wait, seconds.
    """

    attempts: int = 5
    first: float = 0.25
    longest: float = 8.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first < 0 or self.longest < 0:
            raise ValueError("RetryPolicy: attempts must be at least 1, first and longest at least 0")

    def wait_after_error(self, request: httpx.Request, error: httpx.TransportError, attempt: int) -> float | None:
        """Returns the seconds to wait before the next attempt; `None` to give up."""
        unsent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
        if attempt >= self.attempts or not (unsent or is_repeatable(request)):
            return None
        return self._backoff(attempt)

    def wait_after_response(self, request: httpx.Request, response: httpx.Response, attempt: int) -> float | None:
        """Returns the seconds to wait before the next attempt; `None` to accept the response."""
        unprocessed = response.status_code == 429
        # The answer to the first attempt was lost, and the server may still be at it. Other conflicts are answered the same again.
        in_progress = response.status_code == 409 and KEY_HEADER in request.headers and attempt > 1
        busy = response.status_code in BUSY
        if attempt >= self.attempts or not (unprocessed or ((busy or in_progress) and is_repeatable(request))):
            return None
        stated = read_retry_after(response)
        if stated is None:
            return self._backoff(attempt)
        return stated if stated <= self.longest else None

    def _backoff(self, attempt: int) -> float:
        wait = min(self.longest, self.first * 2.0 ** (attempt - 1))
        return wait * (1 + random.random() / 4)


def is_repeatable(request: httpx.Request) -> bool:
    """Returns whether a request may be sent twice."""
    return request.method in SAFE_METHODS or KEY_HEADER in request.headers


def read_retry_after(response: httpx.Response) -> float | None:
    """Returns the seconds of a `Retry-After` header: a number, or a date."""
    text = response.headers.get("Retry-After")
    if text is None:
        return None
    if text.strip().isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


class RetryTransport(httpx.BaseTransport):
    """Repeats requests by a policy."""

    def __init__(self, inner: httpx.BaseTransport, policy: RetryPolicy) -> None:
        self._inner = inner
        self._policy = policy

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        attempt = 1
        while True:
            try:
                response = self._inner.handle_request(request)
            except httpx.TransportError as error:
                wait = self._policy.wait_after_error(request, error, attempt)
                if wait is None:
                    raise
            else:
                wait = self._policy.wait_after_response(request, response, attempt)
                if wait is None:
                    return response
                response.close()
            time.sleep(wait)
            attempt += 1

    def close(self) -> None:
        self._inner.close()


class AsyncRetryTransport(httpx.AsyncBaseTransport):
    """Repeats requests by a policy."""

    def __init__(self, inner: httpx.AsyncBaseTransport, policy: RetryPolicy) -> None:
        self._inner = inner
        self._policy = policy

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        attempt = 1
        while True:
            try:
                response = await self._inner.handle_async_request(request)
            except httpx.TransportError as error:
                wait = self._policy.wait_after_error(request, error, attempt)
                if wait is None:
                    raise
            else:
                wait = self._policy.wait_after_response(request, response, attempt)
                if wait is None:
                    return response
                await response.aclose()
            await anyio.sleep(wait)
            attempt += 1

    async def aclose(self) -> None:
        await self._inner.aclose()


class KeyAuth(httpx.Auth):
    """Sends an API key. Its `repr` does not show the key."""

    def __init__(self, key: str) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._key}"
        yield request


class SessionAuth(httpx.Auth):
    """Sends the access token of a session, and renews it when it has expired. Its `repr` shows no token."""

    def __init__(self, base_url: str, access_token: str, refresh_token: str) -> None:
        self._refresh_url = f"{base_url}/session/refresh"
        self._access = access_token
        self._refresh = refresh_token
        # A refresh token works once: one thread renews, the others use what it got.
        self._lock = threading.Lock()
        self._async_lock = anyio.Lock()

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        used = self._authorize(request)
        response = yield request
        if response.status_code != 401:
            return
        with self._lock:
            if used == self._access:
                answer = yield self._make_refresh()
                answer.read()
                if not self._accept(answer):
                    return
        self._authorize(request)
        yield request

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        used = self._authorize(request)
        response = yield request
        if response.status_code != 401:
            return
        async with self._async_lock:
            if used == self._access:
                answer = yield self._make_refresh()
                await answer.aread()
                if not self._accept(answer):
                    return
        self._authorize(request)
        yield request

    def _authorize(self, request: httpx.Request) -> str:
        used = self._access
        request.headers["Authorization"] = f"Bearer {used}"
        return used

    def _make_refresh(self) -> httpx.Request:
        return httpx.Request("POST", self._refresh_url, json={"refresh_token": self._refresh})

    def _accept(self, answer: httpx.Response) -> bool:
        if answer.status_code != 200:
            return False
        tokens = answer.json()
        self._access, self._refresh = tokens["access_token"], tokens["refresh_token"]
        return True


def raise_problem(response: httpx.Response) -> None:
    """Raises the exception of a response that is a failure. Its body must have been read."""
    if response.status_code < 400:
        return
    try:
        document: Any = response.json()
    except ValueError:
        document = None
    if isinstance(document, dict) and isinstance(document.get("code"), str):
        raise ProblemError(response.status_code, document)
    raise UnexpectedResponse(response.status_code, response.reason_phrase or "no problem document")


class ProblemClient(httpx.Client):
    """An HTTP client that raises failures of the server as exceptions."""

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        response = super().send(request, **options)
        if response.status_code >= 400:
            try:
                response.read()
            finally:
                response.close()
            raise_problem(response)
        return response


class AsyncProblemClient(httpx.AsyncClient):
    """An HTTP client that raises failures of the server as exceptions."""

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        response = await super().send(request, **options)
        if response.status_code >= 400:
            try:
                await response.aread()
            finally:
                await response.aclose()
            raise_problem(response)
        return response


def new_key() -> str:
    """Returns a fresh idempotency key."""
    return str(uuid.uuid4())
