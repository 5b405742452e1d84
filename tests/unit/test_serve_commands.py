"""Everything the command line can do is under /v1: command by command, option by option, or it says here why not."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import click
import pytest
from maestro_cli.command_table import COMMANDS

from maestro_state.serve.routes import ROUTES, Route, names_of

_S, _W, _D = "/v1/sessions/{ref}", "/v1/wsessions/{work}", "/v1/discussions/{discussion}"

#: Command → the routes that do it.
SERVED = {
    "session start": ["POST /v1/sessions"],
    "session list": ["GET /v1/sessions"],
    "session status": [f"GET {_S}"],
    "session end": [f"POST {_S}/end"],
    "session abort": [f"POST {_S}/abort"],
    "session delete": [f"DELETE {_S}"],
    "session fork": [f"POST {_S}/fork"],
    "session get": [f"GET {_S}/fields/{{field}}"],
    "session set": [f"PUT {_S}/fields/{{field}}"],
    "session sync": [f"POST {_S}/sync"],
    "run": [f"POST {_S}/runs", f"POST {_S}/preview"],
    "status": [f"GET {_S}"],
    "runs": [f"GET {_S}/runs"],
    "show": [f"GET {_S}/runs/{{run}}{part}" for part in ("", "/output", "/prompt", "/context", "/activity")],
    "wait": [f"GET {_S}/wait"],
    "cancel": [f"POST {_S}/runs/{{run}}/cancel", f"GET {_S}/wait"],
    "context add": [f"POST {_S}/context"],
    "context list": [f"GET {_S}/context"],
    "context show": [f"GET {_S}/context/{{item}}"],
    "context remove": [f"DELETE {_S}/context/{{item}}"],
    "context clear": [f"DELETE {_S}/context"],
    "context refresh": [f"POST {_S}/refresh"],
    "context use-output": [f"POST {_S}/use-output"],
    "use": [f"POST {_S}/tool"],
    "tool list": ["GET /v1/tools"],
    "tool check": ["POST /v1/tools/check", "GET /v1/tools/workers"],
    "watch": [f"GET {_S}/events"],
    "message add": [f"POST {_S}/messages"],
    "messages": [f"GET {_S}/messages"],
    "search": ["GET /v1/search", "POST /v1/search/rebuild"],
    "usage": ["GET /v1/usage"],
    "budget list": ["GET /v1/budgets"],
    "budget set": ["PUT /v1/budgets"],
    "budget remove": ["DELETE /v1/budgets"],
    "token add": ["POST /v1/tokens"],
    "token list": ["GET /v1/tokens"],
    "token revoke": ["DELETE /v1/tokens/{id}"],
    "workers": ["GET /v1/workers"],
    "discuss start": ["POST /v1/discussions"],
    "discuss list": ["GET /v1/discussions"],
    "discuss show": [f"GET {_D}"],
    "discuss say": [f"POST {_D}/say", f"GET {_D}/prompt"],
    "discuss done": [f"POST {_D}/done"],
    "discuss replay": [f"POST {_D}/replay"],
    "discuss migrate": ["POST /v1/discussions/migrate"],
    "wsession start": ["POST /v1/wsessions"],
    "wsession list": ["GET /v1/wsessions"],
    "wsession show": [f"GET {_W}"],
    "wsession end": [f"POST {_W}/end"],
    "wsession pause": [f"POST {_W}/pause"],
    "wsession resume": [f"POST {_W}/resume"],
    "wsession stats": [f"GET {_W}/stats"],
    "wsession timeline": [f"GET {_W}/timeline"],
    "wsession tree": ["GET /v1/wsessions/tree", f"GET {_W}/tree"],
    "wsession breadcrumbs": [f"GET {_W}/breadcrumbs"],
    "wsession breadcrumb add": [f"POST {_W}/breadcrumbs"],
    "work": [f"POST {_W}/consume"],
    "export": [f"GET {_S}/export"],
    "pull": [f"POST {_S}/pull"],
    "verify": [f"POST {_S}/verify", "POST /v1/verify"],
    "cleanup": ["POST /v1/cleanup"],
    "sweep": ["POST /v1/sweep"],
    "stack status": ["GET /v1/stack"],
    "config": ["GET /v1/config"],
    "doctor": ["GET /v1/doctor", "POST /v1/doctor/repair"],
}
#: Commands of one terminal, one machine, or a process that stays.
STAYS = {
    "session switch", "open", "import", "trust", "acl", "stack stop", "completion", "serve", "mcp", "mcp install",
    "worker", "scheduler",
}  # fmt: skip
#: Routes that no command is like: how it serves, signing in, and what screens read at once.
BESIDE = {
    "GET /v1/health", "GET /openapi.json", "GET /metrics", "GET /v1/overview", "GET /v1/events", "POST /v1/signin",
    "POST /v1/signout",
}  # fmt: skip
#: What a command calls otherwise than its route does.
CALLED = {
    "*": {"run_id": "run", "item_id": "item", "token_id": "id"},
    "session fork": {"new": "name"},
    "context remove": {"item_ids": "item"},
    "discuss show": {"ref": "discussion"},
    "discuss replay": {"ref": "discussion"},
    **{name: {"ref": "work"} for name in SERVED if name.startswith("wsession ")},
    "work": {"cookie": "work"},
    "session start": {"ttl": "ttl_seconds", "task": "task_id"},
    "session list": {"mine": "user"},
    "session end": {"no_wait": "archive"},
    "session abort": {"no_wait": "archive"},
    "run": {"continue": "continues", "continue_from": "continues", "no_history": "history", "stdin": "piped",
            "no_stdin": "piped", "timeout": "timeout_s", "label": "labels", "detach": "wait_s"},
    "wait": {"run_ids": "runs"},
    "cancel": {"wait": "timeout_s"},
    "context add": {"things": "paths", "file": "paths", "label": "labels"},
    "context refresh": {"item_ids": "items"},
    "watch": {"from": "from_"},
    "message add": {"text": "content", "parent": "parent_id"},
    "messages": {"all": "since"},
    "search": {"query": "q", "archived": "live"},
    "budget set": {"day": "period", "total": "period"},
    "budget remove": {"day": "period", "total": "period", "tokens": "unit", "cost": "unit"},
    "token add": {"read_only": "role", "admin": "role"},
    "discuss say": {"text": "content", "tool": "engine"},
    "discuss done": {"file": "final_json"},
    "wsession start": {"session_type": "type", "ttl": "ttl_seconds"},
    "wsession breadcrumb add": {"cookie": "work", "model": "model_used", "tokens_in": "token_count",
                                "tokens_out": "token_count", "depth": "depth_level"},
}  # fmt: skip
#: Options that say how a terminal shows or asks, where it writes, or what its own machine has; a path that says it.
TERMINAL = {
    "*": {"json", "yes", "notify", "confirm"},
    "run": {"file", "env"},  # the caller reads its own files, and its own environment stays with it
    "show": {"meta", "raw", "prompt", "context"},  # each is a path, or Accept: text/plain
    "context add": {"follow"},  # out of the project that is served
    "tool check": {"workers"},  # a path
    "watch": {"until_idle"},
    "search": {"everywhere", "rebuild"},  # other projects of whoever types; a path
    "discuss migrate": {"paths"},
    "wsession breadcrumb add": {"from"},
    "work": {"once", "until_idle"},
    "export": {"output"},
    "verify": {"all"},  # a path
    "doctor": {"as", "port", "repair"},
    "session set": {"if_revision"},  # If-Match
}  # fmt: skip


def leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield what can be typed, with what it takes."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    if command.invoke_without_command:
        yield name, command
    context = click.Context(command)
    for word in command.list_commands(context):
        below = command.get_command(context, word)
        assert below is not None
        yield from leaves(below, f"{name} {word}")


def every_command() -> dict[str, click.Command]:
    """Return all that can be typed."""
    found: dict[str, click.Command] = {}
    for name, file in COMMANDS.items():
        module = import_module(f"maestro_cli.commands.{file}")
        top = next(one for one in vars(module).values() if isinstance(one, click.Command) and one.name == name)
        found |= leaves(top, name)
    return found


BY_NAME: dict[str, Route] = {f"{route.method} {route.path}": route for route in ROUTES}


def test_every_command_has_its_routes_and_every_route_its_command():
    """A command or a route that is new has to be put down here."""
    assert set(every_command()) == set(SERVED) | STAYS
    named = [route for routes in SERVED.values() for route in routes]
    assert set(named) | BESIDE == set(BY_NAME)


@pytest.mark.parametrize("name", SERVED)
def test_what_a_command_takes_its_routes_take(name: str):
    """Each argument and option is a field of the query or the body, a part of the path, or a terminal's own."""
    routes = [BY_NAME[one] for one in SERVED[name]]
    taken = {field for one in routes for shape in (one.query, one.body) if shape for field in shape.__struct_fields__}
    in_path = {part for one in routes for part in names_of(one)}
    called, own = CALLED["*"] | CALLED.get(name, {}), TERMINAL["*"] | TERMINAL.get(name, set())
    missing = []
    for parameter in every_command()[name].params:
        words = (
            parameter.opts + parameter.secondary_opts if isinstance(parameter, click.Option) else [str(parameter.name)]
        )
        for word in words:
            said = word.lstrip("-").replace("-", "_")
            if called.get(said, said) not in taken | in_path | own:
                missing.append(said)
    assert missing == []
