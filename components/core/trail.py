"""Whether the trail of decisions covers what was promoted: checked from the ledger alone, by whoever has an export.

A promote entry carries the rule that it was held against and what had not passed, so that the check needs no registry. A person with a key
can write such an entry; that it rests on the decisions before it is seen here.
"""

import datetime
import json
from collections.abc import Sequence
from typing import get_args

from pydantic import ValidationError

from components.core.approval import ApprovalRule, Candidate, Evidence, standing
from components.core.ledger import Entry

APPROVAL_RULE = "approval_rule"
NOT_PASSED = "not_passed"
AUTHOR = "author"


def uncovered_promotion(entries: Sequence[Entry]) -> str:
    """The first promotion that the decisions before it do not cover, one line that names the entry; empty when all are covered.

    Args:
        entries: a ledger whose chain and signatures hold (`ledger.verify`), from its first entry on.
    """
    for place, entry in enumerate(entries):
        if entry.statement.kind == "promote":
            problem = _problem(entry, entries[:place])
            if problem:
                subject = entry.statement.subject
                return f"entry {entry.statement.sequence}: promotes {subject.model}/{subject.version}, and {problem}"
    return ""


def _problem(entry: Entry, before: Sequence[Entry]) -> str:
    said = entry.statement
    try:
        rule = ApprovalRule.from_json(said.details[APPROVAL_RULE])
        missing = set(json.loads(said.details[NOT_PASSED]))
    except (KeyError, ValueError, ValidationError):
        return "does not say by which rule"
    kinds: tuple[Evidence, ...] = get_args(Evidence)
    passed = tuple(kind for kind in kinds if kind not in missing)
    candidate = Candidate(subject=said.subject, author=said.details.get(AUTHOR, ""), passed=passed)
    found = standing(before, candidate, rule, now=datetime.datetime.fromisoformat(said.at))
    return "" if found.status == "approved" else f"it was {found.status.replace('_', ' ')}: it lacked {'; '.join(found.lacking)}"
