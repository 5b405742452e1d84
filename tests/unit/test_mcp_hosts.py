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


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"theme": "dark"}',
        json.dumps({"theme": "dark", "mcpServers": {"other": {"command": "x"}}}, indent=4) + "\n",
        '{\n\t"accents": "é日本"\n}',
    ],
)
def test_json_is_what_it_was_before(text: str):
    """Put in and taken out again: byte for byte the same where it was written over lines, else the same values."""
    entry = HOSTS["gemini"].entry(COMMAND)
    added = Json("settings.json", "mcpServers", text).put(entry)
    listed = Json("settings.json", "mcpServers", added)
    assert listed.entry() == entry
    assert listed.put(entry) == added
    after = listed.drop()
    assert (json.loads(after) if after else {}) == (json.loads(text) if text else {})
    if "\n" in text:
        assert after == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        'model = "o3"',
        '# mine\nmodel = "o3"\n\n[mcp_servers.other]\ncommand = "x" # [not a table]\n',
        '[mcp_servers.other]\ncommand = "x"\n\n[mcp_servers.other.env]\nA = "1"\n',
    ],
)
def test_toml_keeps_every_other_line(text: str):
    """Comments and order stay; put in and taken out again it is byte for byte the same."""
    entry = HOSTS["codex"].entry(COMMAND)
    added = Toml("config.toml", "mcp_servers", text).put(entry)
    assert tomllib.loads(added)["mcp_servers"]["maestro"] == entry
    assert "MAESTRO_SESSION" in entry["env_vars"]
    assert added.startswith(text)
    listed = Toml("config.toml", "mcp_servers", added)
    assert listed.put(entry) == added
    assert listed.drop().rstrip("\n") == text.rstrip("\n")


def test_a_table_in_the_middle_is_replaced_where_it_is_ours():
    """What follows our table, and what is below it, is told apart."""
    text = '[mcp_servers.maestro]\ncommand = "old"\n[mcp_servers.maestro.env]\nA = "1"\n\n[tui]\ntheme = "x"\n'
    listed = Toml("config.toml", "mcp_servers", text)
    assert tomllib.loads(listed.drop()) == {"tui": {"theme": "x"}}
    assert tomllib.loads(listed.put({"command": "new"})) == {
        "tui": {"theme": "x"},
        "mcp_servers": {"maestro": {"command": "new"}},
    }


@pytest.mark.parametrize("text", ['{"mcpServers": []}', "[1]", "{ // a comment\n}", "{" * 100_000])
def test_json_that_cannot_be_kept_is_left_alone(text: str):
    """A file with comments, or of another form, is not rewritten."""
    with pytest.raises(FileCorrupt, match="not changed"):
        Json("settings.json", "mcpServers", text)


@pytest.mark.parametrize("text", ["mcp_servers = 1", "a = ", 'mcp_servers = {maestro = {command = "x"}}'])
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
