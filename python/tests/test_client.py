"""The clients against a real server and real workers."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import pathlib
import threading

import httpx
import pytest

import undertone
from consortium import PASSWORD, LocalConsortium
from undertone import _shared as shared
from undertone._transport import AsyncRetryTransport, RetryPolicy, RetryTransport, SessionAuth
from undertone.rest.models import Job, JobEvent


def test_planned_job_is_priced_and_admitted(consortium: LocalConsortium, client: undertone.Client) -> None:
    plan = client.plan(consortium.training())
    assert plan.admitted and not plan.violations
    assert [party.dataset_name for party in plan.parties] == ["north-speech"]
    assert client.consortium("Demo").id == consortium.consortium
    budgets = client.budgets()
    assert {"north-queries", "north-speech"} <= set(budgets.column("dataset"))
    assert set(budgets.column("limit")) == {50.0}


def test_refusal_names_field_and_remedy(consortium: LocalConsortium, client: undertone.Client) -> None:
    document = consortium.training()
    document["spec"]["participants"][1]["noise"]["clip"] = -1.0
    document["spec"]["private"]["rounds"] = 0
    with pytest.raises(undertone.ProblemError) as caught:
        client.propose(document)
    problem = caught.value
    assert (problem.status, problem.code) == (422, "validation_failed")
    fields = {one.field: one.message for one in problem.violations}
    assert "spec.private.rounds" in fields and any("clip" in field for field in fields), fields
    assert "spec.private.rounds" in str(problem)
    with pytest.raises(undertone.ProblemError) as caught:
        client.job("00000000-0000-0000-0000-000000000000")
    assert (caught.value.status, caught.value.code) == (404, "not_found")
    with pytest.raises(ValueError, match="is no id"):
        client.job("seven")


def test_wrong_credential_is_refused_at_once(consortium: LocalConsortium) -> None:
    with pytest.raises(undertone.ProblemError) as caught:
        undertone.connect(consortium.url, key="udk_" + "0" * 40)
    assert caught.value.status == 401
    with pytest.raises(undertone.ProblemError) as caught:
        undertone.connect(consortium.url, email="library@example.org", password="another password")
    assert caught.value.code == "wrong_credentials"
    with pytest.raises(ValueError, match="UNDERTONE_URL"):
        undertone.connect(key="udk_x")


def test_job_is_followed_to_its_result(trained: Job, client: undertone.Client, tmp_path: pathlib.Path) -> None:
    assert trained.state == "finished" and trained.rounds_done == trained.rounds == 2
    table = client.measurements(trained)
    assert set(table.column("test")) == {"common"} and all(0 <= value <= 1 for value in table.column("accuracy"))
    frame = table.to_pandas()
    assert list(frame.columns) == list(table.columns) and len(frame) == len(table) > 2
    assert frame["accuracy"].tolist() == table.to_arrow().column("accuracy").to_pylist() == table.column("accuracy")
    model = client.download(trained, "model.safetensors", tmp_path)
    artifact = shared.choose_artifact(client.files(trained), "model.safetensors")
    assert hashlib.sha256(model.read_bytes()).hexdigest() == artifact.digest
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    with pytest.raises(undertone.UndertoneError, match=r"its files are .*model"):
        client.download(trained, "model", tmp_path)
    assert client.report(trained).job.title == "Trained"


def test_progress_is_reported_until_the_end(consortium: LocalConsortium, client: undertone.Client) -> None:
    job = client.propose(consortium.training("Followed", rounds=1))
    seen: list[JobEvent] = []
    with consortium.steward():
        client.wait(job, timeout=60, progress=seen.append)
    states = [event.job.state for event in seen]
    assert states[-1] == "finished" and "running" in states
    done = [event.job.rounds_done for event in seen]
    assert done == sorted(done)


def test_unanswered_job_ends_the_wait_and_not_the_job(consortium: LocalConsortium, client: undertone.Client) -> None:
    job = client.propose(consortium.training("Unanswered"))
    with pytest.raises(undertone.WaitTimeout):
        client.wait(job, timeout=0.5)
    assert client.job(job).state == "proposed"
    dataset = next(party.dataset for party in job.participants if party.dataset_name == "north-speech")
    steward = consortium.sites[1].client
    with pytest.raises(undertone.ProblemError) as caught:
        client.approve(job, dataset)
    assert caught.value.status in (403, 404), "the member of Library is no steward of North"
    with pytest.raises(undertone.ProblemError) as caught:
        steward.approve(job, dataset)
    assert caught.value.status < 500, "the site of North verifies signatures"
    steward.refuse(job, dataset, "not this month")
    with pytest.raises(undertone.JobEnded, match="not this month") as ended:
        client.wait(job, timeout=10)
    assert ended.value.job.state == "refused"


def test_wait_survives_a_restart_of_the_server(consortium: LocalConsortium) -> None:
    with undertone.connect(consortium.url, key=consortium.key, retries=RetryPolicy(attempts=1)) as client:
        job = client.propose(consortium.training("Interrupted"))
        seen: list[str] = []
        began = threading.Event()

        def follow() -> None:
            for event in client.follow(job, timeout=30):
                seen.append(event.job.state)
                began.set()

        waiting = threading.Thread(target=follow)
        waiting.start()
        assert began.wait(10)
        consortium.restart_server()
        client.cancel(job)
        waiting.join()
    assert [seen[0], seen[-1]] == ["proposed", "cancelled"]


class LosingTransport(httpx.BaseTransport):
    """Loses the answers to the first posts: the server has them, the client does not."""

    def __init__(self, losses: int) -> None:
        self.inner = httpx.HTTPTransport()
        self.losses = losses

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self.inner.handle_request(request)
        if request.method == "POST" and self.losses > 0:
            self.losses -= 1
            response.read()
            raise httpx.ReadError("the connection was lost", request=request)
        return response


def test_proposal_with_lost_answers_is_made_once(consortium: LocalConsortium, client: undertone.Client) -> None:
    losing = LosingTransport(losses=2)
    with undertone.connect(consortium.url, key=consortium.key) as other:
        other._http._transport = RetryTransport(losing, RetryPolicy(first=0.01))
        job = other.propose(consortium.training("Once"))
    assert losing.losses == 0
    assert [one.id for one in client.jobs() if one.title == "Once"] == [job.id]
    client.cancel(job)


class BusyTransport(httpx.BaseTransport):
    """Answers as a proxy whose server is gone, so many times, and counts the requests."""

    def __init__(self, status: int, times: int, headers: dict[str, str]) -> None:
        self.inner = httpx.HTTPTransport()
        self.status, self.times, self.headers, self.requests = status, times, headers, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        if self.times > 0:
            self.times -= 1
            return httpx.Response(self.status, headers=self.headers, text="busy")
        return self.inner.handle_request(request)


@pytest.mark.parametrize(
    ("status", "method", "headers", "requests"),
    [
        (503, "GET", {}, 3),
        (502, "POST", {}, 1),
        (502, "POST", {"Idempotency-Key": "a"}, 3),
        (429, "POST", {}, 3),
        (429, "GET", {"Retry-After": "900"}, 1),
        (404, "GET", {}, 1),
    ],
)
def test_requests_that_may_be_repeated_are_repeated(
    status: int, method: str, headers: dict[str, str], requests: int, consortium: LocalConsortium
) -> None:
    later = {name: value for name, value in headers.items() if name == "Retry-After"}
    busy = BusyTransport(status, 2, later)
    transport = RetryTransport(busy, RetryPolicy(first=0.001))
    request = httpx.Request(method, f"{consortium.url}/api/v1/openapi.json", headers=headers)
    transport.handle_request(request)
    assert busy.requests == requests


def test_attempts_are_bounded(consortium: LocalConsortium) -> None:
    busy = BusyTransport(503, 100, {})
    transport = RetryTransport(busy, RetryPolicy(attempts=4, first=0.001))
    assert transport.handle_request(httpx.Request("GET", consortium.url)).status_code == 503
    assert busy.requests == 4
    with pytest.raises(ValueError, match="attempts"):
        RetryPolicy(attempts=0)


def test_expired_session_is_renewed(consortium: LocalConsortium) -> None:
    with undertone.connect(consortium.url, email="library@example.org", password=PASSWORD) as client:
        auth = client._http.auth
        assert isinstance(auth, SessionAuth)
        auth._access = auth._access[:-4] + "AAAA"
        assert client.me().email == "library@example.org"
        assert not auth._access.endswith("AAAA")
        secrets = (auth._access, auth._refresh)
        for shown in (repr(client), repr(auth), repr(client.rest), repr(client._http)):
            assert not any(secret in shown for secret in secrets)


def test_no_secret_is_shown(consortium: LocalConsortium, client: undertone.Client) -> None:
    for shown in (repr(client), str(client), repr(client.rest), repr(client._http.auth), repr(vars(client))):
        assert consortium.key not in shown
    key = undertone.StewardKey.load(consortium.sites[1].key_file)
    assert consortium.sites[1].key_file.read_text().strip() not in repr(key)
    with pytest.raises(undertone.ProblemError) as caught:
        client._http.post("/keys", json={"name": "", "scopes": [], "days": 0})
    assert consortium.key not in f"{caught.value!r} {caught.value}"


def test_asynchronous_client_does_the_same(consortium: LocalConsortium, trained: Job, tmp_path: pathlib.Path) -> None:
    async def use() -> None:
        async with await undertone.connect_async(consortium.url, key=consortium.key) as client:
            documents = (consortium.training("Not with this clip"), consortium.training("At once", rounds=1))
            documents[0]["spec"]["participants"][1]["noise"]["clip"] = -1.0
            with pytest.raises(undertone.ProblemError, match="clip"):
                await client.propose(documents[0])
            job, datasets = await asyncio.gather(client.propose(documents[1]), client.datasets())
            assert {one.name for one in datasets} >= {"public-speech", "north-speech"}
            await client.wait(job, timeout=60)
            assert (await client.measurements(job)).column("round")[-1] == 1
            model = await client.download(trained, "model.safetensors", tmp_path)
            verdict = (await client.certificate(trained)).verify(model=model)
            assert verdict.holds and "model" not in verdict.unchecked

    with consortium.steward():
        asyncio.run(use())


def test_both_clients_have_the_same_methods() -> None:
    def describe(kind: type) -> dict[str, list[str]]:
        names = [name for name in vars(kind) if not name.startswith("_")]
        return {name: [str(one) for one in inspect.signature(vars(kind)[name]).parameters.values()] for name in names}

    assert describe(undertone.Client) == describe(undertone.AsyncClient)
    assert AsyncRetryTransport.__init__.__annotations__.keys() == RetryTransport.__init__.__annotations__.keys()


def test_stream_that_is_refused_is_replaced_by_polling(consortium: LocalConsortium, client: undertone.Client, trained: Job) -> None:
    class WithoutStreams(httpx.BaseTransport):
        def __init__(self) -> None:
            self.inner = httpx.HTTPTransport()

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/events"):
                raise httpx.ReadTimeout("a proxy holds the stream back", request=request)
            return self.inner.handle_request(request)

    with undertone.connect(consortium.url, key=consortium.key) as other:
        other._http._transport = WithoutStreams()
        events = list(other.follow(trained, timeout=10))
    assert [event.job.state for event in events] == ["finished"]
    assert json.dumps(events[0].progress.to_dict()["measurements"]) == json.dumps(
        [one.to_dict() for one in client.progress(trained).measurements]
    )
