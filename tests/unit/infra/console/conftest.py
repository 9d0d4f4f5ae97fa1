"""A candidate as the pages get it, without a registry."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.core.dossier import Dossier
from components.core.evidence import CandidateEvidence
from components.core.ledger import Subject
from components.core.measurements import AuditReport, Gate
from components.core.registry import ModelVersion

DIGEST, DOSSIER = "a" * 64, "b" * 64


@pytest.fixture
def evidence() -> Callable[..., CandidateEvidence]:
    """Makes the evidence of `credit/3`; with a failed audit where `passed` is False."""

    def make(*, passed: bool = True, author: str = "tina") -> CandidateEvidence:
        status: Any = "passed" if passed else "failed"
        gates = tuple(
            Gate(name=name, status="passed" if name != "floor/auc" else status)
            for name in ("floor/auc", "parity", "xla_numerics", "service_level")
        )
        return CandidateEvidence(
            version=ModelVersion("credit", "3", "run", "file:///x", {"tree_digest": DIGEST}, (), "# card"),
            saved_model=Path("x"),
            subject=Subject(model="credit", version="3", model_digest=DIGEST, dossier_digest=DOSSIER),
            audit=AuditReport(framework="keras", digest=DIGEST, blessed=passed, size=10, gates=gates),
            parity=None,
            compiled=None,
            dossier=Dossier(framework="keras", model_digest=DIGEST, training_run_id="run", recorded={}, files={"audit.json": "c" * 64}),
            author=author,
            author_vouched=True,
        )

    return make
