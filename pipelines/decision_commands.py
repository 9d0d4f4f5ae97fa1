"""What the commands of decisions have in common: read the candidate, enter the decision, show where it stands."""

import argparse
import sys
from typing import Any

from components.core.approval import ApprovalRule, Standing
from components.core.decisions import Decisions
from components.core.evidence import CandidateEvidence
from components.core.ledger import Kind
from components.core.ledger_store import LedgerStore
from pipelines.candidate_access import add_candidate, candidate_of
from pipelines.commands.ledger import entry_as_json, entry_text
from pipelines.commands.shared_arguments import add_json, print_json
from pipelines.ledger_access import add_signing, ledger_url, private_key, public_keys
from pipelines.text_layout import printable, write_text


def add_decision(parser: argparse.ArgumentParser, *, reason_needed: bool) -> None:
    """Adds what every decision takes."""
    add_candidate(parser)
    parser.add_argument("--reason", default="", required=reason_needed, metavar="TEXT", help="why, in your words; it stays in the ledger")
    add_signing(parser)
    add_json(parser)


def decide(kind: Kind, arguments: argparse.Namespace) -> int:
    """Enters one decision, signed by the caller's key.

    Raises:
        DecisionError: it would not count.
        ConfigError: no key, no list of keys, no such use case.
    """
    keys, signer = public_keys(arguments), private_key(arguments)
    config, evidence = candidate_of(arguments)
    decisions = Decisions(LedgerStore(ledger_url(arguments)), keys)
    rule = config.toml.approval
    entry = decisions.decide(kind, evidence.candidate, rule, signer=signer, reason=arguments.reason)
    found = decisions.standing(evidence.candidate, rule)
    if arguments.json:
        print_json(
            {
                "schema_version": 1,
                "entry": entry_as_json(entry),
                "candidate": candidate_as_json(evidence),
                "standing": found.model_dump(mode="json"),
            }
        )
    else:
        write_text(sys.stdout, entry_text(entry) + standing_text(evidence, found, rule))
    return 0


def candidate_as_json(evidence: CandidateEvidence) -> dict[str, Any]:
    """A candidate as docs/json.md describes it."""
    return {
        **evidence.subject.model_dump(mode="json"),
        "framework": evidence.audit.framework,
        "author": evidence.author or None,
        "author_vouched": evidence.author_vouched,
        "passed": list(evidence.passed),
        "blessed": evidence.audit.blessed,
    }


def standing_text(evidence: CandidateEvidence, found: Standing, rule: ApprovalRule) -> str:
    """Where a candidate stands, for people; what failed and who overrode it comes first."""
    lines = []
    if found.failed:
        lines.append(f"NOT PASSED: {', '.join(found.failed)}{_gates(evidence)}")
        lines.append(
            f"  overridden by {', '.join(map(printable, found.overridden_by)) or 'nobody'} (the rule asks for {rule.overrides} people)"
        )
    subject = evidence.subject
    lines.append(f"{subject.model}/{subject.version} ({evidence.audit.framework}) is {found.status.replace('_', ' ')}")
    if found.approved_by:
        lines.append(f"  approved by {', '.join(map(printable, found.approved_by))}")
    lines += [f"  lacks {printable(line)}" for line in found.lacking]
    lines += [f"  {printable(line)}" for line in found.ignored]
    if evidence.author and not evidence.author_vouched:
        lines.append(f"  author {printable(evidence.author)}: the training run's own word; it excludes, it never allows")
    if found.status == "approved":
        lines.append(f"next: tandem promote {subject.model}/{subject.version}")
    return "\n".join(lines) + "\n"


def _gates(evidence: CandidateEvidence) -> str:
    failed = [f"{gate.name} {gate.status}" for gate in evidence.audit.gates if gate.required and gate.status != "passed"]
    return f" ({', '.join(failed)})" if failed else ""
