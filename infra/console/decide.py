"""A form that was sent: checked, compared with the evidence as it is now, and entered in the ledger."""

import hmac
import http
from collections.abc import Mapping

from components.core.evidence import CandidateEvidence
from components.core.ledger import DECISIONS, Kind
from infra.console.access import Permission, why_not
from infra.console.console import Console
from infra.console.ledger_state import decisions_of
from infra.console.refusal import Refused

REASON_LIMIT = 4000
"""Characters that an entry of the ledger holds."""


def decide(console: Console, evidence: CandidateEvidence, sent: Mapping[str, str], *, login: str, permission: Permission) -> None:
    """Enters what a form asks for. The caller holds `console.deciding` and read the evidence inside it.

    Args:
        console: the running one.
        evidence: read anew.
        sent: `kind`, `reason`, and the digests `model_digest` and `dossier_digest` that the person saw.
        login: who sent it.
        permission: of that login on the model.

    Raises:
        Refused: an unknown decision, no permission, a reason that is too long, or evidence that changed since.
        DecisionError: it would not count.
        StoreError: the ledger cannot be written.
    """
    subject = evidence.subject
    kind = _kind(sent.get("kind", ""))
    model = console.settings.models.get(subject.model)
    if model is None:
        raise Refused(http.HTTPStatus.CONFLICT, f"no pipeline.toml that is known here has the name {subject.model}, so no rule is known")
    refused = why_not(kind, permission, login=login, model=subject.model, rule=model.rule)
    if refused:
        raise Refused(http.HTTPStatus.FORBIDDEN, refused)
    seen = (sent.get("model_digest", ""), sent.get("dossier_digest", ""))
    now = (subject.model_digest, subject.dossier_digest)
    if not all(hmac.compare_digest(one.encode(), other.encode()) for one, other in zip(seen, now, strict=True)):
        raise Refused(http.HTTPStatus.CONFLICT, "the evidence changed since you opened this page; look at it again before you decide")
    reason = sent.get("reason", "").strip()
    if len(reason) > REASON_LIMIT:
        raise Refused(http.HTTPStatus.BAD_REQUEST, f"the reason has {len(reason)} characters, at most {REASON_LIMIT} are kept; shorten it")
    decisions, signer = decisions_of(console.store, console.settings)
    decisions.decide(kind, evidence.candidate, model.rule, signer=signer, reason=reason, login=login)


def _kind(text: str) -> Kind:
    found = next((kind for kind in DECISIONS if kind == text), None)
    if found is None:
        raise Refused(http.HTTPStatus.BAD_REQUEST, f"{text[:40]!r} is no decision; send the form from the candidate's page")
    return found
