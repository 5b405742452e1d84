"""What `maestro status` shows: identity, state, what it holds and consumed, who is attached."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from maestro_cli import output
from maestro_cli.screen import figures
from maestro_cli.screen.columns import rows_of
from maestro_state.clock import from_iso, now_ms
from maestro_state.models.run import Usage
from maestro_state.vocabulary import FROZEN

if TYPE_CHECKING:
    from maestro_state import Session, SessionStatus

#: Narrowest room for a value.
_LEAST_COLUMNS = 20


def show(found: SessionStatus) -> None:
    record = found.session
    rows: list[tuple[str, str]] = [
        ("state", _state(record)),
        ("started", f"{output.ago(from_iso(record.created_at), now_ms())} by {output.safe(record.user_id)}"),
        ("activity", output.ago(from_iso(record.last_activity), now_ms())),
        ("kept for", output.duration(found.ttl_left) if found.ttl_left is not None else "archived"),
        ("tool", output.safe(record.tool_active) if record.tool_active else "none yet"),
        ("context", _context_line(found)),
        ("runs", _runs_gist(found)),
    ]
    if consumed := _consumed(found):
        rows.append(("consumed", consumed))
    if record.notes:
        rows.append(("note", output.safe(record.notes)))
    if record.abort_reason:
        rows.append(("reason", output.safe(record.abort_reason)))
    if record.cleanup_at:
        rows.append(("cleanup", _cleanup_line(found)))
    if found.archive_waits:
        rows.append(("archive", f"waits: {output.safe(found.archive_waits)}"))
    output.line(output.colour(record.id, bold=True))
    for one in found.attached:
        rows.append(("attached", output.safe(f"{one.user}@{one.host} {one.terminal}")))
    for name, value in rows:
        for at, row in enumerate(_fitting(value)):
            output.line(f"  {name if at == 0 else '':<10}{row}")


def _fitting(value: str) -> list[str]:
    """Return a value as rows: those of its lines, broken to the terminal's width where they are no colours of ours."""
    lines = value.split("\n")
    if not output.is_terminal() or isinstance(value, output.Coloured):
        return lines
    return [row for line in lines for row in rows_of(line, max(_LEAST_COLUMNS, output.screen_columns() - 12))]


def _state(record: Session) -> output.Coloured:
    """Say the state with its meaning and, while that may change, how alive the session is."""
    shown = output.session_state(record.state)
    return shown if record.state in FROZEN else output.Coloured(f"{shown} · {output.state_word(record.status)}")


def liveness(state: str, status: str) -> str:
    """Say how alive a session is; one that was ended on purpose has not run out of anything."""
    return "ended" if status == "expired" and state in ("finalizada", "abortada") else output.state_word(status)


def _runs_gist(found: SessionStatus) -> str:
    counts = Counter(run.status for run in found.runs)
    gist = str(len(found.runs)) + "".join(f" · {number} {status}" for status, number in counts.items())
    return gist + (f" · last output {found.last_output['run_id']}" if found.last_output else "")


def _consumed(found: SessionStatus) -> str:
    """Say what the runs of the session consumed together."""
    told = [run.usage for run in found.runs if run.usage]
    costs = [usage.cost for usage in told if usage.cost is not None]
    total = Usage(
        tokens_input=sum(usage.tokens_input or 0 for usage in told) or None,
        tokens_output=sum(usage.tokens_output or 0 for usage in told) or None,
        cost=sum(costs) if costs else None,
    )
    return " · ".join(part for part in (figures.consumed(total), figures.cost(total)) if part)


def _cleanup_line(found: SessionStatus) -> str:
    outputs = sum(1 for run in found.runs if run.output_ref and run.output_ref.removed_at)
    dry_runs = sum(1 for run in found.runs if run.removed_at)
    counts = [output.counted(number, word) for number, word in ((outputs, "output"), (dry_runs, "dry run")) if number]
    removed = f"{' and '.join(counts)} removed " if counts else "nothing of a run removed "
    return removed + output.ago(from_iso(found.session.cleanup_at or ""), now_ms())


def _context_line(found: SessionStatus) -> str:
    drifted = sum(1 for item in found.context if item.drift in ("changed", "missing"))
    count = f"{len(found.context)} item{'' if len(found.context) == 1 else 's'}"
    return f"{count}, {drifted} changed since (maestro context list)" if drifted else count
