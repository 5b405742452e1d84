#!/bin/sh
# Install the AI tools that $TOOLS names and npm has, each in the version that its own variable says, into a folder.
# Usage: TOOLS="claude codex" CLAUDE_VERSION=… CODEX_VERSION=… install-tools.sh FOLDER
set -eu
folder=$1
set --
for tool in $TOOLS; do
    case $tool in
        claude) package=@anthropic-ai/claude-code@${CLAUDE_VERSION:?} ;;
        codex) package=@openai/codex@${CODEX_VERSION:?} ;;
        gemini) package=@google/gemini-cli@${GEMINI_VERSION:?} ;;
        opencode) package=opencode-ai@${OPENCODE_VERSION:?} ;;
        qwen) package=@qwen-code/qwen-code@${QWEN_VERSION:?} ;;
        llm) continue ;; # a Python program, which the Dockerfile installs
        *)
            echo "TOOLS names '$tool'; it may name claude, codex, gemini, opencode, qwen and llm" >&2
            exit 2
            ;;
    esac
    set -- "$@" "$package"
done
mkdir -p "$folder/node_modules/.bin"
if [ $# -gt 0 ]; then
    npm install --prefix "$folder" --cache "$folder/.cache" --omit=dev --no-audit --no-fund --loglevel=error "$@"
    rm -rf "$folder/.cache"
fi
