"""The OpenAPI document, made of the table of routes: what is checked is what is told."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec

from maestro_state import __version__
from maestro_state.serve.routes import Download, Route, names_of
from maestro_state.serve.schemas.common import ErrorDocument, Nothing

#: Status → what it means, the same everywhere.
FAILURES = {
    400: "bad input", 401: "no token, or none that counts", 403: "read-only, or asked by another site",
    404: "not found",
    405: "the path has other methods", 409: "refused in this state", 412: "stale: somebody changed it meanwhile",
    413: "too large", 415: "the body is not JSON", 421: "asked by another name", 429: "too many requests",
    500: "it failed", 503: "the state server is away",
}  # fmt: skip
#: What is made there has no address of its own.
_NOWHERE = ("/messages", "/context", "/use-output", "/breadcrumbs", "/say")
_EVENT_ID = "^([0-9]{1,19}(-[0-9]{1,19})?|start|now)$"
_REF = "#/components/schemas/{name}"
_SESSION_REF = "A full id, a slug, the six characters at the end of an id, or latest."


def openapi_document(routes: tuple[Route, ...]) -> dict[str, Any]:
    """Return the document."""
    shown = [_resolved(route) for route in routes if route.path.startswith(("/v1", "/openapi", "/metrics"))]
    types = {kind for route in shown for kind in (route.answer, route.body) if kind not in (None, Any, Download)}
    ordered = [ErrorDocument, *sorted(types, key=lambda kind: kind.__name__)]
    _, schemas = msgspec.json.schema_components(ordered, ref_template=_REF)
    paths: dict[str, Any] = {}
    for route in shown:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Maestro", "version": __version__, "description": "Sessions shared by AI tools, over HTTP."},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"bearer": []}],
    }


def _resolved(route: Route) -> Route:
    """Return a route with the type of its answer: those that nothing else needs are imported now."""
    if not isinstance(route.answer, str):
        return route
    module, _, name = route.answer.rpartition(".")
    return route._replace(answer=getattr(import_module(f"maestro_state.{module}"), name))


def _operation(route: Route) -> dict[str, Any]:
    text = (route.handler.__doc__ or "").strip().split("\n")[0]
    found: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": text.rstrip("."),
        "parameters": _parameters(route),
        "responses": {str(status): _failure(meaning) for status, meaning in FAILURES.items()},
    }
    found["responses"][str(route.status)] = _answer(route)
    if route.path.endswith("/events"):
        found["responses"]["204"] = {"description": "the session is over, and everything of it was told"}
    if route.needs == "none":
        found["security"] = []
        if route.method == "GET":
            found["responses"]["503"] = _answer(route)
    if route.body is not None:
        schema = _schema(route.body)
        required = any(field.required for field in msgspec.structs.fields(route.body))
        found["requestBody"] = {"required": required, "content": {"application/json": {"schema": schema}}}
    return found


def _parameters(route: Route) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in names_of(route):
        one = {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        found.append(one | ({"description": _SESSION_REF} if name == "ref" else {}))
    if route.query is not Nothing:
        (schema,), parts = msgspec.json.schema_components([route.query], ref_template=_REF)
        shape = parts[schema["$ref"].rsplit("/", 1)[1]]
        for name, part in shape["properties"].items():
            part = {key: value for key, value in part.items() if key != "default" or value is not None}
            wanted = _without_null(part)
            found.append({"name": name, "in": "query", "required": name in shape.get("required", []), "schema": wanted})
    if route.once:
        schema = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}
        found.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": schema})
    if route.path.endswith("/events"):
        text, schema = "Go on behind this event; counts before `from`.", {"type": "string", "pattern": _EVENT_ID}
        one = {"name": "Last-Event-ID", "in": "header", "required": False, "schema": schema}
        found.append(one | {"description": text})
    if "/fields/" in route.path and route.method == "PUT":
        found.append({"name": "If-Match", "in": "header", "required": False, "schema": {"type": "string"}})
    return found


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out null, which a query cannot say: what is not there is not said."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        return dict(kinds[0]) | {key: value for key, value in schema.items() if key != "anyOf"}
    if "enum" in schema:
        return schema | {"enum": [value for value in schema["enum"] if value is not None]}
    return schema


def _schema(kind: Any) -> dict[str, Any]:
    return {} if kind is Any else {"$ref": _REF.format(name=kind.__name__)}


def _answer(route: Route) -> dict[str, Any]:
    text = (route.handler.__doc__ or "").strip().split("\n")[0]
    if route.answer is Download:
        kinds = {"text/markdown": {"schema": {"type": "string"}}, "application/json": {"schema": {}}}
        named = {"Content-Disposition": {"required": True, "schema": {"type": "string"}}}
        return {"description": text, "content": kinds, "headers": named}
    if route.path == "/metrics":
        kinds = {kind: {"schema": {"type": "string"}} for kind in ("text/plain", "application/openmetrics-text")}
        return {"description": text, "content": kinds}
    if route.answer is None:
        return {"description": text, "content": {"text/event-stream": {"schema": {"type": "string"}}}}
    content = {"application/json": {"schema": _schema(route.answer)}}
    if route.path.endswith("/output"):
        content["text/plain"] = {"schema": {"type": "string"}}
    answer: dict[str, Any] = {"description": text, "content": content}
    if route.status == 201 and not route.path.endswith(_NOWHERE):
        answer["headers"] = {"Location": {"required": True, "schema": {"type": "string"}}}
    if "/fields/" in route.path:
        answer["headers"] = {"ETag": {"required": True, "schema": {"type": "string"}}}
    return answer


def _failure(text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": _schema(ErrorDocument)}}}
