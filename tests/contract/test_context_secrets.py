"""What of the project's files becomes context only when somebody insists."""

from __future__ import annotations

import os
import subprocess

import pytest

from maestro_state.errors import PathNotFound, SecretFound
from tests.contract.test_context import write
from tests.support.backends import Backend

KEY = "AKIA" + "IOSFODNN7EXAMPLE"


async def test_a_named_file_with_a_secret_is_refused_and_nothing_added(backend: Backend):
    """Rule and line are named, the value is not; files named before it are not added either."""
    write(backend.project, "clean.py")
    path = write(backend.project, "deploy.py", f"import os\nkey = '{KEY}'\n")
    async with backend.open_async() as maestro:
        await maestro.sessions.start("secrets")
        with pytest.raises(SecretFound, match=r"deploy\.py .*AWS Access Key, line 2") as refused:
            await maestro.context.add(str(backend.project / "clean.py"), str(path))
        assert KEY not in str(refused.value)
        assert "--force" in str(refused.value.hint)
        assert await maestro.context.list() == []

        added = await maestro.context.add(str(path), force=True)
        assert [item.source["path_rel"] for item in added.items] == ["deploy.py"]


@pytest.mark.parametrize("with_git", [True, False], ids=["git", "plain"])
async def test_folders_and_globs_leave_out_secrets_and_what_is_maestros(backend: Backend, with_git: bool):
    """A folder is taken without its secrets, which are named, and without Maestro's own files, which are not."""
    if with_git:
        subprocess.run(["git", "init", "-q", backend.project], check=True)  # noqa: ASYNC221 - nothing else waits
    write(backend.project, "src/clean.py")
    write(backend.project, "src/.env", "TOKEN=x\n")
    write(backend.project, "src/keys.py", f"{KEY}\n")
    write(backend.project, "docs/guide.md")
    write(backend.project, "docs/sessions/0/session.json", "{}")
    write(backend.project, "docs/maestro/sessions/discuss/0/meta.json", "{}")
    write(backend.project, "docs/maestro/tracks.json", "{}")
    async with backend.open_async() as maestro:
        await maestro.sessions.start("folders")
        added = await maestro.context.add(str(backend.project))
        assert [item.source["path_rel"] for item in added.items] == [
            "docs/guide.md", "docs/maestro/tracks.json", "src/clean.py",
        ]  # fmt: skip
        assert {one.path: one.reason.partition("(")[2] for one in added.skipped} == {
            "src/.env": "environment file, line 1)",
            "src/keys.py": "AWS Access Key, line 1)",
        }
        globbed = await maestro.context.add("./docs/**/*.json", folder=backend.project)
        assert [item.source["path_rel"] for item in globbed.items] == ["docs/maestro/tracks.json"]
        with pytest.raises(PathNotFound):
            await maestro.context.add("docs/sessions", folder=backend.project)
        forced = await maestro.context.add(str(backend.project / "src"), force=True)
        assert len(forced.items) == 3
        assert forced.skipped == []


async def test_a_secret_that_came_into_a_file_is_not_refreshed(backend: Backend):
    """A refresh passes over what holds one by now; a file that was forced in stays wanted."""
    path, forced = write(backend.project, "a.py"), write(backend.project, ".env", "A=1\n")
    async with backend.open_async() as maestro:
        await maestro.sessions.start("refresh")
        await maestro.context.add(str(path))
        await maestro.context.add(str(forced), force=True)
        for file in (path, forced):
            file.write_text(f"{KEY}\n")
            os.utime(file, (1, 1))
        refreshed = await maestro.context.refresh()
        assert [item.source["path_rel"] for item in refreshed.items] == [".env"]
        assert [one.path for one in refreshed.skipped] == ["a.py"]
        with pytest.raises(SecretFound):
            await maestro.context.refresh("ctx-0001")
        assert [item.source["path_rel"] for item in (await maestro.context.refresh("1", force=True)).items] == ["a.py"]
