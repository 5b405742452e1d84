"""A home for the real tools in which every one of them asks a model's API on loopback and nobody else."""

from __future__ import annotations

import json
from pathlib import Path

#: What is asked for where a tool lets one choose; gemini and claude know only models of their own.
MODEL = "fake-1"


def environment(home: Path, origin: str, path: str) -> dict[str, str]:
    """Write the settings of all tools into a home; return the variables they need. `origin` is the API's address."""
    openai = f"{origin}/v1"
    _write(home / ".gemini/settings.json", json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))
    _write(home / "llm/extra-openai-models.yaml", f"- model_id: fake\n  model_name: {MODEL}\n  api_base: {openai}\n"
           "  supports_tools: true\n  vision: true\n")  # fmt: skip
    _write(home / "llm/default_model.txt", "fake")
    _write(
        home / ".codex/config.toml",
        f'model = "{MODEL}"\nmodel_provider = "loopback"\n[model_providers.loopback]\nname = "loopback"\n'
        f'base_url = "{openai}"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n'
        "request_max_retries = 1\nstream_max_retries = 1\n",
    )
    return {
        "HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "NO_COLOR": "1",
        "ANTHROPIC_BASE_URL": origin, "ANTHROPIC_API_KEY": "sk-ant-0", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "GOOGLE_GEMINI_BASE_URL": origin, "GEMINI_API_KEY": "g-0", "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "OPENAI_BASE_URL": openai, "OPENAI_API_KEY": "sk-0", "OPENAI_MODEL": MODEL,
        "LLM_USER_PATH": str(home / "llm"), "CODEX_HOME": str(home / ".codex"),
        "OPENCODE_CONFIG_CONTENT": json.dumps(_opencode(openai)), "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
    }  # fmt: skip


def sit_down(home: Path, project: Path) -> None:
    """Have the tools ask a person nothing when they start in a project: no welcome, no trust, no update."""
    claude = {
        "hasCompletedOnboarding": True, "theme": "dark", "autoUpdates": False,
        "customApiKeyResponses": {"approved": ["sk-ant-0"], "rejected": []},
        "projects": {str(project): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }  # fmt: skip
    _write(home / ".claude.json", json.dumps(claude))
    _write(home / ".qwen/settings.json", json.dumps({"general": {"enableAutoUpdate": False}}))
    gemini = {
        "security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},  # it would not exit before it has told them
    }  # fmt: skip
    _write(home / ".gemini/settings.json", json.dumps(gemini))
    with (home / ".codex/config.toml").open("a") as file:
        file.write(f'\n[projects."{project}"]\ntrust_level = "trusted"\n')


def _opencode(url: str) -> dict[str, object]:
    model = {
        "name": "Fake", "tool_call": True, "attachment": True, "cost": {"input": 1, "output": 2},
        "limit": {"context": 100_000, "output": 8_000}, "modalities": {"input": ["text", "image"], "output": ["text"]},
    }  # fmt: skip
    provider = {
        "npm": "@ai-sdk/openai-compatible", "name": "Loopback", "models": {MODEL: model},
        "options": {"baseURL": url, "apiKey": "sk-0"},
    }  # fmt: skip
    return {"provider": {"loopback": provider}, "model": f"loopback/{MODEL}"}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
