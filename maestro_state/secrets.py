"""Whether a file or a text looks as if it held a secret, and the same text without it.

What secrets look like is detect-secrets' knowledge: its detectors' patterns are used, one by one, on bytes. Its own
scan is not: it takes tens of microseconds a line, has no limit for long lines, and would ask providers whether a key is
valid. Nothing here opens a file or a connection. The library takes 100 ms to load: contents that may hold no secret,
says `secret_filter`, never load it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatch
from importlib import import_module
from typing import NamedTuple

from maestro_state.secret_filter import kinds_in

#: Findings after which a content is not searched further: it will not be sent, and the list is read by people.
_FINDINGS_MAX = 50

#: Bytes looked at in one go, and how far the next ones reach back: longer than any pattern here may match.
_BLOCK, _OVERLAP = 1 << 20, 1 << 15

#: Longest piece in which a URL's password and a value behind its name are looked for, in bytes.
_NEAR, _NEAR_VALUE = 400, 200

#: File names that are not read; `.env.example` and its like are made to be shown.
_NAMES = (
    ("environment file", (".env", ".env.*", "*.env", ".envrc")),
    ("private key file", ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*.ppk", "*.p12", "*.pfx", "*.jks", "*.kdbx")),
    ("password file", (".netrc", "_netrc", ".pgpass", ".htpasswd", ".git-credentials")),
)
_SHOWN_ON_PURPOSE = (".example", ".sample", ".template", ".dist", ".defaults")

#: Detectors whose patterns take linear time on any bytes.
_DETECTORS = (
    ("aws", "AWSKeyDetector"),
    ("azure_storage_key", "AzureStorageKeyDetector"),
    ("github_token", "GitHubTokenDetector"),
    ("gitlab_token", "GitLabTokenDetector"),
    ("mailchimp", "MailchimpDetector"),
    ("pypi_token", "PypiTokenDetector"),
    ("sendgrid", "SendGridDetector"),
    ("slack", "SlackDetector"),
    ("square_oauth", "SquareOAuthDetector"),
    ("stripe", "StripeDetector"),
    ("twilio", "TwilioKeyDetector"),
)

#: Tokens that the library has no detector for, in its own terms: a name and a pattern.
_MORE = (
    ("Anthropic API Key", rb"sk-ant-(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{24,200}"),
    ("OpenAI API Key", rb"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,200}"),
    ("Google API Key", rb"AIza[0-9A-Za-z_-]{35}"),
    ("GitHub Token", rb"github_pat_[0-9A-Za-z_]{50,100}"),
)

_KEYWORD = re.compile(rb"(?:key|pass(?:word|wd)?|pwd|secret|contrase..?a)\w{0,40}[])'\"]{0,2}\s{0,8}[:=!(]")
#: The library's keywords are of two words or of one; the patterns begin with the first.
_KEYWORD_BEFORE = re.compile(rb"(?:api|auth|service|account|db|database|priv|private|client|key)_?\Z")
_TOKEN = re.compile(rb"eyJ[A-Za-z0-9_=-]{8,8192}\.[A-Za-z0-9_=-]{2,8192}(?:\.[A-Za-z0-9_=-]{0,8192})?")
_KEY_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(\r?\n|\\r\\n|\\n)")
_KEY_END = re.compile(rb"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = re.compile(rb"[A-Za-z0-9+/=]{16}")
_KEY_BODY_LINE = re.compile(rb"\s*[A-Za-z0-9+/=]{4}")
#: Of a key that was cut off.
_KEY_REST = re.compile(rb"[A-Za-z0-9+/=\s\\]{0,20000}")
_KEY_MAX = 20_000


class Finding(NamedTuple):
    """Something that looks like a secret. The value itself is never kept."""

    rule: str
    line: int  #: from 1


class SecretSpan(NamedTuple):
    """Where it is, in bytes."""

    start: int
    end: int
    rule: str


def find_secrets(name: str, content: bytes) -> list[Finding]:
    """Return what in a file of this name looks like a secret, in order, at most 50; nothing for most files."""
    by_name = _by_name(name)
    found = [Finding(by_name, 1)] if by_name else []
    spans = find_spans(content, name)
    if spans:
        ends = [match.start() for match in re.finditer(b"\n", content[: spans[-1].start])]
        found += [Finding(span.rule, bisect_right(ends, span.start) + 1) for span in spans]
    return list(dict.fromkeys(found))[:_FINDINGS_MAX]


def redact(content: bytes) -> bytes:
    """Return the content with each secret replaced by what kind it was."""
    parts, at = [], 0
    for span in find_spans(content, limit=None):
        if span.end <= at:
            continue
        parts += [content[at : max(at, span.start)], f"[redacted: {span.rule}]".encode()]
        at = span.end
    return b"".join([*parts, content[at:]])


def find_spans(content: bytes, name: str = "", *, limit: int | None = _FINDINGS_MAX) -> list[SecretSpan]:
    """Return where secrets are, in order; a limit stops the search once that many were found."""
    spans: set[SecretSpan] = set()
    for base in range(0, len(content), _BLOCK):
        block = content[max(0, base - _OVERLAP) : base + _BLOCK]
        offset = max(0, base - _OVERLAP)
        for start, end, rule in _in_block(block, name):
            spans.add(SecretSpan(start + offset, end + offset, rule))
        if limit is not None and len(spans) >= limit:
            break
    return _outermost(sorted(spans, key=lambda span: (span.start, -span.end)))


def _outermost(spans: Sequence[SecretSpan]) -> list[SecretSpan]:
    """Leave out what lies within another: a token in a password is one secret."""
    kept: list[SecretSpan] = []
    for span in spans:
        if not kept or span.end > kept[-1].end:
            kept.append(span)
    return kept


def _by_name(name: str) -> str | None:
    last = name.rsplit("/", 1)[-1].lower()
    if last.endswith(_SHOWN_ON_PURPOSE):
        return None
    for rule, patterns in _NAMES:
        if any(fnmatch(last, pattern) for pattern in patterns):
            return rule
    return None


def _in_block(block: bytes, name: str) -> Iterator[tuple[int, int, str]]:
    kinds = kinds_in(block)
    for module, detector in _DETECTORS:
        if module in kinds:
            yield from _by_pattern(block, module, detector)
    for rule, pattern in _MORE:
        if rule in kinds:
            yield from ((*match.span(), rule) for match in re.finditer(pattern, block) if _begins(block, match.start()))
    if "private key" in kinds:
        yield from _private_keys(block)
    if "web token" in kinds:
        yield from _web_tokens(block)
    if "npm token" in kinds:
        yield from _npm_tokens(block, block.lower())
    if "url" in kinds:
        yield from _urls(block)
    if "assignment" in kinds:
        yield from _assignments(block, block.lower(), name)


def _load(module: str, detector: str) -> type:
    found: type = getattr(import_module(f"detect_secrets.plugins.{module}"), detector)
    return found


_compiled: dict[str, list[re.Pattern[bytes]]] = {}


def _by_pattern(block: bytes, module: str, detector: str) -> Iterator[tuple[int, int, str]]:
    found = _load(module, detector)
    rule, denylist = str(vars(found)["secret_type"]), vars(found)["denylist"]
    patterns = _compiled.get(detector)
    if patterns is None:
        patterns = _compiled[detector] = [_of_bytes(pattern) for pattern in denylist]
    for pattern in patterns:
        for match in pattern.finditer(block):
            if _begins(block, match.start()):
                # A group is the secret in what surrounds it, or only the token's prefix.
                yield *match.span(1 if match.lastindex and len(match[1]) > 16 else 0), rule


def _of_bytes(pattern: re.Pattern[str]) -> re.Pattern[bytes]:
    return re.compile(pattern.pattern.encode(), pattern.flags & ~re.UNICODE)


def _begins(block: bytes, at: int) -> bool:
    """Tell whether a word begins here: tokens stand alone, in base64 any letters follow any others."""
    return at == 0 or not (block[at - 1 : at].isalnum() or block[at - 1 : at] in b"_")


def _private_keys(block: bytes) -> Iterator[tuple[int, int, str]]:
    """Find keys that have a body: code that only names the marker holds no key."""
    for match in _KEY_BEGIN.finditer(block):
        rule = vars(_load("private_key", "PrivateKeyDetector"))["secret_type"]
        alone = block[block.rfind(b"\n", 0, match.start()) + 1 : match.start()].strip() in (b"", b"\xef\xbb\xbf")
        body = _KEY_BODY_LINE.match(block, match.end()) if alone and match[1].endswith(b"\n") else None
        if body or _KEY_BODY.search(block, match.end(), match.end() + _NEAR):
            end = _KEY_END.search(block, match.end(), match.end() + _KEY_MAX) or _KEY_REST.match(block, match.end())
            yield match.start(), end.end() if end else match.end(), rule


def _web_tokens(block: bytes) -> Iterator[tuple[int, int, str]]:
    at = block.find(b"eyJ")
    while at >= 0:
        match = _TOKEN.match(block, at) if _begins(block, at) else None
        if match:
            detector: Callable[[str], bool] = _load("jwt", "JwtTokenDetector").is_formally_valid  # type: ignore[attr-defined]
            if detector(match[0].decode()):
                yield *match.span(), vars(_load("jwt", "JwtTokenDetector"))["secret_type"]
        at = block.find(b"eyJ", match.end() if match else at + 3)


def _npm_tokens(block: bytes, lower: bytes) -> Iterator[tuple[int, int, str]]:
    found = _load("npm", "NpmDetector")
    (pattern,) = [_of_bytes(one) for one in vars(found)["denylist"]]
    at = lower.find(b":_authtoken")
    while at >= 0:
        line = max(block.rfind(b"\n", 0, at) + 1, at - _NEAR)
        begin = block.find(b"//", line, at)
        match = pattern.match(block, begin, at + _NEAR) if begin >= 0 else None
        if match:
            yield *match.span(1), vars(found)["secret_type"]
        at = lower.find(b":_authtoken", at + 11)


def _urls(block: bytes) -> Iterator[tuple[int, int, str]]:
    found = _load("basic_auth", "BasicAuthDetector")
    (pattern,) = [_of_bytes(one) for one in vars(found)["denylist"]]
    at = block.find(b"://")
    while at >= 0:
        match = pattern.match(block, at, at + _NEAR) if block.find(b"@", at, at + _NEAR) >= 0 else None
        if match and _is_password(match[1]):
            yield *match.span(1), vars(found)["secret_type"]
        at = block.find(b"://", at + 3)


def _is_password(value: bytes) -> bool:
    """Tell whether somebody may have meant it: `user:password@` and `$USER:$PASS@` are how it is written about."""
    return len(value) >= 6 and re.search(rb"\d", value) is not None and re.fullmatch(rb"[^${}<>%]+", value) is not None


def _assignments(block: bytes, lower: bytes, name: str) -> Iterator[tuple[int, int, str]]:
    """Find values given to names like api_key that look drawn at random; words and references are none."""
    by_pattern: list[tuple[re.Pattern[bytes], int]] = []
    for near in _KEYWORD.finditer(lower):
        value = _VALUE.match(block, near.end())
        if value is None or not _is_random(value[1].rstrip(b",;")):
            continue  # nearly always, and without the library
        limit = block.find(b"\n", near.end(), near.end() + _NEAR_VALUE)
        limit = limit if limit >= 0 else near.end() + _NEAR_VALUE
        by_pattern = by_pattern or _keyword_patterns(name)
        before = _KEYWORD_BEFORE.search(lower, max(0, near.start() - 10), near.start())
        at = before.start() if before else near.start()
        for pattern, group in by_pattern:
            match = pattern.match(block, at, limit)
            if match is not None and _is_random(match[group]):
                yield *match.span(group), "Secret Keyword"
                break


#: What follows a name that has a value, up to its end.
_VALUE = re.compile(rb"[ \t=:>('\"`@]{0,12}([^\s'\"`)]{12,200})")

#: Long enough, no blank in it, with digits and letters.
_RANDOM = re.compile(rb"[A-Za-z0-9+/=_.~!@#%^&*-]{12,}")


def _is_random(value: bytes) -> bool:
    if not _RANDOM.fullmatch(value) or len(set(value)) < 9 or not re.search(rb"[A-Za-z]", value):
        return False
    digits = len(re.findall(rb"\d", value))
    return digits >= 3 or (digits > 0 and len(value) >= 32 and not value.islower())


def _keyword_patterns(name: str) -> list[tuple[re.Pattern[bytes], int]]:
    from detect_secrets.plugins import keyword
    from detect_secrets.util.filetype import determine_file_type

    # What is no source code has values without quotes.
    unquoted = keyword.CONFIG_DENYLIST_REGEX_TO_GROUP
    chosen = keyword.REGEX_BY_FILETYPE.get(determine_file_type(name), unquoted)
    # A comparison with the name behind the value would have to be looked for from every quote.
    behind = keyword.PRECEDED_BY_EQUAL_COMPARISON_SIGNS_QUOTES_REQUIRED_REGEX
    return [(_of_bytes(pattern), group) for pattern, group in chosen.items() if pattern is not behind]
