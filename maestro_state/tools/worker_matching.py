"""Which worker can carry out a run: it has the tool, the folder and the labels. Pure.

What a worker has it says in the list of workers. Of programs outside of the catalogue, and of folders that nobody
named, only the worker itself knows: it counts as able until it has said that it is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from maestro_state.errors import InvalidValue, NoFittingWorker
from maestro_state.models.worker import Needs, Worker
from maestro_state.tools.tool import check_command, names


def program_of(tool: str) -> str:
    """Return the name of the catalogue, or the program, that a run's tool begins with."""
    if tool in names():
        return tool
    try:
        return check_command(tool)[0]
    except InvalidValue:
        return tool


def has_tool(worker: Worker, tool: str) -> bool:
    """Tell whether a worker has a tool, as far as is known."""
    program = program_of(tool)
    if worker.only_tools or tool in names():
        return any(one.name == program for one in worker.tools)
    return program not in worker.lacks


def has_folder(worker: Worker, folder: str) -> bool:
    """Tell whether a worker has a folder, as far as is known."""
    return folder not in worker.lacks


def has_labels(worker: Worker, labels: Sequence[str]) -> bool:
    """Tell whether a worker has all of some labels."""
    return set(labels) <= set(worker.labels)


def fits(worker: Worker, needs: Needs) -> bool:
    """Tell whether a worker can carry out a run, as far as is known."""
    has_all = has_labels(worker, needs.labels) and has_tool(worker, needs.tool)
    return has_all and has_folder(worker, needs.folder)


def queues_for(needs: Needs, present: Sequence[Worker]) -> list[str]:
    """Return where the job of a run is to wait: once for each kind of worker that can carry it out.

    Where others hold its environment it is theirs alone, while they live.
    """
    theirs = [worker for worker in present if worker.id in needs.holders]
    able = theirs or ([] if needs.holders else [worker for worker in present if fits(worker, needs)])
    return list(dict.fromkeys(worker.queue for worker in able))


def refusal(needs: Needs, present: Sequence[Worker]) -> NoFittingWorker:
    """Return what to say when no worker that is there can carry out a run: what is missing, and who has what."""
    hint, program, labels = "maestro workers", program_of(needs.tool), [f"label {label}" for label in needs.labels]
    labelled = [worker for worker in present if has_labels(worker, needs.labels)]
    equipped = [worker for worker in present if has_tool(worker, needs.tool)]
    able = [worker for worker in labelled if worker in equipped]
    if not labelled:
        there = sorted({label for worker in present for label in worker.labels})
        if set(needs.labels) <= set(there):
            text = f"no worker has {' and '.join(labels)} together: {_apart(needs.labels, present)}"
        else:
            has = f"labels {_some(there)}" if there else "no labels"
            text = f"no worker has {' and '.join(labels)}; those there have {has}"
    elif not equipped:
        there = sorted({tool.name for worker in present for tool in worker.tools})
        text = f"no worker has {program}; those there have {_some(there) or 'no tools'}"
        hint = "maestro workers, maestro run --tool TOOL"
    elif not able:
        wanted = " and ".join(labels)
        apart = f"{program} is on {_where(equipped)}; {wanted} is on {_where(labelled)}"
        text = f"no worker has {program} and {wanted}: {apart}"
    else:
        there = sorted({folder for worker in able for folder in worker.projects})
        of = "no worker" if len(able) == len(present) else f"no worker with {' and '.join([program, *labels])}"
        text = f"{of} has the folder {needs.folder}; those there have {_some(there)}"
        hint = folder_hint(needs.folder)
    return NoFittingWorker(text, hint=hint)


def _apart(labels: Sequence[str], present: Sequence[Worker]) -> str:
    return "; ".join(f"{label} is on {_where([one for one in present if label in one.labels])}" for label in labels)


def _where(workers: Sequence[Worker]) -> str:
    return _some([f"{worker.host}:{worker.pid}" for worker in workers])


def waits_for(needs: Needs) -> str:
    """Say what a run needs of a worker, in few words."""
    labels = "".join(f" and label {label}" for label in needs.labels)
    return f"a worker with {program_of(needs.tool)}{labels}"


def folder_hint(folder: str) -> str:
    """Say what to do about a folder that a worker does not have."""
    return f"start a worker with MAESTRO_PATHS={folder}=ITS_FOLDER, or maestro session set working_directory DIR"


def _some(found: Sequence[str]) -> str:
    return ", ".join(found[:8]) + (", …" if len(found) > 8 else "")
