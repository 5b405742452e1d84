"""What a run is charged while it is carried out, and that it is counted when it is over.

The ledger decides whether a run goes on; it never makes one fail. What cannot be written is said in the log, and the
sweep counts the run later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from maestro_state.errors import MaestroError
from maestro_state.local.logs import get_logger
from maestro_state.models.ledger import tokens_of, used_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from maestro_state import Maestro
    from maestro_state.models.claim import Claim
    from maestro_state.models.ledger import Counted, Over
    from maestro_state.models.run import Usage
    from maestro_state.tools import Tool

_log = get_logger("maestro.worker")


class Charges:
    """What one run is charged."""

    def __init__(self, maestro: Maestro, claim: Claim) -> None:
        self._maestro, self._claim = maestro, claim
        self.refusal: str | None = None  #: which budget is used up, with the sum

    def begin(self) -> str | None:
        """Put the run down as begun; returns why it may not be."""
        return self._judged(lambda: self._maestro.ledger.begin(self._claim.session_id, self._claim.run))

    def charge(self, usage: Usage, tool: Tool) -> str | None:
        """Charge what its tool has told so far; returns why it may not go on."""
        run = self._claim.run
        if tool.cumulative and (run.continues or run.arguments or tool.arguments):
            # Counted over the tool's whole conversation: what of it is this run's is known when it has ended.
            usage = msgspec.structs.replace(usage, **dict.fromkeys(tool.cumulative))
        return self._judged(lambda: self._maestro.ledger.charge(self._claim.session_id, run, usage))

    def settle(self, usage: Usage) -> None:
        """Charge what it came to, while the claim is held: its record, which others can write, takes nothing back."""
        if usage.cost is not None or tokens_of(usage) is not None:
            self._judged(lambda: self._maestro.ledger.charge(self._claim.session_id, self._claim.run, usage))

    def _judged(self, ask: Callable[[], Over | None]) -> str | None:
        try:
            over = ask()
        except MaestroError as error:
            _log.warning("run_not_charged", reason=str(error))
            return None
        if over is not None:
            self.refusal = f"{used_up(over)} (maestro budget list)"
        return self.refusal


def count(maestro: Maestro, session_id: str, run_id: str) -> Counted | None:
    """Count a run that is over; None when it was counted before, is not over, or cannot be counted now."""
    try:
        return maestro.ledger.count(session_id, run_id)
    except MaestroError as error:
        _log.warning("run_not_counted", reason=str(error))
        return None
