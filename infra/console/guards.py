"""What nobody does through MLflow's API, an admin neither: move production by hand, or forge what the console's server vouches for.

A promotion writes the registry's database itself, past this server. Requests are read by MLflow's own parser, so that what is judged here
is what the handler does, and judged by handler, so that every prefix under which MLflow offers it (`/api/2.0`, `/ajax-api/2.0`, ...) is
covered. MLflow's GraphQL has no mutation that writes; a contract test holds that.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from components.core.contracts import PRODUCTION_SUFFIX
from components.core.errors import StoreError
from components.core.ledger import Entry
from components.core.registry import AUTHOR_TAG
from infra.console.console import running

ALIASES = frozenset({"champion", "canary", "previous"})
_OWN_PREFIX = "tandem."
_FIXED_TAGS = frozenset({"tree_digest", "evidence_digest", "promoted_from"})
_PROMOTE = "production models are made and moved by `tandem promote`, `tandem rollout` and `tandem rollback` alone"

_KEPT = "what was decided on is kept; `tandem reject` or `tandem revoke` stops a version"


@dataclasses.dataclass(frozen=True)
class Guard:
    """How requests to one handler of MLflow are judged.

    Attributes:
        message: name of the request in `mlflow.protos`.
        judge: gives the line of the refusal; empty when the request may pass.
    """

    message: str
    judge: Callable[[Any], str]


def _is_production(*names: str) -> bool:
    return any(name.endswith(PRODUCTION_SUFFIX) for name in names)


def _no_production(message: Any) -> str:
    return f"{message.name}: {_PROMOTE}" if _is_production(message.name) else ""


def _no_alias(message: Any) -> str:
    if _is_production(message.name) and message.alias.lower() in ALIASES:
        return f"alias {message.alias} of {message.name} follows the ledger: {_PROMOTE}"
    return ""


def _no_fixed_tag(message: Any) -> str:
    if message.key in _FIXED_TAGS or message.key.startswith(_OWN_PREFIX):
        return f"tag {message.key} of {message.name} is set by the pipeline alone, at registration: run `tandem run` for another version"
    return ""


def _no_forged_registration(message: Any) -> str:
    # A candidate's digest comes with its registration, which may go through this server; evidence is read from its bytes anyway.
    forged = next((tag.key for tag in message.tags if tag.key.startswith(_OWN_PREFIX) or tag.key == "promoted_from"), "")
    return _no_production(message) or (
        f"tag {forged} is set by the console's server and by promotions alone: leave it out" if forged else ""
    )


def _no_rename(message: Any) -> str:
    if _is_production(message.name, message.new_name):
        return f"{message.name}: {_PROMOTE}"
    if _decided(message.name):
        return f"{message.name} stands in the ledger under this name; register under another one by `name` in pipeline.toml"
    return ""


def _keep_decided_model(message: Any) -> str:
    return f"{message.name} stands in the ledger: {_KEPT}" if _decided(message.name) else _no_production(message)


def _keep_decided_version(message: Any) -> str:
    if _decided(message.name, message.version):
        return f"{message.name}/{message.version} stands in the ledger: {_KEPT}"
    return _no_production(message)


def _decided(name: str, version: str | None = None) -> bool:
    return any(_is_about(entry, name, version) for entry in _unchecked_entries())


def _unchecked_entries() -> Iterable[Entry]:
    # Also of a ledger that does not hold: to keep a model too much is the safe side.
    return running().store.entries()


def _is_about(entry: Entry, name: str, version: str | None) -> bool:
    subject = entry.statement.subject
    return subject.model == name and version in (None, subject.version)


def _no_author(message: Any) -> str:
    return _author_refused([message.key])


def _no_author_tags(message: Any) -> str:
    return _author_refused(tag.key for tag in message.tags)


def _author_refused(keys: Iterable[str]) -> str:
    if AUTHOR_TAG in keys:
        return f"run tag {AUTHOR_TAG} is set by this server, from the login that makes the run: leave it out"
    return ""


GUARDS = {
    "_create_registered_model": Guard("CreateRegisteredModel", _no_forged_registration),
    "_rename_registered_model": Guard("RenameRegisteredModel", _no_rename),
    "_delete_registered_model": Guard("DeleteRegisteredModel", _keep_decided_model),
    "_set_registered_model_tag": Guard("SetRegisteredModelTag", _no_fixed_tag),
    "_delete_registered_model_tag": Guard("DeleteRegisteredModelTag", _no_fixed_tag),
    "_set_registered_model_alias": Guard("SetRegisteredModelAlias", _no_alias),
    "_delete_registered_model_alias": Guard("DeleteRegisteredModelAlias", _no_alias),
    "_create_model_version": Guard("CreateModelVersion", _no_forged_registration),
    "_transition_stage": Guard("TransitionModelVersionStage", _no_production),
    "_delete_model_version": Guard("DeleteModelVersion", _keep_decided_version),
    "_set_model_version_tag": Guard("SetModelVersionTag", _no_fixed_tag),
    "_delete_model_version_tag": Guard("DeleteModelVersionTag", _no_fixed_tag),
    "_create_run": Guard("CreateRun", _no_author_tags),
    "_set_tag": Guard("SetTag", _no_author),
    "_delete_tag": Guard("DeleteTag", _no_author),
    "_log_batch": Guard("LogBatch", _no_author_tags),
}
"""Name of MLflow's handler, which is also the name of its route -> how its requests are judged."""
PROMPTLAB = "serve_create_promptlab_run"


def guard() -> Any:
    """Refuses a request that a guard judges so: an answer in MLflow's own form; None lets it pass."""
    from mlflow.server.handlers import catch_mlflow_exception

    # What MLflow's parser refuses is answered as MLflow does.
    return catch_mlflow_exception(_guarded)()


def _guarded() -> Any:
    from flask import request

    if request.endpoint == PROMPTLAB:
        told = request.get_json(force=True, silent=True) or {}
        line = _author_refused(str(tag.get("key")) for tag in told.get("tags") or [] if isinstance(tag, dict))
        return _refusal(line) if line else None
    found = GUARDS.get(request.endpoint or "")
    try:
        line = found.judge(_parsed(found.message)) if found else ""
    except StoreError as error:
        line = str(error)
    return _refusal(line) if line else None


def _parsed(message: str) -> Any:
    from mlflow.protos import model_registry_pb2, service_pb2
    from mlflow.server.handlers import _get_request_message

    kind = getattr(model_registry_pb2, message, None) or getattr(service_pb2, message)
    return _get_request_message(kind())


def _refusal(line: str) -> Any:
    from flask import jsonify

    answer = jsonify({"error_code": "PERMISSION_DENIED", "message": line})
    answer.status_code = 403
    return answer


def stamp_author(response: Any) -> Any:
    """Writes who made a run into its tag `tandem.author`, from the login that MLflow checked."""
    from flask import g, request

    login = getattr(g, "mlflow_authenticated_user", None)
    if request.endpoint != "_create_run" or response.status_code != 200 or not login:
        return response
    from mlflow.entities import RunTag
    from mlflow.server.handlers import _get_tracking_store

    run_id = response.get_json()["run"]["info"]["run_id"]
    _get_tracking_store().set_tag(run_id, RunTag(AUTHOR_TAG, login))
    return response
