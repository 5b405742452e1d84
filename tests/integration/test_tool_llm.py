"""The real `llm` program, called as the catalogue says, against a model API on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from maestro_state.models.run import Usage
from maestro_state.tools import Outcome, resolve
from tests.support.embedded_project import temporary_project
from tests.support.model_api import model_api
from tests.support.workshop import Workshop

#: The program of the environment the tests run in, first on the tool's PATH.
BIN = str(Path(sys.executable).parent)


def llm_environment(home: Path, api_url: str) -> dict[str, str]:
    """Make a home in which llm asks the API on loopback; return the variables that say so."""
    home.mkdir(exist_ok=True)
    (home / "extra-openai-models.yaml").write_text(f"- model_id: fake\n  model_name: fake-1\n  api_base: {api_url}\n")
    (home / "default_model.txt").write_text("fake")
    return {"LLM_USER_PATH": str(home), "OPENAI_API_KEY": "sk-test", "PATH": f"{BIN}:/usr/bin:/bin"}


@pytest.fixture
def short_project() -> Iterator[Path]:
    """Return a project whose path is short enough for sockets."""
    with temporary_project() as folder:
        yield folder


def call_llm(home: Path, api_url: str, stdin: bytes, passed: tuple[str, ...] = ()) -> tuple[str, Outcome]:
    """Run `llm` as a worker would; return the text it printed and how it ended."""
    tool = resolve("llm")
    environ = os.environ | llm_environment(home, api_url) | {"OTHER_SECRET": "no"}
    seen = tool.environment(environ, passed)
    assert "OTHER_SECRET" not in seen
    done = subprocess.run(tool.argv(), input=stdin, env=seen, cwd=home, capture_output=True, check=False, timeout=60)
    parser = tool.parser()
    text = "".join(parser.feed(done.stdout))
    outcome = parser.end(done.returncode, done.stderr)
    return text + outcome.text, outcome


@pytest.mark.parametrize("answer", ["pong", "zwei Zeilen\nmit ümläüten ✓"])
def test_llm_answers_from_stdin_and_tells_its_tokens(tmp_path: Path, answer: str):
    """What goes to stdin is the prompt, what comes out is the answer, with the tokens it took."""
    with model_api(answer) as api:
        text, outcome = call_llm(tmp_path / "llm", api.url, b"say pong\n$(touch x) --help")

        assert text == answer + "\n"
        assert (outcome.status, outcome.error) == ("success", None)
        assert outcome.usage == Usage(tokens_input=21, tokens_output=5)
        assert "$(touch x) --help" in str(api.asked[0]["messages"])


def test_a_refused_key_is_an_error_with_the_reason(tmp_path: Path):
    """When the API refuses, the call is an error that says what llm said."""
    with model_api(status=401) as api:
        text, outcome = call_llm(tmp_path / "llm", api.url, b"say pong")

        assert (text, outcome.status) == ("", "error")
        assert outcome.error is not None
        assert "refused on purpose (401)" in outcome.error


def test_a_run_knows_llms_model_and_goes_on_with_its_conversation(short_project: Path, tmp_path: Path):
    """Both are in llm's own log: the record of the run has them, and --continue asks in the same conversation."""
    with model_api(answer=None) as api, Workshop(short_project) as shop:
        environment = llm_environment(tmp_path / "llm", api.url)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            shop.start_worker()
            maestro = shop.open()
            maestro.sessions.start("talk", tool="llm")
            first = maestro.runs.wait(maestro.runs.start("say MARK-one"))
            second = maestro.runs.wait(maestro.runs.start("and MARK-two", continues="last"))
        assert (first.status, second.status) == ("success", "success"), (first.error, second.error)
        assert first.usage is not None
        assert first.usage.model == "fake"
        assert second.usage is not None
        assert second.usage.tool_session == first.usage.tool_session
        assert second.continues == first.id
        assert b"Question 2. Seen: MARK-one, MARK-two." in maestro.runs.output(second.id)
