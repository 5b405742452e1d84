# One file, three images; nothing in them runs as root, and each works on a read-only root:
#
#   docker build --target server-side -t maestro:server-side .    scheduler, access list, `maestro serve` (page and MCP)
#   docker build --target worker -t maestro:worker .              a worker, for tools that you add yourself
#   docker build --target worker-tools -t maestro:worker-tools .  a worker with Node and the AI tools that TOOLS names
#
# Other tools, or other versions: --build-arg TOOLS="claude llm" --build-arg CLAUDE_VERSION=2.1.328
ARG TOOLS="claude codex gemini opencode llm"
ARG CLAUDE_VERSION=2.1.328
ARG CODEX_VERSION=0.169.0
ARG GEMINI_VERSION=0.61.0
ARG OPENCODE_VERSION=1.18.33
ARG QWEN_VERSION=0.24.4
ARG LLM_VERSION=0.36

# Maestro itself, in an environment that is copied whole. Its interpreter can be run and not read by the image's user: so
# the kernel closes its processes to others of that user, the AI tools, from their first moment on. Else a tool would
# find the server's password in the environment of a health check that begins.
FROM python:3.13-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY maestro_state ./maestro_state
COPY workers ./workers
COPY cli ./cli
COPY tests/constraints.txt ./constraints.txt
COPY tests/reach/constraints.txt ./more-constraints.txt
RUN python -m venv --copies /opt/maestro \
    && /opt/maestro/bin/pip install --no-cache-dir -c constraints.txt -c more-constraints.txt ".[otel]" \
    && chmod 0711 /opt/maestro/bin/python*

FROM build AS build-serving
RUN /opt/maestro/bin/pip install --no-cache-dir -c constraints.txt -c more-constraints.txt ".[serve,mcp]"

# The tools that come from npm, with the Node that runs them: what installs them stays behind.
FROM node:22-bookworm-slim AS tools
ARG TOOLS
ARG CLAUDE_VERSION
ARG CODEX_VERSION
ARG GEMINI_VERSION
ARG OPENCODE_VERSION
ARG QWEN_VERSION
COPY deploy/image/install-tools.sh /install-tools.sh
RUN sh /install-tools.sh /opt/tools

# What all three have in common. Folders made here give the volumes mounted on them their owner.
FROM python:3.13-slim-bookworm AS base
RUN groupadd --gid 10001 maestro \
    && useradd --uid 10001 --gid 10001 --create-home maestro \
    && chmod 0700 /home/maestro \
    && install -d -o maestro -g maestro -m 0755 /access \
    && install -d -o maestro -g maestro -m 0700 /archive /projects \
    && install -d -m 0700 /backup
ENV HOME=/home/maestro \
    PATH=/opt/maestro/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /archive
VOLUME /archive
ENTRYPOINT ["maestro"]

FROM base AS worker
COPY --from=build /opt/maestro /opt/maestro
USER 10001:10001
# Exits with 1 when a check fails: server gone, evicting, archive not writable, or no worker of this container listens.
HEALTHCHECK --interval=30s --timeout=15s --start-period=30s --retries=3 CMD ["maestro", "doctor", "--as", "worker"]
CMD ["worker"]

FROM worker AS worker-tools
ARG TOOLS
ARG LLM_VERSION
USER 0:0
# What agents call themselves; versions are those of the Debian release that the base names.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git openssh-client procps ripgrep \
    && rm -rf /var/lib/apt/lists/*
COPY --from=tools /usr/local/bin/node /usr/local/bin/node
COPY --from=tools /opt/tools /opt/tools
RUN case " $TOOLS " in *" llm "*) \
        python -m venv /opt/llm && /opt/llm/bin/pip install --no-cache-dir "llm==$LLM_VERSION" ;; \
    esac
ENV PATH=/opt/maestro/bin:/opt/tools/node_modules/.bin:/opt/llm/bin:$PATH
USER 10001:10001
# Logins and settings of the tools last as long as this volume.
VOLUME /home/maestro

FROM base AS server-side
COPY --from=build-serving /opt/maestro /opt/maestro
COPY deploy/backup.py /usr/local/bin/maestro-backup
USER 10001:10001
HEALTHCHECK --interval=30s --timeout=15s --start-period=30s --retries=3 CMD ["maestro", "doctor"]
CMD ["--help"]
