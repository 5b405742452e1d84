"""What an account of the server's may not do of a sweep."""

from __future__ import annotations

from maestro_state._sync.ledger import Ledger
from maestro_state.errors import MaestroError
from maestro_state.net import is_forbidden


def may_count(ledger: Ledger) -> bool:
    """Tell whether runs may be counted, by doing so; a server that is away forbids nothing."""
    try:
        ledger.count_rest()
    except MaestroError as error:
        return not is_forbidden(error)
    return True
