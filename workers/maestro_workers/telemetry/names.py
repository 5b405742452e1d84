"""The words of OpenTelemetry's conventions for generative AI, as of 2026-11: they are in development, and move."""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
AGENT = "gen_ai.agent.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
CONVERSATION = "gen_ai.conversation.id"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - the name of an attribute
ERROR_TYPE = "error.type"

INVOKE_AGENT = "invoke_agent"
EXECUTE_TOOL = "execute_tool"

DURATION = "gen_ai.invoke_agent.duration"
TOKEN_USAGE = "gen_ai.client.token.usage"  # noqa: S105 - the name of a metric

#: Ours, beside the conventions: the number of the run, and two stages around the agent's own work.
RUN = "maestro.run.id"
QUEUE = "maestro.queue"
ARCHIVE = "maestro.archive"

#: Whose models a tool of the catalogue asks, where it is always the same; others are their own provider.
PROVIDERS = {"claude": "anthropic", "codex": "openai", "gemini": "gcp.gemini", "qwen": "alibaba_cloud"}

#: Seconds, from an echo to an agent that works for hours.
DURATION_BOUNDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)
#: Tokens.
TOKEN_BOUNDS = tuple(4**power for power in range(14))
