"""One tool as a value: what is executed, what it may see, how its output is read; and from a name to its tool."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module

import msgspec

from maestro_state.errors import InvalidValue, ToolNotFound
from maestro_state.models.run import ToolOptions
from maestro_state.tools.options import Mode
from maestro_state.tools.outcome import Parser
from maestro_state.vocabulary import OWN_SECRETS

#: Tells whether a program is where a tool will be called.
Elsewhere = Callable[[str], bool]

#: Longest command line that is taken as a tool, in characters.
COMMAND_MAX = 4096

#: What every tool may see: where programs and the user's files are, language, time zone, proxies and certificates.
BASE_ENVIRONMENT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
)  # fmt: skip


#: Stands in a tool's words for the interpreter that runs Maestro.
PYTHON = "{python}"

#: Stands in a tool's words for the id of a conversation of its own.
CONVERSATION = "{conversation}"

#: And for the path of a file.
FILE = "{file}"


_NO_OPTIONS = ToolOptions()


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of the catalogue, or a command line of the user's."""

    name: str  #: as it is selected and recorded
    entry: str = ""  #: the entry of the catalogue it is; empty: a command line of the user's
    arguments: tuple[str, ...] = ()  #: what a command line said after the program
    words: tuple[str, ...]  #: what is executed, unattended; the prompt goes to its stdin
    last_words: tuple[str, ...] = ()  #: what must stay behind extra words
    version: tuple[str, ...] = ()  #: asks for its version; empty: nothing to ask
    sees: tuple[str, ...] = ()  #: further names, or patterns of names, of its environment
    stream: str = "plain"  #: the module of `parsers` that reads its stdout
    ends_with: str = "exit code 0"  #: what makes a call a success
    cumulative: frozenset[str] = frozenset()  #: counters of Usage that run over the tool's whole session
    exit_codes: tuple[tuple[int, str], ...] = ()  #: what its own exit codes mean
    about: str = ""
    model_flag: str = ""  #: what comes before a model's name; empty: it cannot be told
    modes: dict[str, Mode] = {}  #: how Maestro's modes are said, and what each allows
    may_edit: str = ""  #: what it changes without being told a mode; empty: nothing
    resume: tuple[str, ...] = ()  #: goes on with a conversation, whose id stands for CONVERSATION
    takes: frozenset[str] = frozenset()  #: kinds of files it can be given by their path: image, pdf
    attach: tuple[str, ...] = ()  #: gives it a file, whose path stands for FILE; none: the prompt names it
    mentions: str = ""  #: how a path in the prompt is written that it reads: quoted or escaped
    log: tuple[str, ...] = ()  #: asks for its own log of the newest calls, where only that tells model and conversation
    own_flags: frozenset[str] = frozenset()  #: what Maestro has to say itself, for its reader to understand the stream

    @property
    def is_plain(self) -> bool:
        """Tell whether its stdout is the output itself, byte for byte."""
        return self.stream in ("plain", "llm")

    def argv(
        self, options: ToolOptions = _NO_OPTIONS, conversation: str | None = None, files: Sequence[str] = ()
    ) -> list[str]:
        """Return what to execute: going on with a conversation by its id, given files by the words for them."""
        asked = [self.model_flag, options.model] if options.model else []
        if options.mode:
            asked += self.modes[options.mode].words
        resume = [conversation if word == CONVERSATION else word for word in self.resume] if conversation else []
        return _with_python(
            [*self.words, *asked, *self.arguments, *options.arguments, *files, *resume, *self.last_words]
        )

    def version_argv(self) -> list[str]:
        """Return what to execute to learn its version."""
        return _with_python(self.version)

    def program(self, path: str | None = None) -> str | None:
        """Return where its program is found, None when it is not; `path` stands for the PATH to search."""
        found = shutil.which(self.argv()[0], path=path)
        return os.path.abspath(found) if found else None

    def environment(self, environ: Mapping[str, str], passed: Iterable[str] = ()) -> dict[str, str]:
        """Return what the tool sees: the allow-list, and the names the user passes on purpose."""
        wanted = (*BASE_ENVIRONMENT, *self.sees)
        chosen = set(passed)
        return safe_environment(
            {
                name: value
                for name, value in environ.items()
                if name in chosen or any(fnmatchcase(name, pattern) for pattern in wanted)
            }
        )

    def parser(self) -> Parser:
        """Return a new reader of one call's stdout."""
        module = import_module(f"maestro_state.tools.parsers.{self.stream}")
        parser: Parser = module.Stream(self.entry or self.name.split()[0], dict(self.exit_codes))
        return parser


def safe_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment as any tool may see it: without Maestro's own secrets and relative places of programs."""
    seen = {name: value for name, value in environ.items() if name not in OWN_SECRETS}
    if "PATH" in seen:
        # A relative entry would name programs of whatever project the tool works in.
        seen["PATH"] = os.pathsep.join(entry for entry in seen["PATH"].split(os.pathsep) if os.path.isabs(entry))
    return seen


def _with_python(words: Iterable[str]) -> list[str]:
    return [sys.executable if word == PYTHON else word for word in words]


@cache
def _catalogue() -> dict[str, Tool]:
    from maestro_state.tools.catalogue import TOOLS

    return {tool.name: msgspec.structs.replace(tool, entry=tool.name) for tool in TOOLS}


def _program(name: str) -> Tool | None:
    """Return the tool whose program has this name; the built-in one is none: `echo hello` is what it says."""
    tool = _catalogue().get(name)
    return tool if tool and tool.words[0] == tool.name else None


def names() -> list[str]:
    """List the tools of the catalogue."""
    return list(_catalogue())


def check_command(text: str) -> tuple[str, ...]:
    """Split a command line like a shell would; nothing is expanded and no shell ever sees it."""
    if "\0" in text or len(text) > COMMAND_MAX:
        raise InvalidValue(f"a tool's command line has no NUL and at most {COMMAND_MAX} characters")
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise InvalidValue(f"the command line cannot be split: {error}", hint="check its quotes") from error
    if not words or not words[0]:
        raise InvalidValue("the tool is empty", hint="maestro tool list")
    return words


def resolve(
    name_or_command: str, path: str | None = None, *, folder: str | None = None, elsewhere: Elsewhere | None = None
) -> Tool:
    """Return the tool a name of the catalogue or a command line means; raise ToolNotFound for anything else.

    A command line whose program is a tool of the catalogue is that tool with those arguments.
    A command line's program must be there; a tool of the catalogue need not be: whether it is shows when it is called.
    A program named by a relative path counts from `folder`, where the tool will work; by default from the current one.
    `elsewhere` is asked for a program that is not here: whether it is where the tool will be called.
    """
    if tool := _catalogue().get(name_or_command.strip()):
        return tool
    words = check_command(name_or_command)
    if tool := _program(words[0]):
        return msgspec.structs.replace(tool, arguments=_said_besides(tool, words[1:]))
    typed, is_elsewhere = words[0], False
    if folder and _is_relative(words[0]):
        is_elsewhere = not os.path.isdir(folder)
        place = os.path.join(folder, words[0])
        # Taking `..` out of a path means another one where links are on the way.
        words = (place if os.pardir in place.split(os.sep) else os.path.normpath(place), *words[1:])
    # Of a folder that only the worker has, only the worker can tell.
    is_found = is_elsewhere or shutil.which(words[0], path=path) is not None
    if not is_found and not (elsewhere is not None and elsewhere(words[0])):
        raise ToolNotFound(words[0], is_file=os.path.isfile(words[0]))
    if known := _program(os.path.basename(words[0])):
        return _at(known, words, shlex.quote(typed))
    return Tool(name=name_or_command.strip(), words=words, about="a command line")


def _at(known: Tool, words: tuple[str, ...], name: str) -> Tool:
    """Return a tool of the catalogue whose program somebody named by its path."""
    return msgspec.structs.replace(
        known, name=name, words=(words[0], *known.words[1:]), version=(), arguments=_said_besides(known, words[1:])
    )


def _said_besides(tool: Tool, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a command line says that the catalogue does not say already, as its subcommand."""
    own = [word for word in tool.words[1:] if not word.startswith("-")][:1]
    return arguments[1:] if own and arguments[:1] == tuple(own) and tool.words[1] == own[0] else arguments


def stored(
    name_or_command: str,
    working_directory: str,
    checkout: str,
    path: str | None = None,
    elsewhere: Elsewhere | None = None,
) -> Tool:
    """Return a tool somebody names now, by the name that means the same from the working directory of a session.

    A program named by a relative path counts from the current folder when it is typed; one outside of the working
    directory gets its whole path. Where only the workers have that directory, this checkout stands for it.
    """
    folder = working_directory if os.path.isdir(working_directory) else checkout
    return resolve(_seen_from(folder, name_or_command.strip()), path, folder=folder, elsewhere=elsewhere)


def _seen_from(folder: str, text: str) -> str:
    if text in _catalogue():
        return text
    program, *rest = check_command(text)
    folder = os.path.realpath(folder)
    if not _is_relative(program) or os.getcwd() == folder:
        return text
    # Links on the way are followed, as the system would; not the last one, which may tell a program what it is.
    place = os.path.join(os.path.realpath(os.path.dirname(program)), os.path.basename(program))
    if shutil.which(place) is None:
        raise ToolNotFound(program, is_file=os.path.isfile(program))
    inside = os.path.relpath(place, folder)
    is_outside = inside.split(os.sep)[0] == os.pardir
    return shlex.join([place if is_outside else os.path.join(os.curdir, inside), *rest])


def _is_relative(program: str) -> bool:
    """Tell whether a program is named by a path that depends on where one stands; a bare name is looked for on PATH."""
    return bool(os.path.dirname(program)) and not os.path.isabs(program)
