"""Brings a production version to the model server: bytes first, then its configuration, then a question whose answer is known."""

from pathlib import Path

from components.core.errors import GateError, ServingError
from components.core.mirror import all_traffic, mirror_config
from components.core.model_server import PRODUCTION, ModelServer, write_config
from components.core.placement import place, version_folder
from components.core.production_ledger import ProductionLedger
from components.core.promotion import DeploymentReport, LedgerSpec, LoadReport, ProductionSpec, PromotionReport
from components.core.rollout import ServedVersion, Traffic
from components.core.served_model import EXAMPLES, SCORES, SERVING_DEFAULT

TOLERANCE = 1e-6
"""Largest allowed difference of a served score to the load test's: two loads of the same bytes may fold constants in another order."""


def deploy(
    promotion: PromotionReport, load: LoadReport, *, saved_model: Path, ledger: LedgerSpec, production: ProductionSpec
) -> DeploymentReport:
    """Pushes to `<serving_root>/production/<name>/<version>`, waits until the server has it, and asks it.

    The server's own warm-up runs before it says AVAILABLE. A version that fails to load takes no traffic: nothing is entered in the ledger,
    and the configuration goes back to what the ledger says.

    Args:
        promotion: the version.
        load: scores to compare with.
        saved_model: folder of the cleared bytes.
        ledger: where the push is entered.
        production: the model server.

    Raises:
        GateError: the served model answers otherwise than the bytes that were tested, or the ledger does not know the promotion.
        ServingError: the server does not answer or cannot load the version.
        PushError: the folder holds another model.
    """
    subject = promotion.subject
    folder = version_folder(production.serving_root, subject.model, promotion.version, stage=PRODUCTION)
    place(saved_model, folder, digest=subject.model_digest)
    book = ProductionLedger(ledger)
    splits = all_traffic(book.entries())
    server = ModelServer(production.server)
    available = {split.model: server.available(split.model) for split in splits}
    write_config(
        [_with(split, promotion) for split in splits],
        serving_root=production.serving_root,
        base_path=production.base_path,
        available=available,
    )
    try:
        waited = server.await_available(subject.model, promotion.version, timeout_s=production.timeout_s)
        difference = _ask(server, promotion, load)
    except (ServingError, GateError):
        mirror_config(splits, production)
        raise
    entry = book.enter("push", ServedVersion(version=promotion.version, subject=subject), details={"server": production.server})
    return DeploymentReport(
        name=subject.model,
        version=promotion.version,
        digest=subject.model_digest,
        path=str(folder),
        server=production.server,
        available_s=round(waited, 3),
        largest_absolute_difference=difference,
        entry=entry.digest,
    )


def _with(split: Traffic, promotion: PromotionReport) -> Traffic:
    """The split with the version among those that the server shall hold."""
    if split.model != promotion.subject.model:
        return split
    waiting = tuple(held.model_copy(update={"pushed": True}) if held.version == promotion.version else held for held in split.promoted)
    return split.model_copy(update={"promoted": waiting})


def _ask(server: ModelServer, promotion: PromotionReport, load: LoadReport) -> float:
    """The largest difference of the served scores to those of the load test."""
    question = {"signature_name": SERVING_DEFAULT, "inputs": {EXAMPLES: [{"b64": load.example}]}}
    served = server.predict(promotion.subject.model, promotion.version, question)[SCORES][0]
    difference = max((abs(one - other) for one, other in zip(served, load.scores, strict=True)), default=float("inf"))
    if not difference <= TOLERANCE:
        raise GateError(
            f"{promotion.subject.model} version {promotion.version} answers {served} where the tested bytes answer {list(load.scores)}; "
            "it takes no traffic: see which bytes the model server reads"
        )
    return float(difference)
