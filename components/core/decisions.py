"""What people say about a candidate, entered in the ledger: only where it counts, and only on a ledger that holds."""

import datetime
from collections.abc import Mapping

from components.core.approval import ApprovalRule, Candidate, Standing, standing, why_not_counted
from components.core.errors import DecisionError
from components.core.ledger import DECISIONS, Draft, Entry, Kind, KnownBy, verify
from components.core.ledger_store import LedgerStore
from components.core.signing import PrivateKey, PublicKeys


def checked_entries(store: LedgerStore, keys: PublicKeys) -> list[Entry]:
    """The whole ledger, every entry of which holds.

    Raises:
        DecisionError: an entry does not hold; nothing may rest on such a ledger.
        StoreError: the ledger cannot be read.
    """
    entries = list(store.entries())
    found = verify(entries, keys)
    if found.problem:
        raise DecisionError(
            f"the ledger at {store.place} does not hold: {found.problem}; nothing is decided on it until an export that holds is back"
        )
    return entries


def known_by(signer: PrivateKey, keys: PublicKeys) -> tuple[str, KnownBy]:
    """Who acts when this key signs by itself: its owner, known by the key; or the service.

    Raises:
        DecisionError: no admin enrolled the key, or it was revoked.
    """
    key = keys.known(signer.key_id)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    if key is None or not keys.valid_at(signer.key_id, now):
        state = "no admin enrolled it" if key is None else "it was revoked"
        raise DecisionError(f"key {signer.key_id} cannot sign: {state}; an admin enrols a key by `tandem keys enrol`")
    return key.owner, "service" if key.role == "service" else "personal_key"


class Decisions:
    """The decisions of one ledger."""

    def __init__(self, store: LedgerStore, keys: PublicKeys) -> None:
        self.store, self.keys = store, keys

    def entries(self) -> list[Entry]:
        """See `checked_entries`."""
        return checked_entries(self.store, self.keys)

    def standing(self, candidate: Candidate, rule: ApprovalRule, *, now: datetime.datetime | None = None) -> Standing:
        """Where a candidate stands now."""
        return standing(self.entries(), candidate, rule, now=now or datetime.datetime.now(datetime.UTC))

    def decide(
        self,
        kind: Kind,
        candidate: Candidate,
        rule: ApprovalRule,
        *,
        signer: PrivateKey,
        reason: str = "",
        login: str | None = None,
    ) -> Entry:
        """Enters a decision.

        Args:
            kind: `request`, `approve`, `reject`, `override` or `revoke`.
            candidate: as it is now.
            rule: of its use case.
            signer: the person's own key, or the service's where it vouches for `login`.
            reason: in the person's words; needed to reject, override and revoke.
            login: of the person, which the signing service checked; None = the owner of `signer`.

        Raises:
            DecisionError: it would not count, and why.
            StoreError: the ledger cannot be written.
        """
        if kind not in DECISIONS:
            raise DecisionError(f"{kind} is no decision of a person")
        actor, how = known_by(signer, self.keys)
        if login is not None:
            if how != "service":
                raise DecisionError(f"only a service's key can vouch for the login {login}")
            actor, how = login, "console_login"
        elif how == "service":
            raise DecisionError(f"the service's key cannot {kind} by itself; use a person's key (`--key`)")
        now = datetime.datetime.now(datetime.UTC)
        draft = Draft(kind=kind, subject=candidate.subject, actor=actor, known_by=how, reason=reason.strip())
        self._refuse_what_does_not_count(draft, candidate, rule, now)
        return self.store.append(draft, signer, at=now)

    def _refuse_what_does_not_count(self, draft: Draft, candidate: Candidate, rule: ApprovalRule, now: datetime.datetime) -> None:
        found = standing(self.entries(), candidate, rule, now=now)
        about = f"{candidate.subject.model}/{candidate.subject.version}"
        if draft.kind in ("reject", "override", "revoke") and not draft.reason:
            raise DecisionError(f"to {draft.kind} {about} needs a reason; give it with --reason")
        if draft.kind == "request":
            if found.status in ("waiting", "approved"):
                raise DecisionError(f"{about} is {found.status}: {found.requester} asked already; no second request is needed")
            return
        if found.status not in ("waiting", "approved"):
            raise DecisionError(f"{about} is {found.status.replace('_', ' ')}; it lacks {'; '.join(found.lacking)}")
        reason = why_not_counted(draft, candidate, rule, requester=found.requester)
        if reason:
            raise DecisionError(f"{draft.kind} of {about} by {draft.actor} would not count: {reason}")
        if draft.kind == "override" and not found.failed:
            raise DecisionError(f"{about} passed all the evidence that its rule asks for; there is nothing to override")
        done: Mapping[Kind, tuple[str, ...]] = {"approve": found.approved_by, "override": found.overridden_by}
        if draft.actor in done.get(draft.kind, ()):
            raise DecisionError(f"{draft.actor} did {draft.kind} {about} already; the rule counts different people")
