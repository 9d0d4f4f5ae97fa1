"""`tandem rehearse`: logged requests through candidate and champion, and the way back, before any traffic moves."""

import argparse
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from components.core.contracts import PRODUCTION_SUFFIX
from components.core.errors import ConfigError
from components.core.files import write_bytes
from pipelines.candidate_access import add_candidate, candidate_of
from pipelines.commands.shared_arguments import add_json, print_json
from pipelines.production_access import show
from pipelines.text_layout import printable

if TYPE_CHECKING:
    from infra.serving.rehearsal import RehearsalReport

NOT_PASSED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_candidate(parser)
    parser.add_argument("--log-dir", type=Path, required=True, metavar="DIR", help="what `tandem route --log-dir` wrote")
    parser.add_argument("--limit", type=int, default=1000, metavar="N", help="replay at most the newest N requests (default: %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the report there")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Rehearses; 3 when a guard complains or the way back does not work."""
    from components.core.registry import Registry
    from infra.serving.rehearsal import Contestant, rehearse
    from infra.serving.router.request_log import read_log

    if arguments.limit < 1:
        raise ConfigError(f"--limit {arguments.limit}: at least 1")
    config, evidence = candidate_of(arguments)
    name = evidence.subject.model
    requests = [logged for logged in read_log(arguments.log_dir, name) if logged.method.lower() in ("predict", "classify", "regress")]
    if not requests:
        raise ConfigError(
            f"{arguments.log_dir} holds no logged request of {name}; log some by `tandem route --log-dir DIR --log-share 0.1`"
        )
    registry = Registry(config.tracking)
    champion = registry.champion(name + PRODUCTION_SUFFIX)
    if champion is None:
        raise ConfigError(f"{name} has no champion to compare with, and to go back to; the first promotion needs no rehearsal")
    report = rehearse(
        list(itertools.islice(reversed(requests), arguments.limit)),
        model=name,
        candidate=Contestant(f"{name}/{evidence.subject.version}", evidence.saved_model, evidence.subject.model_digest),
        champion=Contestant(f"{champion.name}/{champion.version}", Path(champion.path), champion.digest),
        guards=config.toml.rollout.guards,
    )
    if arguments.out is not None:
        write_bytes(arguments.out, (report.model_dump_json(indent=2) + "\n").encode())
    if arguments.json:
        print_json(report.model_dump(mode="json"))
    else:
        show("\n".join(_lines(report)) + "\n")
    return 0 if report.passed else NOT_PASSED


def _lines(report: "RehearsalReport") -> list[str]:
    lines = [f"{report.candidate} against {report.champion}, {report.sides['candidate'].requests} logged requests"]
    for label, side in report.sides.items():
        lines.append(f"  {label:<9} errors {side.error_share:.2%}, p50 {side.p50_ms:.2f} ms, p99 {side.p99_ms:.2f} ms")
        lines += [f"            {printable(error)}" for error in side.errors]
    if report.compared:
        lines.append(
            f"  scores of {report.compared} rows: largest difference {report.largest_absolute_difference:.4g}, "
            f"mean {report.mean_absolute_difference:.4g}, Kolmogorov-Smirnov distance {report.ks_distance:.3f}, "
            f"{report.label_changes} rows with another label"
        )
    else:
        lines.append("  scores: not checked, no request was answered with scores by both")
    lines.append(f"  guards: {printable(report.complaint) or 'none complains'}")
    lines.append(f"  rollback: {'the champion answers as before' if report.rollback else 'the champion answers otherwise than before'}")
    return lines
