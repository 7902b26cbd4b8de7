"""The README, the page of the book and the notebooks, executed as they are written."""

from __future__ import annotations

import json
import pathlib
import re
import runpy

import pytest

from consortium import LocalConsortium, program
from undertone.rest.models import Job

ROOT = pathlib.Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.py"))


@pytest.fixture
def environment(consortium: LocalConsortium, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with `job.json`, and the environment of a researcher."""
    (tmp_path / "job.json").write_text(json.dumps(consortium.training("Documented", rounds=1)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNDERTONE_URL", consortium.url)
    monkeypatch.setenv("UNDERTONE_KEY", consortium.key)
    monkeypatch.setenv("UNDERTONE_SERVER_KEY", consortium.server_key)
    monkeypatch.setenv("UNDERTONE_LEAD_SITE", str(consortium.sites[0].folder))
    monkeypatch.setenv("UNDERTONE_SERVER_PROGRAM", program("undertone-server"))
    return tmp_path


def extract_code(path: pathlib.Path) -> list[str]:
    """Returns the blocks of Python of a document."""
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


def test_readme_leads_to_a_result(environment: pathlib.Path, consortium: LocalConsortium, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = extract_code(ROOT / "README.md")
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    with consortium.steward():
        exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "admitted" in printed and "finished, round 1 of 1" in printed and "accuracy" in printed
    assert "ok      model      the file is the job's model" in printed


def test_page_of_the_book_is_executed(environment: pathlib.Path, consortium: LocalConsortium, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = extract_code(ROOT.parent / "docs/src/how-to/python.md")
    assert len(blocks) >= 4
    names: dict[str, object] = {}
    with consortium.steward():
        for block in blocks:
            exec(compile(block, "python.md", "exec"), names)
    assert "validation_failed" in capsys.readouterr().out


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs_from_top_to_bottom(
    name: str, environment: pathlib.Path, consortium: LocalConsortium, trained: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The reader of the questions, who types a label.
    if name == "transcription" and not consortium.recognizes:
        pytest.skip("no PocketSphinx: UNDERTONE_ALIGNER names no Python that has it")
    intents = consortium.read_intents()
    monkeypatch.setattr("builtins.input", lambda prompt: intents[prompt.strip()])
    with consortium.steward():
        names = runpy.run_path(str(ROOT / "notebooks" / f"{name}.py"))
    assert names["RESULT"], "the last cell has a result"
