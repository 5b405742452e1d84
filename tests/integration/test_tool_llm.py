"""The real `llm` program, called as the catalogue says, against a model API on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from maestro_state.catalog import Outcome, resolve
from maestro_state.contents import Usage
from tests.model_api import model_api

#: The program of the environment the tests run in, first on the tool's PATH.
BIN = str(Path(sys.executable).parent)


def call_llm(home: Path, api_url: str, stdin: bytes, passed: tuple[str, ...] = ()) -> tuple[str, Outcome]:
    """Run `llm` as a worker would; return the text it printed and how it ended."""
    home.mkdir(exist_ok=True)
    (home / "extra-openai-models.yaml").write_text(f"- model_id: fake\n  model_name: fake-1\n  api_base: {api_url}\n")
    (home / "default_model.txt").write_text("fake")
    tool = resolve("llm")
    environ = os.environ | {
        "LLM_USER_PATH": str(home), "OPENAI_API_KEY": "sk-test", "OTHER_SECRET": "no", "PATH": f"{BIN}:/usr/bin:/bin"
    }  # fmt: skip
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
