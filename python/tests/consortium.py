"""A consortium on this machine: a real server on SQLite and a real worker at each of two sites, set up by REST and the command line."""

from __future__ import annotations

import contextlib
import csv
import os
import pathlib
import socket
import subprocess
import threading
import time
import wave
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import httpx

import undertone
from undertone import rest
from undertone._shared import expect
from undertone.rest.api.consortia import found_consortium, list_consortium_organizations
from undertone.rest.api.datasets import set_budget
from undertone.rest.api.invitations import accept_invitation, create_invitation
from undertone.rest.api.keys import create_key
from undertone.rest.api.organizations import enrol_worker
from undertone.rest.models import (
    Account,
    ApiKey,
    Consortium,
    Enrolment,
    InvitationOrganization,
    NewApiKey,
    NewBudget,
    NewConsortium,
    NewEnrolment,
    NewInvitationOrganization,
    NewMember,
    PageOrganization,
    Session,
)

PASSWORD = "correct horse battery"
PATIENCE = 60.0
# The classes of the labels of `undertone-worker data synthesize`: 42 phones of 3 states.
CLASSES = "126"
RECOGNIZER = pathlib.Path(__file__).with_name("recognizer.py")
RATE = 16_000
SCOPES = ["read", "jobs", "approvals", "questions", "ledger", "models"]


def program(name: str) -> str:
    """Returns the path of a program."""
    path = pathlib.Path(os.environ["UNDERTONE_PROGRAMS"], name)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: build it, or name its folder in UNDERTONE_PROGRAMS")
    return str(path)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_until(what: str, is_so: Any) -> Any:
    """Returns the first true value of `is_so()`."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        value = is_so()
        if value:
            return value
        time.sleep(0.1)
    raise TimeoutError(f"not so within {PATIENCE} s: {what}")


class Site:
    """An organization with its steward, its folder and its worker."""

    def __init__(self, name: str, folder: pathlib.Path, client: undertone.Client, email: str) -> None:
        self.name, self.folder, self.client, self.email = name, folder, client, email
        self.organization = UUID(int=0)
        self.key_file = folder.with_suffix(".key")

    def run(self, *arguments: str) -> str:
        """Runs a command of the worker to its end; returns its output."""
        command = [program("undertone-worker"), "--site", str(self.folder), *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        if result.returncode != 0:
            raise RuntimeError(f"undertone-worker {' '.join(arguments[:2])}: {result.stdout}{result.stderr}")
        return result.stdout

    def enrol(self, consortium: UUID) -> None:
        organizations = expect(PageOrganization, list_consortium_organizations.sync(consortium, client=self.client.rest)).items
        self.organization = next(one.id for one in organizations if one.name == self.name)
        enrolment = expect(Enrolment, enrol_worker.sync(self.organization, client=self.client.rest, body=NewEnrolment(name="worker")))
        self.run("enroll", enrolment.token)
        made = self.run("steward-key", "make", str(self.key_file)).split()
        line = next(word for word in made if word.startswith("uak1."))
        fingerprint = next(word for word in made if word.count("-") == 7)
        self.run("approval-keys", "add", line, "--fingerprint", fingerprint, "--label", self.name)
        policy = self.folder / "policy.toml"
        text = policy.read_text()
        for old, new in [
            ('kinds = ["dp_sgd"]', 'kinds = ["dp_sgd", "active_learning", "evaluation", "transcription"]'),
            ("[budget.speaker]", "[budget.record]"),
            ("most_epsilon_per_job = 4.0", "most_epsilon_per_job = 60.0"),
            ("[budget.record]\nepsilon = 8.0", "[budget.words]\nepsilon = 60.0\ndelta = 1e-2\n\n[budget.record]\nepsilon = 60.0"),
            (
                "# release_period_seconds = { dp_sgd = 2.0, active_learning = 60.0, transcription = 3600.0 }",
                "release_period_seconds = { dp_sgd = 0.05, active_learning = 0.05, evaluation = 0.05, transcription = 0.05 }",
            ),
        ]:
            assert old in text, f"the policy does not say {old}"
            text = text.replace(old, new)
        policy.write_text(text)


class LocalConsortium:
    """The consortium `Demo` of the organizations Library, which has public data and leads, and North, which has private data."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{free_port()}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self._environment = {
            "UNDERTONE_HTTP": self.url.removeprefix("http://"),
            "UNDERTONE_GRPC": f"127.0.0.1:{free_port()}",
            "UNDERTONE_DATA_DIR": str(folder / "server"),
        }
        self._start_server()
        link_file = folder / "server/operator-link"
        link = wait_until("the server wrote its first link", lambda: link_file.is_file() and link_file.read_text().strip())
        wait_until("the server answers", self._answers)
        library = self._join(link, "Library", founds=False)
        new = NewConsortium(name="Demo", description="", organization_name="Library")
        founded = expect(Consortium, found_consortium.sync(client=library.client.rest, body=new))
        self.consortium = founded.id
        invitation = NewInvitationOrganization.from_dict({"purpose": "organization", "consortium": str(self.consortium), "label": "North"})
        invited = expect(InvitationOrganization, create_invitation.sync(client=library.client.rest, body=invitation))
        assert isinstance(invited.link, str)
        self.sites = [library, self._join(invited.link, "North", founds=True)]
        for site in self.sites:
            site.enrol(self.consortium)
        self._prepare()
        python = os.environ.get("UNDERTONE_ALIGNER")
        self.recognizes = bool(python)
        if python:
            self._prepare_recordings(python)
        for site in self.sites:
            self._start(f"worker-{site.name}", [program("undertone-worker"), "--site", str(site.folder), "run"], {})
        expected = 7 if self.recognizes else 5
        wait_until("the workers registered their datasets", lambda: len(library.client.datasets()) == expected)
        for dataset in library.client.datasets():
            if dataset.name.startswith("north-"):
                unit, delta = ("words", 1e-2) if dataset.name == "north-recordings" else ("record", 1e-6)
                budget = NewBudget.from_dict({"unit": unit, "epsilon": 50.0, "delta": delta})
                expect(Account, set_budget.sync(dataset.id, client=self.sites[1].client.rest, body=budget))
        self.key = self.make_key(SCOPES)
        self.server_key = self._read_server_key()

    def _start_server(self) -> None:
        self._start("server", [program("undertone-server"), "serve"], self._environment)
        self._server = self.processes[-1]

    def _start(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **environment})
        self.processes.append(process)

    def restart_server(self) -> None:
        """Stops the server as an operator does, and starts it again at the same address."""
        self._server.terminate()
        self._server.wait(PATIENCE)
        self._start_server()
        wait_until("the server answers again", self._answers)

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/api/v1/openapi.json").status_code == 200
        return False

    def _join(self, link: str, name: str, *, founds: bool) -> Site:
        email = f"{name.lower()}@example.org"
        document = {"name": f"Steward of {name}", "email": email, "password": PASSWORD} | ({"organization": name} if founds else {})
        anyone = rest.Client(base_url=f"{self.url}/api/v1")
        expect(Session, accept_invitation.sync(link.rsplit("/", 1)[-1], client=anyone, body=NewMember.from_dict(document)))
        client = undertone.connect(self.url, email=email, password=PASSWORD)
        return Site(name, self.folder / name.lower(), client, email)

    def _prepare(self) -> None:
        corpus = self.folder / "corpus"
        groups = ["--subset", "public=3", "--subset", "north=2", "--subset", "test=2"]
        synthesize = ["data", "synthesize", "--utterances", "4", "--seed", "7", *groups, "--output", str(corpus)]
        library, north = self.sites
        library.run(*synthesize)
        labels = corpus / "alignments/phone-states.jsonl"
        shared = ["--input", str(corpus), "--alignments", str(labels), "--classes", CLASSES]
        for site, name, visibility, choice in [
            (library, "public-speech", "public", ["--subset", "public"]),
            (library, "common-test", "public", ["--subset", "test", "--hold-out", "1"]),
            (north, "north-speech", "private", ["--subset", "north"]),
        ]:
            site.run("data", "prepare", *shared, "--name", name, "--visibility", visibility, *choice)
        labels_of_rows = ["--label-column", "intent", "--subset-column", "split", "--test-subset", "test"]
        for site, name, visibility, amount, columns in [
            (library, "public-queries", "public", ["--rows", "1000", "--seed", "1", "--test-share", "0.3"], labels_of_rows),
            (north, "north-queries", "private", ["--rows", "20000", "--seed", "2"], []),
        ]:
            log = self.folder / f"{name}.csv"
            site.run("data", "synthesize", "--queries", "--output", str(log), *amount)
            prepare = ["data", "prepare", "--queries", str(log), "--name", name, "--user-column", "session"]
            site.run(*prepare, "--visibility", visibility, *columns)

    def read_intents(self) -> dict[str, str]:
        """Returns the true label of each text of the private log, as an attentive reader would give it."""
        with (self.folder / "north-queries.csv").open(newline="") as file:
            return {row["text"]: row["intent"] for row in csv.DictReader(file)}

    def _prepare_recordings(self, python: str) -> None:
        """Adds recordings at North, and a recognizer outside, which is PocketSphinx too."""
        north = self.sites[1]
        for name, visibility, sentences in [
            ("north-recordings", "private", ["the fever is gone since this morning"]),
            ("public-recordings", "public", ["there is music in the garden", "the water of the river is cold"]),
        ]:
            folder = self.folder / name
            folder.mkdir()
            write_recording(folder / "recording.wav", sentences)
            (folder / "recording.txt").write_text(" ".join(sentences))
            north.run("data", "add-recordings", "--input", str(folder), "--name", name, "--visibility", visibility)
        key = north.folder / "cloud.key"
        key.touch(mode=0o600)
        key.write_text("loopback-key\n")
        text = f'\n[transcription.recognizer]\nkind = "pocketsphinx"\ncommand = "{python}"\n'
        text += '\n[transcription.speech]\nkind = "espeak"\nvoice = "en-us"\n'
        self._start("recognizer", [python, str(RECOGNIZER)], {})
        log = self.folder / "recognizer.log"
        port = int(wait_until("the recognizer prints its port", lambda: log.read_text().strip()))
        text += f'\n[[transcription.providers]]\nname = "one"\nprotocol = "openai"\nurl = "http://127.0.0.1:{port}"\n'
        text += 'key_file = "cloud.key"\nconcurrency = 2\nrequests_per_minute = 60000\nseconds = 60\n'
        with (north.folder / "config.toml").open("a") as config:
            config.write(text)

    def make_key(self, scopes: list[str]) -> str:
        """Returns a new API key of the member of Library."""
        body = NewApiKey.from_dict({"name": "a program", "scopes": scopes, "days": 1})
        return str(expect(ApiKey, create_key.sync(client=self.sites[0].client.rest, body=body)).secret)

    def _read_server_key(self) -> str:
        text = (self.sites[1].folder / "config.toml").read_text()
        return next(line.split('"')[1] for line in text.splitlines() if line.startswith("server_key"))

    @contextlib.contextmanager
    def steward(self) -> Iterator[None]:
        """Approves each proposed job as the steward of North, with the steward's key, while the context lasts."""
        key = undertone.StewardKey.load(self.sites[1].key_file)
        failures: list[Exception] = []
        stop = threading.Event()

        def approve() -> None:
            client = self.sites[1].client
            while not stop.wait(0.1):
                try:
                    for job in client.jobs():
                        waiting = client.job(job).participants if job.state == "proposed" else []
                        for party in waiting:
                            if party.approval == "pending" and party.dataset_name.startswith("north-"):
                                client.approve(job, party.dataset, key=key, server_key=self.server_key)
                except Exception as error:
                    failures.append(error)
                    return

        thread = threading.Thread(target=approve)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if failures:
            raise failures[0]

    def training(self, title: str = "Small", rounds: int = 2) -> dict[str, Any]:
        """Returns the document of a small private training job."""
        ids = {dataset.name: str(dataset.id) for dataset in self.sites[0].client.datasets()}
        noise = {"noise_multiplier": 2.0, "clip": 1.0}
        private = {"rounds": rounds, "optimizer": "adam", "learning_rate": 0.001, "deadline_seconds": 60, "quorum": 2, "evaluate_every": 1}
        spec = {
            "unit": "record",
            "model": {"hidden": 16},
            "participants": [
                {"dataset": ids["public-speech"], "sampling_rate": 0.1},
                {"dataset": ids["north-speech"], "sampling_rate": 0.25, "noise": noise},
            ],
            "tests": [{"name": "common", "dataset": ids["common-test"]}],
            "warm_start": {"epochs": 2, "batch": 8, "learning_rate": 0.002, "seed": 7},
            "private": private,
        }
        return {"title": title, "kind": "dp_sgd", "spec": spec}

    def close(self) -> None:
        """Ends the processes that this consortium started."""
        for site in self.sites if hasattr(self, "sites") else []:
            site.client.close()
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def write_recording(path: pathlib.Path, sentences: list[str]) -> None:
    """Writes sentences, spoken by flite, with a second of silence before and after each: mono, 16 bits, 16 kHz."""
    silence = bytes(2 * RATE)
    sound = silence
    for number, sentence in enumerate(sentences):
        part = path.with_name(f".{number}.wav")
        subprocess.run(["flite", "-voice", "slt", "-t", sentence, "-o", str(part)], check=True, timeout=PATIENCE)
        with wave.open(str(part)) as spoken:
            assert (spoken.getnchannels(), spoken.getsampwidth(), spoken.getframerate()) == (1, 2, RATE)
            sound += spoken.readframes(spoken.getnframes()) + silence
        part.unlink()
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(sound)
