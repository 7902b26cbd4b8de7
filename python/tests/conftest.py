"""The consortium of the tests: started once, and stopped in the end."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

import undertone
from consortium import LocalConsortium
from undertone.rest.models import Job

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalConsortium]:
    local = LocalConsortium.__new__(LocalConsortium)
    folder = tmp_path_factory.mktemp("consortium")
    try:
        local.__init__(folder)  # type: ignore[misc]
        yield local
    except BaseException:
        for log in sorted(folder.glob("*.log")):
            print(f"-- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
        raise
    finally:
        local.close()


@pytest.fixture(scope="session")
def client(consortium: LocalConsortium) -> Iterator[undertone.Client]:
    with undertone.connect(consortium.url, key=consortium.key) as client:
        yield client


@pytest.fixture(scope="session")
def trained(consortium: LocalConsortium, client: undertone.Client) -> Job:
    """A finished training job."""
    job = client.propose(consortium.training("Trained"))
    with consortium.steward():
        return client.wait(job, timeout=60)
