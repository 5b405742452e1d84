"""A program that speaks as `claude -p --output-format stream-json` does, for tests that look at what comes of a run.

It does what the prompt's last line says: `say TEXT` answers with it, `wait NAME` prints a word, then waits until there
is a file of that name in its folder. A text has `\\n` for line ends. It is put on PATH under the name of the tool.
"""

import json
import sys
import time
from pathlib import Path

SESSION = "7f0e4c1a-2f5b-4f0e-9a58-3f1f6f1b2c3d"


def line(**event: object) -> None:
    print(json.dumps({"session_id": SESSION, **event}), flush=True)


def piece(text: str) -> None:
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    line(type="stream_event", event=delta)


def main() -> None:
    if "--version" in sys.argv:
        print("2.0.0 (Claude Code)")
        return
    prompt = sys.stdin.read().strip().split("\n")[-1]
    word, _, rest = prompt.partition(" ")
    text = rest.replace("\\n", "\n") if word in ("say", "wait") else f"I was asked: {prompt}"
    line(type="system", subtype="init", model="claude-opus-5")
    line(type="stream_event", event={"type": "message_start", "message": {"id": "msg_1"}})
    line(type="stream_event", event={"type": "content_block_start", "index": 0})
    if word == "wait":
        text = f"working on {rest}"
        piece(text)
        while not Path(rest).exists():
            time.sleep(0.02)
        piece(", done")
        text += ", done"
    else:
        for part in text.split("\n"):
            piece(part + "\n")
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "pytest -q tests/test_login.py"}}
    usage = {"input_tokens": 1200 + len(prompt) * 7, "output_tokens": 40 + len(text)}
    said = [call, {"type": "text", "text": text}]
    line(type="assistant", message={"id": "msg_1", "model": "claude-opus-5", "content": said, "usage": usage})
    cost = round(0.004 + len(text) * 0.00006, 6)
    line(type="result", subtype="success", is_error=False, result=text, total_cost_usd=cost, usage=usage)


if __name__ == "__main__":
    main()
