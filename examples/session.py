"""A session with messages, context and a run. The tool is the built-in echo, which needs no account."""

from maestro_state import Maestro

with Maestro() as maestro:
    session = maestro.sessions.start("fix-login", note="tests fail since Monday")
    maestro.messages.add("user", "look at the cookie first")
    maestro.context.add("the cookie is set in middleware")
    maestro.tools.use("echo")

    run = maestro.runs.wait(maestro.runs.start("why does the login fail?"))
    print("run", run.id, run.status)
    print(maestro.runs.output(run.id).decode().splitlines()[-1])

    for message in maestro.messages.last(10):
        print(f"{message.role}: {message.content.splitlines()[0][:40]}")

    maestro.sessions.end()
    report = maestro.archive.verify(session.id)
    print("archived, every digest fits" if report.ok else report.damaged)
