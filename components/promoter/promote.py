"""Makes an approved candidate a version of the production model: the same bytes, tags set anew, and the ledger's promote entry."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from components.core.contracts import PRODUCTION_SUFFIX, TrackingSpec
from components.core.errors import GateError
from components.core.measurements import read_measurement
from components.core.model_package import Package
from components.core.production_ledger import ProductionLedger
from components.core.promotion import LOAD_FILE, Clearance, LedgerSpec, LoadReport, PromotionReport
from components.core.registry import ModelVersion, Registry
from components.core.rollout import ServedVersion
from components.core.trail import APPROVAL_RULE, AUTHOR, NOT_PASSED


def promote(
    clearance: Clearance,
    *,
    saved_model: Path,
    load_report: Path,
    ledger: LedgerSpec,
    tracking: TrackingSpec,
    stage_tags: Mapping[str, str],
) -> PromotionReport:
    """Registers the bytes as a version of `<name>-prod`; the same bytes of the same training are one version, however often it runs.

    Args:
        clearance: from the promotion gate.
        saved_model: folder of the cleared bytes.
        load_report: file of the load test, which goes with the version.
        ledger: where the promotion is entered.
        tracking: the registry.
        stage_tags: of the MLflow run that keeps the package.

    Raises:
        GateError: the load test was of other bytes or did not pass, or the ledger says otherwise of this version.
        RegistryError, StoreError: the registry cannot be used.
    """
    subject = clearance.subject
    load = read_measurement(LoadReport, str(load_report.parent), LOAD_FILE)
    if load.digest != subject.model_digest or not load.passed:
        raise GateError(f"{subject.model}/{subject.version}: the load test was of other bytes or did not pass; nothing was promoted")
    registry = Registry(tracking)
    candidate = registry.resolve(f"{subject.model}/{subject.version}")
    name = subject.model + PRODUCTION_SUFFIX
    with tempfile.TemporaryDirectory(prefix="tandem-measurements-") as folder:
        measurements = sorted(registry.local_measurements(candidate, Path(folder)).iterdir())
        made = registry.register(name, _package(clearance, candidate, saved_model, (*measurements, load_report)), stage_tags=stage_tags)
    standing = clearance.standing
    details = {
        "approved_by": json.dumps(standing.approved_by),
        "overridden_by": json.dumps(standing.overridden_by),
        NOT_PASSED: json.dumps(standing.failed),
        APPROVAL_RULE: clearance.rule.to_json(),
        AUTHOR: clearance.author,
    }
    entry = ProductionLedger(ledger).enter("promote", ServedVersion(version=made.version, subject=subject), details=details)
    return PromotionReport(subject=subject, name=name, version=made.version, entry=entry.digest)


def _package(clearance: Clearance, candidate: ModelVersion, saved_model: Path, measurements: tuple[Path, ...]) -> Package:
    subject = clearance.subject
    return Package(
        framework=clearance.framework,
        saved_model=saved_model,
        digest=subject.model_digest,
        training_run_id=clearance.training_run_id,
        native_model_id=candidate.tags.get("native_model_id"),
        measurements=measurements,
        tags={
            "promoted_from": f"{subject.model}/{subject.version}",
            "dossier_digest": subject.dossier_digest,
            "blessed": candidate.tags.get("blessed", ""),
            "dataset_digest": candidate.tags.get("dataset_digest", ""),
            **({"not_passed": ", ".join(clearance.standing.failed)} if clearance.standing.failed else {}),
        },
        linked=False,
    )
