"""Lists of servers in the tools' own files: our entry is put in and taken out, and nothing else is touched."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from maestro_cli.commands.mcp import _TOOLS

from maestro_state.errors import FileCorrupt
from maestro_state.mcp.hosts import HOSTS, Json, Toml

COMMAND = ["/opt/maestro/bin/maestro", "mcp"]


def test_the_command_offers_what_is_known():
    """The tools in the help are those that can be registered with."""
    assert tuple(HOSTS) == _TOOLS


#: Files as people have them.
JSON_TEXTS = [
    "",
    '{"theme": "dark"}',
    '{"theme":"dark","mcpServers":{"other":{"command":"x"}}}',
    json.dumps({"theme": "dark", "mcpServers": {"other": {"command": "x"}}}, indent=4) + "\n",
    '{\n\t"accents": "é日本"\n}',
    '{\n  "escaped": "\\u00e9 // no comment, /* nor this */",\n  "numbers": [1.0, 1e2,  3],\n  "short": {"a": []}\n}\n',
    '{\r\n  "theme": "dark"\r\n}\r\n',
    "{ // mine\n}",
    '// first\n{\n  // dark at night\n  "theme": "dark", // until six\n  /* none yet */\n}\n// last\n',
    '{\n  "mcpServers": {\n    // what ben uses\n    "other": {"command": "x"}, // his\n  },\n  "theme": "dark",\n}\n',
    '{\n  "mcpServers": {\n    // none yet\n  }\n}\n',
    "{}",
    '{\n  "theme": "dark", "other": 1}\n',
    '{\n  "mcpServers": {\n    "other": {"command": "x"} }\n}\n',
    '{"theme": "dark", }',
]


@pytest.mark.parametrize("text", JSON_TEXTS)
def test_json_keeps_every_other_byte(text: str):
    """Comments, order and the way it is written stay; put in and taken out again it is what it was."""
    entry = HOSTS["gemini"].entry(COMMAND)
    added = Json("settings.json", "mcpServers", text).put(entry)
    listed = Json("settings.json", "mcpServers", added)
    assert listed.entry() == entry
    assert listed.put(entry) == added
    assert listed.drop() == text
    rest = iter(added)
    assert all(char in rest for char in text), "something was taken out or moved"


@pytest.mark.parametrize("place", ["first", "last"])
def test_json_of_ours_is_changed_where_it_is(place: str):
    """An entry that is there is changed in its place, with what somebody added to it, and taken out of any."""
    others = '    "other": {"command": "x"}'
    ours = '    "maestro": {"trust": true, "command": "old"}'
    lines = [ours, others] if place == "first" else [others, ours]
    text = '{\n  "mcpServers": {\n' + ",\n".join(lines) + "\n  }\n}\n"
    listed = Json("settings.json", "mcpServers", text)
    assert json.loads(listed.put({"command": "new"}))["mcpServers"]["maestro"] == {"command": "new", "trust": True}
    assert list(json.loads(listed.put({"command": "new"}))["mcpServers"]) == [line.split('"')[1] for line in lines]
    assert listed.drop() == '{\n  "mcpServers": {\n' + others + "\n  }\n}\n"


def test_json_beside_a_comment_is_taken_out_alone():
    """What follows our list in its line does not fall into the comment above it."""
    entry = HOSTS["gemini"].entry(COMMAND)
    text = '{\n  // servers\n  "mcpServers": {}, "theme": "dark"\n}\n'
    added = Json("settings.json", "mcpServers", text).put(entry)
    assert Json("settings.json", "mcpServers", added).drop() == '{\n  // servers\n  "theme": "dark"\n}\n'


TOML_TEXTS = [
    "",
    'model = "o3"',
    '# mine\nmodel = "o3"\n\n[mcp_servers.other]\ncommand = "x" # [not a table]\n',
    '[mcp_servers.other]\ncommand = "x"\n\n[mcp_servers.other.env]\nA = "1"\n',
]


@pytest.mark.parametrize("text", TOML_TEXTS)
def test_toml_keeps_every_other_line(text: str):
    """Comments and order stay; put in and taken out again it is byte for byte the same."""
    entry = HOSTS["codex"].entry(COMMAND)
    added = Toml("config.toml", "mcp_servers", text).put(entry)
    assert tomllib.loads(added)["mcp_servers"]["maestro"] == entry
    assert "MAESTRO_SESSION" in entry["env_vars"]
    assert added.startswith(text)
    listed = Toml("config.toml", "mcp_servers", added)
    assert listed.put(entry) == added
    assert listed.drop() == text


@pytest.mark.parametrize("above", ["", '[tui]\ntheme = "x"\n', '[tui]\ntheme = "x"\n\n'])
@pytest.mark.parametrize("below", ["", "[a]\nb = 1\n", "\n# what a is for\n[a]\nb = 1\n", "# the end\n"])
def test_a_table_in_the_middle_is_replaced_where_it_is_ours(above: str, below: str):
    """What is above and below our table stays as it is, comments too; what codex itself put into ours stays."""
    approved = '[mcp_servers.maestro.tools.get_session]\napproval_mode = "approve"\n'
    ours = '[mcp_servers.maestro]\n# old\ncommand = "old"\nargs = [\n  "mcp",\n]\nenabled = true\n'
    listed = Toml("config.toml", "mcp_servers", above + ours + approved + below)
    changed = listed.put({"command": "new", "args": ["mcp"]})
    assert changed == above + ours.replace('"old"', '"new"') + approved + below
    dropped = listed.drop()
    assert tomllib.loads(dropped) == tomllib.loads(above + below)
    assert dropped.endswith(below)
    assert dropped.startswith(above.rstrip("\n"))


@pytest.mark.parametrize(
    "text",
    ['{"mcpServers": []}', '{"mcpServers": {"maestro": "x"}}', "[1]", "{ /* no end\n}", "{" * 100_000],
)
def test_json_that_cannot_be_kept_is_left_alone(text: str):
    """A file of another form is not rewritten."""
    with pytest.raises(FileCorrupt, match="not changed"):
        Json("settings.json", "mcpServers", text).put({"command": "y"})


@pytest.mark.parametrize(
    "text", ["mcp_servers = 1", "mcp_servers.maestro = 1", "a = ", 'mcp_servers = {maestro = {command = "x"}}']
)
def test_toml_that_cannot_be_kept_is_left_alone(text: str):
    """Nor is one whose entry is written in a way that lines cannot be taken out of."""
    with pytest.raises(FileCorrupt, match="not changed"):
        Toml("config.toml", "mcp_servers", text).put({"command": "y"})


def test_where_each_tool_looks(tmp_path: Path):
    """Their own variables count; project files are the project's."""
    home = {"HOME": str(tmp_path)}
    assert HOSTS["codex"].file("user", tmp_path, home | {"CODEX_HOME": "/c"}) == Path("/c/config.toml")
    assert HOSTS["claude"].file("user", tmp_path, home) == tmp_path / ".claude.json"
    assert HOSTS["gemini"].file("user", tmp_path, home) == tmp_path / ".gemini/settings.json"
    assert HOSTS["opencode"].file("user", tmp_path, home) == tmp_path / ".config/opencode/opencode.json"
    assert HOSTS["claude"].file("project", Path("/p"), home) == Path("/p/.mcp.json")


def test_qwen_shows_the_tools_at_once():
    """It hides those of servers until a model searches for them, unless their entry says so."""
    assert HOSTS["qwen"].entry(COMMAND) == {"command": COMMAND[0], "args": ["mcp"], "alwaysLoadTools": True}
    assert HOSTS["gemini"].entry(COMMAND) == {"command": COMMAND[0], "args": ["mcp"]}
