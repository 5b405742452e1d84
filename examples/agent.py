"""An agent's memory: plan, tool call, result and answer as linked messages; and a field that two agents share."""

from maestro_state import Maestro, MaestroError

with Maestro() as maestro:
    maestro.sessions.start("agent")
    question = maestro.messages.add("user", "how many tests fail?")
    plan = maestro.messages.add(
        "assistant", "I run the tests and count.", parent_id=question.id, metadata={"kind": "plan"}
    )
    call = maestro.messages.add(
        "assistant", "", parent_id=plan.id,
        tool_calls=[{"id": "c1", "tool": "shell", "args": {"command": "pytest -q"}}],
    )  # fmt: skip
    result = maestro.messages.add(
        "tool", "", parent_id=call.id,
        tool_results=[{"call_id": "c1", "output": "2 failed, 40 passed"}],
    )  # fmt: skip
    maestro.messages.add("assistant", "Two.", parent_id=result.id)

    # What a model is handed: the summary in place of what came before it, then the messages since.
    maestro.sessions.set("context_summary", "They asked how many tests fail: two.")
    maestro.messages.add("user", "which ones?")
    for message in maestro.messages.for_model():
        print(f"{message.role}: {message.content}")

    # Two agents, one field: whoever read an older revision is refused.
    seen = maestro.sessions.get("preferences")
    maestro.sessions.set("preferences", {"language": "en"}, if_revision=seen.revision)
    try:
        maestro.sessions.set("preferences", {"language": "pt"}, if_revision=seen.revision)
    except MaestroError as error:
        print("refused:", error.code)
    print(maestro.sessions.get("preferences").value)
