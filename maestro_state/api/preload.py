"""What most commands need, imported at once: for a process that waits for them and forks."""

from __future__ import annotations


def preload() -> None:
    """Import what most verbs import when they are first called."""
    import maestro_state._sync.messages
    import maestro_state._sync.source
    import maestro_state.api.context
    import maestro_state.api.maestro
    import maestro_state.api.runs
    import maestro_state.api.sessions
    import maestro_state.api.tools
    import maestro_state.api.work
    import maestro_state.context.chosen_files
    import maestro_state.context.new_items
    import maestro_state.local.embedded.supervision
    import maestro_state.mirror.reader
    import maestro_state.net.sync_client
    import maestro_state.state.calls.terminals
    import maestro_state.tools.catalogue  # noqa: F401
