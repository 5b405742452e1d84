"""`maestro_state.record`: what any Python agent says, calls and spends, kept in a session as `logging` keeps lines."""
