"""Any Python agent, recorded as `logging` would: what it was asked, called, answered and spent."""

from maestro_state import Maestro, record

log = record("fix-login", agent="triage")


@log.tool("count_failures")
def count_failures(log_file):
    return len(log_file.split("-")) + 1


@log
def triage(question):
    failures = count_failures("login-errors.log")
    log.assistant("I counted.", model="my-model", tokens=(1200, 15), cost=0.004)
    return f"{question} {failures}."


with log:  # or a block of your own
    log.user("Which ones?")
    log.assistant("Those after an hour.", tokens=(900, 20), cost=0.003)
triage("How many logins failed?")

with Maestro() as maestro:
    for message in maestro.messages.since(ref="record:fix-login"):
        print(f"{message.role}: {message.content or message.tool_calls[0]['name']}")
    for run in maestro.runs.list("record:fix-login"):
        print(f"run {run.id} of {run.tool}: {run.status}, {run.usage.tokens_input} tokens in, ${run.usage.cost}")
