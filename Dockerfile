# One image for everything of Maestro's: workers, scheduler, access list. Nothing in it runs as root.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY maestro_state ./maestro_state
COPY workers ./workers
COPY cli ./cli
COPY tests/constraints.txt ./constraints.txt
RUN python -m venv /opt/maestro \
    && /opt/maestro/bin/pip install --no-cache-dir -c constraints.txt .

FROM python:3.13-slim
# Folders made here give the volumes mounted on them their owner.
RUN useradd --uid 10001 --create-home maestro \
    && install -d -o maestro -g maestro -m 0755 /access \
    && install -d -o maestro -g maestro -m 0700 /archive /projects
COPY --from=build /opt/maestro /opt/maestro
ENV PATH=/opt/maestro/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER maestro
WORKDIR /archive
VOLUME /archive
# Leaves with 1 when a check fails: server gone, evicting, or the archive not writable.
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s --retries=3 CMD ["maestro", "doctor"]
ENTRYPOINT ["maestro"]
CMD ["--help"]
