"""What code does not say by itself: the meaning of each event, and the document that each command prints.

A test compares the events with those that scripts append, and the commands with those that take `--json`.
"""

from __future__ import annotations

#: Type of event → the fields of its data, what happened.
EVENTS: dict[str, tuple[str, str]] = {
    "session.started": ("`name`, `user`", "the session began"),
    "session.updated": ("`field`, `revision`", "a field was set"),
    "session.forked": ("`from`", "it took over what another session had"),
    "session.finalized": ("`reason` = `expired`, or nothing", "it ended, or its time was over"),
    "session.aborted": ("`reason`", "it was given up"),
    "message.added": ("a message", "somebody said something: a person, an agent, or a run's prompt and answer"),
    "message.retracted": ("`message`, or `until` for all up to one", "a framework took messages back; they stay"),
    "session.kept": ("nothing", "a framework changed what it keeps of its own, and said nothing"),
    "checkpoint.added": ("`checkpoint`, `namespace`, `parent`, `source`, `step`", "a graph has a new checkpoint"),
    "checkpoint.removed": ("`checkpoint`, `namespace`", "a checkpoint was pruned or deleted"),
    "checkpoint.copied": ("`thread`", "all checkpoints of another thread were copied here"),
    "state.changed": ("`keys`", "an ADK event changed the session's state"),
    "context.added": ("`item`, `kind`, `size`, `source`", "an item of context was added"),
    "context.removed": ("`item`", "an item was taken out of what runs are sent"),
    "tool.selected": ("`tool`", "runs of this session use this tool from now on"),
    "run.started": ("`run`, `tool`", "a run was asked for"),
    "run.previewed": ("`run`, `tool`", "a dry run was recorded"),
    "run.claimed": ("`run`, `owner`", "a worker carries it out"),
    "run.output": ("`run`, `text`, and `base64` where it is not all text", "the tool printed something"),
    "run.activity": ("`run`, `kind`, `name`, `summary`", "it called a tool, changed a file, retried, or was refused"),
    "run.cancel_requested": ("`run`", "somebody canceled it; its worker ends it"),
    "run.requeued": ("`run`", "its worker was lost and it will be tried again"),
    "run.finished": ("`run`, `status`, `tool`, `finished_at`, `exit_code`, `output_ref`, `error`, `usage`", "it ended"),
    "terminal.attached": ("`user`, `host`, `terminal`", "somebody follows the session"),
    "terminal.detached": ("`user`, `host`, `terminal`", "somebody follows it no longer"),
    "child.added": ("`child`", "of a work session: another one was started under it"),
    "session.marked": ("`status`", "of a work session: it was paused or resumed"),
    "session.ended": ("`status`", "of a work session: it ended"),
    "breadcrumb.applied": ("`entry`, `breadcrumb_id`", "of a work session: a breadcrumb was applied"),
}  # fmt: skip

_SESSION = "[Session](#session)"
_WORK = "[WorkSession](#worksession)"

#: Words of a command → its document.
SHAPES: dict[str, str] = {
    "session start": _SESSION,
    "session switch": _SESSION,
    "session end": _SESSION,
    "session abort": _SESSION,
    "session fork": _SESSION,
    "session list": "`cursor`: that of the next page with `--limit`, null at the end; `sessions`: rows with `id`, "
                    "`slug`, `state`, `status`, `created_at`, `updated_at`, `finalized_at`, `user_id`, `active`, "
                    "`archived`, `orphan`, "
                    "`bound` (`kind`, `key`) where a framework's key means it; `older` when older ones were left out",
    "session status": "[SessionStatus](#sessionstatus)",
    "status": "[SessionStatus](#sessionstatus)",
    "session delete": "`deleted`",
    "session get": "[Field](#field)",
    "session set": "[Field](#field)",
    "session sync": "`session_id`, `path`, `state`, `written`, `current`",
    "context add": "`items` of [ContextItem](#contextitem), `skipped`, `unchanged`",
    "context list": "`items` of [ListedItem](#listeditem)",
    "context show": "`item`, `content`",
    "context remove": "`items` of [ContextItem](#contextitem)",
    "context clear": "`removed`: how many",
    "context use-output": "`items` of [ContextItem](#contextitem)",
    "context refresh": "`items` of [ContextItem](#contextitem)",
    "use": "`tool_active`, `tool_options`",
    "run": "[Run](#run), `output`; with `--dry` also `preview`: `argv`, `stdin`; with `--detach` the run as it stands",
    "runs": "`runs` of [Run](#run)",
    "show": "`run`, `output`, or the part that was asked for",
    "wait": "`runs` of [Run](#run)",
    "cancel": "[Run](#run)",
    "tool list": "`tools` with `name`, `path`, `last_check`, `status`, `notes`",
    "tool check": "`tools`, as `tool list`; with `--workers` of [ToolOnWorkers](#toolonworkers)",
    "watch": "one [Event](events.md) a line, with `id`, `ts`, `type`, `data`",
    "message add": "[Message](#message) with `timestamp`",
    "messages": "`messages` of [Message](#message) with `timestamp`",
    "search": "`results` with `session_id`, `slug`, `kind`, `entry`, `role` of a message, `ts`, `snippet`; `total`; "
              "`skipped` when something could not be read; with `--rebuild` `sessions`, `entries`",
    "usage": "`by`, `rows` with `key`, `runs`, `tokens_input`, `tokens_output`, `cost`, `runs_without_cost`; `total`; "
             "`budgets` of [Budget](#budget) where there are any",
    "budget set": "[Budget](#budget)",
    "budget list": "`budgets` of [Budget](#budget)",
    "budget remove": "`removed`: how many",
    "export": "`path`, `format`, `warnings`",
    "import": "[ImportReport](#importreport); with `--follow` `session_id`, `messages`",
    "pull": "`session_id`, `path`, `files`, `bytes`, `written`, `trashed`",
    "verify": "`ok`, `checked`, `damaged` with `path` and `reason`, `removed`; with `--secrets` also `secrets`",
    "cleanup": "`dry_run`, `removed`, `kept`; `on_server`: ended sessions that the server still has",
    "sweep": "`checkpointed`, `finalized`, `archived`, `recovered_runs`, `errors`, `waiting`, `repaired`, `busy`",
    "serve": "`url`, one line, when it is ready",
    "token add": "`id`, `token`, `user`, `role`",
    "token list": "`tokens` with `id`, `user`, `role`, `created_at`, `expires_at`, `last_used_at`, `parent`",
    "token revoke": "`revoked`",
    "mcp install": "`tool`, `scope`, `status` = installed, updated, removed or unchanged, `done`, `path`, `entry`, "
                   "`commands` of the tool itself, `missing`: what has to be installed before it can run, or null",
    "workers": "`workers` of [Worker](#worker), each with `projects`",
    "stack status": "`running`, `address`, `pid`, `workers`, `server_version`, `serve`",
    "stack stop": "`stopped`; `with_runs`: sessions in which runs were open, if any; `unwritten`: how many are not "
                  "archived, if any",
    "config": "`settings` with `name`, `value`, `source`",
    "trust": "`project`, `trusted`, `revoked`",
    "doctor": "`checks` with `name`, `status` (`ok`, `warn`, `fail`), `detail`, `fix`",
    "wsession start": _WORK,
    "wsession end": _WORK,
    "wsession pause": _WORK,
    "wsession resume": _WORK,
    "wsession show": f"{_WORK} with `children` and `breadcrumbs`, a count",
    "wsession list": f"`sessions` of {_WORK}",
    "wsession tree": f"`tree` of {_WORK}, each with `children`",
    "wsession breadcrumb add": "[Breadcrumb](#breadcrumb) with `session_id`, `applied`",
    "wsession breadcrumbs": "`breadcrumbs`, as `breadcrumb add`",
    "wsession timeline": "`events` with `ts`, `type`, `session_id`, `summary`, `depth`",
    "wsession stats": "`sessions`, `breadcrumbs`, `tokens`, `cost`, `files_modified`, `errors`, `by_model`, `by_tool`, "
                      "`by_depth`, `by_day`, `cost_detail`",
    "work": "`applied`, `duplicates`, `rejected` with `source` and `reason`",
    "discuss start": "the discussion's `meta.json`",
    "discuss say": "the event: `session_id`, `ts`, `type`, `payload`",
    "discuss done": "the discussion's `meta.json`",
    "discuss list": "`discussions`: each `meta.json` with `live`",
    "discuss show": "the discussion's `meta.json` with `events`",
    "discuss replay": "`result`, `dry_run`, `ops_count`, `operations`, `error`",
    "discuss migrate": "`migrated` with `from`, `session_id`, `path`; `skipped` with `from`, `reason`",
}  # fmt: skip
