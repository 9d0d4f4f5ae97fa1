"""Brings a production version to the model server: bytes first, then its configuration, then a question whose answer is known."""

import contextlib
from pathlib import Path

from components.core.errors import GateError, ServingError
from components.core.mirror import mirror_config
from components.core.model_server import ModelServer
from components.core.placement import PRODUCTION, place, version_folder, withdraw
from components.core.production_ledger import ProductionLedger
from components.core.promotion import DeploymentReport, LedgerSpec, LoadReport, ProductionSpec, PromotionReport
from components.core.rollout import ServedVersion
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
    server = ModelServer(production.server)
    try:
        mirror_config(book.entries, production)
        waited = server.await_available(subject.model, promotion.version, timeout_s=production.timeout_s)
        difference = _ask(server, promotion, load)
    except (ServingError, GateError):
        _take_back(book, promotion, folder, production)
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


def _take_back(book: ProductionLedger, promotion: PromotionReport, folder: Path, production: ProductionSpec) -> None:
    """Lets the server forget a version that did not answer as it should; one that was pushed before stays, the ledger names it."""
    served = book.traffic(promotion.subject.model).served
    if promotion.version not in {version.version for version in served}:
        withdraw(folder)
    # A server that does not answer is told by the error that brought us here; whoever mirrors next writes the same.
    with contextlib.suppress(ServingError):
        mirror_config(book.entries, production)


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
