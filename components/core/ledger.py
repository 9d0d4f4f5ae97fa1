"""The ledger's entries, their chain, and the check of a whole ledger against public keys; where they are stored is `ledger_store`.

Each entry names the digest of the one before it and is signed (Ed25519). So an entry cannot be changed, left out in the middle, or put in
without a key; what a chain alone cannot show, that its tail is missing, shows against a head that somebody kept elsewhere.
"""

import datetime
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, ValidationError

from components.core.contracts import Contract
from components.core.errors import StoreError
from components.core.signing import PrivateKey, PublicKeys, Role, canonical, signature_holds

Kind = Literal["request", "approve", "reject", "override", "revoke", "promote", "push", "rollout_step", "rollback", "retire"]
KINDS: tuple[Kind, ...] = get_args(Kind)
KnownBy = Literal["personal_key", "console_login", "service"]
"""How the actor was known: by the personal key that signed, by a login that the signing service checked, or it is the service itself."""
DECISIONS: frozenset[Kind] = frozenset({"request", "approve", "reject", "override", "revoke"})
"""What people decide; the service alone may sign these only for somebody who logged in."""
NO_ENTRY = "0" * 64
"""Stands for the digest of the entry before the first."""
_SIGNED = b"tandem ledger v1\n"
_SIGNERS: Mapping[KnownBy, frozenset[Role]] = {
    "personal_key": frozenset({"person", "admin"}),
    "console_login": frozenset({"service"}),
    "service": frozenset({"service"}),
}
_DIGEST = r"^[0-9a-f]{64}$"


class Subject(Contract):
    """What an entry is about.

    Attributes:
        model: name in the registry, without `-prod`.
        version: of that model.
        model_digest: tree digest of the SavedModel, SHA-256.
        dossier_digest: SHA-256 of the evidence that was decided on.
    """

    model: str = Field(min_length=1, max_length=256)
    version: str = Field(pattern=r"^[1-9][0-9]*$")
    model_digest: str = Field(pattern=_DIGEST)
    dossier_digest: str = Field(pattern=_DIGEST)


class Draft(Contract):
    """What somebody wants to enter.

    Attributes:
        actor: login or name; with `personal_key` it is the owner of the key.
        reason: why, in the actor's words; may be empty where the rule does not ask for one.
        details: further facts as text, e.g. `share` of a rollout step.
    """

    kind: Kind
    subject: Subject
    actor: str = Field(min_length=1, max_length=200)
    known_by: KnownBy
    reason: str = Field(default="", max_length=4000)
    details: dict[str, str] = {}


class Statement(Draft):
    """What is signed: the draft and its place.

    Attributes:
        sequence: 1 for the first entry.
        previous: digest of the entry before.
        key_id: of the key that signs.
        at: UTC, ISO 8601 with microseconds.
    """

    sequence: int = Field(ge=1)
    previous: str = Field(pattern=_DIGEST)
    key_id: str = Field(pattern=r"^[0-9a-f]{16}$")
    at: str

    def message(self) -> bytes:
        """The bytes that are signed."""
        return _SIGNED + canonical(self.model_dump(mode="json"))


class Head(Contract):
    """The last entry of a ledger: kept elsewhere, it shows later that nothing behind or before it is gone. Sequence 0 = no entry."""

    sequence: int = Field(ge=0)
    digest: str = Field(pattern=_DIGEST)


class Entry(Contract):
    """A statement and its signature, 64 bytes in hexadecimal."""

    statement: Statement
    signature: str = Field(pattern=r"^[0-9a-f]{128}$")

    @property
    def digest(self) -> str:
        """SHA-256 over statement and signature."""
        return hashlib.sha256(self.statement.message() + b"\n" + self.signature.encode()).hexdigest()

    @property
    def head(self) -> Head:
        """The head of a ledger that ends with this entry."""
        return Head(sequence=self.statement.sequence, digest=self.digest)


EMPTY = Head(sequence=0, digest=NO_ENTRY)


def make_entry(draft: Draft, head: Head, signer: PrivateKey, *, at: datetime.datetime | None = None) -> Entry:
    """Signs `draft` as the entry behind `head`.

    Args:
        draft: what is entered.
        head: the ledger's last entry.
        signer: the actor's personal key, or the service's.
        at: when, with a time zone; now where None.
    """
    moment = (at or datetime.datetime.now(datetime.UTC)).astimezone(datetime.UTC).isoformat(timespec="microseconds")
    statement = Statement(**dict(draft), sequence=head.sequence + 1, previous=head.digest, key_id=signer.key_id, at=moment)
    return Entry(statement=statement, signature=signer.sign(statement.message()))


class Verification(Contract):
    """What a check found.

    Attributes:
        entries: how many entries hold, from the first on.
        head: the last of them.
        problem: the first thing that does not hold, one line that names the entry; empty when all does.
        tail_checked: whether a kept head was there to compare with.
    """

    entries: int
    head: Head
    problem: str
    tail_checked: bool


def verify(entries: Iterable[Entry], keys: PublicKeys, *, kept: Head | None = None) -> Verification:
    """Checks sequence, chain, signatures and keys, from the first entry to the first fault.

    Args:
        entries: the whole ledger, in its order.
        keys: the enrolled keys.
        kept: a head that was kept elsewhere; without it a missing tail cannot be seen.
    """
    head, problem = EMPTY, ""
    kept_found = kept is None or kept.sequence == 0
    for entry in entries:
        problem = entry_problem(entry, head, keys)
        if problem:
            break
        head = entry.head
        if kept is not None and head.sequence == kept.sequence:
            kept_found = True
            if head.digest != kept.digest:
                problem = f"entry {head.sequence}: not the one whose digest was kept ({kept.digest[:12]}...); the ledger was made anew"
                break
    if not problem and kept is not None and not kept_found:
        problem = f"entries {head.sequence + 1} to {kept.sequence} are missing: the kept head is entry {kept.sequence}"
    return Verification(entries=head.sequence, head=head, problem=problem, tail_checked=kept is not None)


def entry_problem(entry: Entry, head: Head, keys: PublicKeys) -> str:
    """What does not hold in the entry behind `head`, one line; empty when it does."""
    said = entry.statement
    where = f"entry {head.sequence + 1}"
    if said.sequence != head.sequence + 1:
        return f"{where}: is numbered {said.sequence}; an entry is missing, doubled or moved"
    if said.previous != head.digest:
        return f"{where}: does not follow entry {head.sequence}; one of the two was changed"
    key = keys.known(said.key_id)
    if key is None:
        return f"{where}: signed by key {said.key_id}, which no admin enrolled"
    if not signature_holds(key.public, entry.signature, said.message()):
        return f"{where}: its signature does not hold; it was changed, or not signed by {key.owner}"
    if not keys.valid_at(said.key_id, said.at):
        return f"{where}: signed at {said.at} by {key.owner}'s key, which was not valid then"
    if key.role not in _SIGNERS[said.known_by]:
        return f"{where}: a key of role {key.role} cannot vouch for an actor known by {said.known_by.replace('_', ' ')}"
    if said.known_by != "console_login" and said.actor != key.owner:
        return f"{where}: names {said.actor} as its actor, but {key.owner}'s key signed it"
    if said.known_by == "service" and said.kind in DECISIONS:
        return f"{where}: the service cannot decide by itself; {said.kind} needs a person"
    return ""


def write_export(entries: Iterable[Entry]) -> Iterator[str]:
    """The ledger as lines of JSON, one an entry."""
    for entry in entries:
        yield canonical(entry.model_dump(mode="json")).decode("ascii") + "\n"


def read_export(path: Path) -> Iterator[Entry]:
    """Reads what `write_export` wrote, line by line.

    Raises:
        StoreError: the file cannot be read, or a line is no entry; the line is named.
    """
    try:
        with path.open(encoding="utf-8", errors="strict") as lines:
            for number, line in enumerate(lines, 1):
                try:
                    yield Entry.model_validate_json(line)
                except ValidationError as error:
                    raise StoreError(
                        f"{path}: line {number} is no ledger entry ({_first_fault(error)}); entry {number} was changed"
                    ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: the export cannot be read ({error})") from error


def _first_fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, fault['loc'])) or 'line'}: {fault['msg'].lower()}"


def read_head(path: Path) -> Head:
    """Reads a head that was kept: a small file that who writes the ledger does not reach.

    Raises:
        StoreError: it cannot be read as one.
    """
    try:
        return Head.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise StoreError(f"{path}: no kept head of a ledger; `tandem ledger --head` writes one") from error
