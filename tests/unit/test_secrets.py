"""What looks like a secret and what does not; any bytes are searched in time that grows with their length only."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from maestro_state.secrets import Finding, find_secrets, redact

MIB = 1 << 20
KEY, RANDOM = "PRIVATE KEY", "a1B2c3D4e5F6g7H8i9J0"

#: Put together here, so that this file itself looks like none.
SECRETS = {
    "AWS Access Key": "AKIA" + "IOSFODNN7EXAMPLE",
    "GitHub Token": "ghp_" + RANDOM + RANDOM[:16],
    "GitLab Token": "glpat-" + RANDOM,
    "Slack Token": "xoxb-" + "123456789-" + "abcdef123",
    "Stripe Access Key": "sk_live_" + RANDOM + "abcd",
    "SendGrid API Key": "SG." + RANDOM + "ab." + RANDOM * 2 + "abc",
    "Anthropic API Key": "sk-ant-api03-" + RANDOM,
    "OpenAI API Key": "sk-proj-" + RANDOM * 2,
    "Google API Key": "AIza" + RANDOM + RANDOM[:15],
    "JSON Web Token": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0." + RANDOM,
    "NPM tokens": "//registry.example/:_authToken=" + "npm_" + RANDOM,
    "Basic Auth Credentials": "postgres://admin:" + "s3cr3tpw9" + "@db.example/app",
    "Secret Keyword": 'api_key = "' + RANDOM + '"',
    "Private Key": f"-----BEGIN OPENSSH {KEY}-----\n{RANDOM * 3}\n-----END OPENSSH {KEY}-----",
}


@pytest.mark.parametrize(("rule", "secret"), SECRETS.items())
def test_a_secret_is_found_by_rule_and_line_and_taken_out(rule: str, secret: str):
    """Each kind is found wherever it stands, also at the edge of what is looked at in one go."""
    for before in ("", "first\nsecond\n", "x" * (MIB - 20) + "\n"):
        content = f"{before}{secret}\nlast\n".encode()
        assert find_secrets("notes.py", content) == [Finding(rule, before.count("\n") + 1)]
        clean = redact(content)
        assert f"[redacted: {rule}]".encode() in clean
        assert find_secrets("notes.py", clean) == []
        assert clean.startswith(before.encode())
        assert clean.endswith(b"\nlast\n")
    assert RANDOM not in repr(find_secrets("notes.py", secret.encode()))


@pytest.mark.parametrize("end", [f"-----END RSA {KEY}-----", ""], ids=["whole", "cut"])
def test_all_of_a_key_is_taken_out(end: str):
    """Nothing of a private key's body stays, also where it lies across two pieces or its end is missing."""
    body = "\n".join(RANDOM * 3 for _ in range(50))
    for before in ("", "x" * (MIB - 100) + "\n"):
        clean = redact(f"{before}-----BEGIN RSA {KEY}-----\n{body}\n{end}".encode())
        assert RANDOM.encode() not in clean


@pytest.mark.parametrize(
    "name", [".env", "deploy/.env.production", "prod.env", ".envrc", "id_rsa", "keys/id_ed25519", "a.PPK", ".netrc"]
)
def test_some_names_are_enough(name: str):
    """Environment, key and password files are refused by their name, whatever they hold."""
    assert [finding.line for finding in find_secrets(name, b"")] == [1]


@pytest.mark.parametrize("name", [".env.example", "env.py", "environment.md", "id_rsa.pub", ".envrc.sample"])
def test_names_like_them_are_not(name: str):
    """What is made to be shown, or only sounds like it, is looked at like any file."""
    assert find_secrets(name, b"MAESTRO_TOOL=echo\n") == []


@pytest.mark.parametrize(
    "text",
    [
        'password = getpass("password: ")',
        "api_key = os.environ['OPENAI_API_KEY']",
        'password = "correct horse battery"',
        "postgres://user:password@localhost/db https://$USER:$PASS1@host {user}:{pw}@x",
        'if "-----BEGIN RSA PRIVATE KEY-----" in text:\n    raise PrivateKeyInsideTheText(text)\n',
        "secret = <your-secret-here-1234>",
        "TASKSK" + "0123456789abcdef" * 2,
    ],
)
def test_code_about_secrets_holds_none(text: str):
    """References, placeholders and words are no secrets."""
    assert find_secrets("settings.yml", text.encode()) == []


def test_clean_code_is_clean():
    """Of the code of this project and of the libraries around it, less than one file in a hundred is held back."""
    files = [path for folder in Path(sys.prefix).glob("lib/python*/site-packages/*") for path in _code(folder)]
    files += _code(Path(__file__).parents[2] / "maestro_state")
    held = [path for path in files if find_secrets(path.name, path.read_bytes())]
    assert len(files) > 300
    assert len(held) * 100 < len(files), held


def _code(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.py")) + sorted(folder.glob("*/*.py"))[:100]


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "\n",
        "//:_authToken",
        "password=",
        'api_key = "',
        "eyJ",
        "eyJ.",
        "://a:",
        "aws key '",
        "sk-",
        "xoxb-1-",
        "AC",
    ],
)
def test_time_grows_with_the_length_only(piece: str):
    """Four times as many bytes on one line take about four times as long, never sixteen."""
    find_secrets("warm.yml", (piece * 100).encode())

    def seconds(size: int) -> float:
        content = (piece * (size // len(piece))).encode()
        best = float("inf")
        for _ in range(2):
            begin = time.process_time()
            find_secrets("x.yml", content)
            best = min(best, time.process_time() - begin)
        return best

    assert seconds(MIB // 2) < 10 * seconds(MIB // 8) + 0.5


def test_the_library_is_loaded_only_for_what_may_hold_one():
    """Adding a few plain files must not cost any library's imports; nothing here may connect anywhere."""
    program = (
        "def deny(event, arguments): assert not event.startswith('socket.connect')\n"
        "import sys; from maestro_state.secrets import find_secrets\n"
        "assert find_secrets('a.py', b'print(1)\\n') == []\n"
        "assert not {'detect_secrets', 'hyperscan'} & set(sys.modules)\n"
        "sys.addaudithook(deny)\n"
        f"assert find_secrets('a.py', {SECRETS['AWS Access Key'].encode()!r})\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
