"""Registers an audited candidate: its final SavedModel, the facts that identify it, and a model card."""

import dataclasses
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from components.core import measurements
from components.core.contracts import TrackingSpec
from components.core.errors import RegistryError
from components.core.measurements import read_measurement
from components.core.model_package import Package, require_digest
from components.core.registry import Registry
from components.registrar.model_card import Facts, write_card

UNKNOWN = "unknown"
_GIT_TIMEOUT_S = 60.0


@dataclasses.dataclass(frozen=True)
class Request:
    """What the registrar was asked for.

    Attributes:
        name: registered model.
        framework: of the candidate.
        saved_model: folder of the final SavedModel.
        audit, compile_report, parity, model_run: folders of the measurements.
        dataset_digest: SHA-256 of the input data.
        lock_digest: SHA-256 of the lock of the environment.
        source_root: folder of the use case; its git checkout is recorded when it is in one.
        output: folder that receives `registration.json`.
        stage_tags: stage, pipeline run id and ML Metadata execution id.
    """

    name: str
    framework: str
    saved_model: Path
    audit: Path
    compile_report: Path
    parity: Path
    model_run: Path
    dataset_digest: str
    lock_digest: str
    source_root: str
    output: Path
    stage_tags: Mapping[str, str]


def register_candidate(request: Request, *, tracking: TrackingSpec, blessed: bool) -> tuple[measurements.Registration, dict[str, str]]:
    """Registers one candidate and writes `registration.json`.

    A candidate that was stopped before the audit is not registered. The same digest from the same training run keeps its version; its
    tags and its card then follow this audit.

    Args:
        request: what and where.
        tracking: the registry.
        blessed: what the ModelBlessing says.

    Returns:
        What was done, and properties for the ML Metadata execution.

    Raises:
        RegistryError: measurements and bytes do not belong together; run the stages before this one again.
        StoreError: the registry cannot be used.
    """
    facts = _read_facts(request)
    _check_frameworks(request, facts)
    if not facts.compiled.compiled:
        reason = facts.compiled.reason or facts.parity.reason or "stopped before the audit"
        return _write(request, _unregistered(request, facts, reason)), {"registered": "false"}
    _check(request, facts, blessed=blessed)
    registry = Registry(tracking, create=True)
    commit, dirty = git_state(request.source_root)
    tags = {
        "dataset_digest": request.dataset_digest,
        "git_commit": commit,
        "git_dirty": dirty,
        "lock_digest": request.lock_digest,
        "blessed": str(blessed).lower(),
        "pipeline_run_id": request.stage_tags.get("pipeline_run_id", ""),
        "mlmd_execution_id": request.stage_tags.get("mlmd_execution_id", ""),
    }
    version = registry.register(request.name, _package(request, facts, tags), stage_tags=request.stage_tags)
    card = write_card(facts, reference=f"{version.name}/{version.version}", dataset_digest=request.dataset_digest)
    registry.annotate(version, tags=tags, description=card)
    registration = measurements.Registration(
        framework=facts.audit.framework,
        registered=True,
        name=version.name,
        version=version.version,
        run_id=facts.training.run_id,
        digest=version.digest,
        blessed=blessed,
    )
    properties = {
        "registered": "true",
        "mlflow_run_id": version.tags.get("register_run_id", ""),
        "training_run_id": facts.training.run_id,
        "model_version": f"{version.name}/{version.version}",
        "digest": version.digest,
        "git_commit": commit,
        "git_dirty": dirty,
    }
    return _write(request, registration), properties


def git_state(folder: str) -> tuple[str, str]:
    """Commit of the git checkout that holds `folder`, and whether anything in it differs: `true`, `false`.

    Untracked files count as a difference, ignored ones do not. Both are `unknown` outside a checkout, without a commit or without git.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    status = _git(folder, "status", "--porcelain")
    if not commit or status is None:
        return UNKNOWN, UNKNOWN
    return commit, str(bool(status)).lower()


def _git(folder: str, *arguments: str) -> str | None:
    if not folder or not Path(folder).is_dir():
        return None
    # Variables such as GIT_DIR, set by a hook that started us, would point to another repository.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    try:
        answer = subprocess.run(
            ["git", "-C", folder, *arguments], env=environment, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=False
        )
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def _read_facts(request: Request) -> Facts:
    return Facts(
        audit=read_measurement(measurements.AuditReport, str(request.audit), measurements.AUDIT_FILE),
        compiled=read_measurement(measurements.CompileReport, str(request.compile_report), measurements.COMPILE_FILE),
        parity=read_measurement(measurements.ParityReport, str(request.parity), measurements.PARITY_FILE),
        training=read_measurement(measurements.TrainingFacts, str(request.model_run), measurements.TRAINING_FACTS_FILE),
    )


def _check_frameworks(request: Request, facts: Facts) -> None:
    found = {facts.audit.framework, facts.compiled.framework, facts.parity.framework, facts.training.framework}
    if found != {request.framework}:
        raise RegistryError(f"the registrar of {request.framework} was given measurements of {', '.join(sorted(found))}; wire its own")


def _check(request: Request, facts: Facts, *, blessed: bool) -> None:
    """Holds the measurements against each other and against the bytes."""
    digest = facts.compiled.tree_digest
    if facts.audit.digest != digest:
        raise RegistryError(f"the audit is of {facts.audit.digest}, the compiled model is {digest}; run the audit again")
    if facts.audit.blessed != blessed:
        raise RegistryError(f"audit.json says blessed={facts.audit.blessed}, the ModelBlessing says {blessed}; run the audit again")
    require_digest(request.saved_model, digest, f"the SavedModel in {request.saved_model}")


def _package(request: Request, facts: Facts, tags: Mapping[str, str]) -> Package:
    return Package(
        framework=facts.audit.framework,
        saved_model=request.saved_model,
        digest=facts.compiled.tree_digest,
        training_run_id=facts.training.run_id,
        native_model_id=facts.training.model_id,
        measurements=(
            request.audit / measurements.AUDIT_FILE,
            request.compile_report / measurements.COMPILE_FILE,
            request.parity / measurements.PARITY_FILE,
            request.model_run / measurements.TRAINING_FACTS_FILE,
        ),
        tags=tags,
    )


def _unregistered(request: Request, facts: Facts, reason: str) -> measurements.Registration:
    return measurements.Registration(
        framework=facts.audit.framework,
        registered=False,
        name=request.name,
        run_id=facts.training.run_id,
        digest=facts.compiled.tree_digest,
        reason=reason,
    )


def _write(request: Request, registration: measurements.Registration) -> measurements.Registration:
    measurements.write_measurement(registration, str(request.output), measurements.REGISTRATION_FILE)
    return registration
