"""A ledger on SQLite with keys of an admin and a router, as a router finds it."""

import contextlib
import sqlite3

from components.core.ledger import Draft, Entry, Subject
from components.core.production_ledger import ProductionLedger
from components.core.promotion import LedgerSpec
from components.core.rollout import RolloutRule, ServedVersion
from components.core.signing import PrivateKey, PublicKey, PublicKeys, Revocation

MODEL = "credit-risk"
ENROLLED = "2026-01-01T00:00:00.000000+00:00"


def version(number):
    subject = Subject(model=MODEL, version=number, model_digest=number * 64, dossier_digest="d" * 64)
    return ServedVersion(version=number, subject=subject)


class RolloutLedger:
    """Writes as an operator would; `spec` is what the router gets."""

    def __init__(self, folder):
        self.database, self.keys_file = folder / "ledger.db", folder / "public_keys.json"
        self.admin, self.router, self.ben = (PrivateKey.generate() for _ in range(3))
        self.admin.write(folder / "admin.pem")
        self.router.write(folder / "router.pem")
        PublicKeys([self.enrolment(self.admin, "op", "admin"), self.enrolment(self.router, "router", "service")]).write(self.keys_file)
        self.spec = LedgerSpec(url=f"sqlite:///{self.database}", public_keys=str(self.keys_file), private_key=str(folder / "router.pem"))
        self.book = ProductionLedger(self.spec.model_copy(update={"private_key": str(folder / "admin.pem")}))

    def enrolment(self, key, owner, role):
        made = PublicKey(public=key.public, owner=owner, role=role, enrolled_by=self.admin.key_id, enrolled_at=ENROLLED)
        return made.signed_by(self.admin)

    def enrol_ben(self):
        PublicKeys.read(self.keys_file).with_key(self.enrolment(self.ben, "ben", "person")).write(self.keys_file)

    def revoke_ben(self, moment):
        end = Revocation(key_id=self.ben.key_id, revoked_by=self.admin.key_id, revoked_at=moment).signed_by(self.admin)
        PublicKeys.read(self.keys_file).with_end(end).write(self.keys_file)

    def begin(self, number, share, rule=None):
        self.book.enter("promote", version(number))
        self.book.enter("push", version(number))
        self.step(number, share, rule or RolloutRule(step_s=86_400))

    def step(self, number, share, rule=None):
        details = {"share": str(share), **({"rollout": rule.to_json()} if rule else {})}
        self.book.enter("rollout_step", version(number), details=details)

    def said_by_ben(self, kind="request"):
        draft = Draft(kind=kind, subject=version("3").subject, actor="ben", known_by="personal_key")
        return self.book.store.append(draft, self.ben)

    def sql(self, *statements):
        """Past every guard of the table, as somebody with the file can."""
        with contextlib.closing(sqlite3.connect(self.database)) as database, database:
            for guard in ("update", "delete"):
                database.execute(f"DROP TRIGGER IF EXISTS ledger_no_{guard}")
            for statement in statements:
                database.execute(*statement)

    def insert(self, entry):
        self.sql(("INSERT INTO ledger_entries VALUES (?, ?, ?)", (entry.statement.sequence, entry.digest, entry.to_json())))

    def replace_all(self, entries):
        self.sql(("DELETE FROM ledger_entries",))
        for entry in entries:
            self.insert(entry)

    def kinds(self):
        return [Entry.model_validate_json(text).statement.kind for text in self.rows()]

    def rows(self):
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            return [text for (text,) in database.execute("SELECT entry FROM ledger_entries ORDER BY sequence")]
