"""The first step of a rollout: an entry in the ledger, then the mirrors of it."""

from components.core.contracts import TrackingSpec
from components.core.mirror import mirror
from components.core.production_ledger import ProductionLedger
from components.core.promotion import LedgerSpec, ProductionSpec, PromotionReport, RolloutReport
from components.core.rollout import RULE, SHARE, RolloutRule, ServedVersion


def start(
    promotion: PromotionReport, rule: RolloutRule, *, ledger: LedgerSpec, production: ProductionSpec, tracking: TrackingSpec
) -> RolloutReport:
    """Gives the version its first share: everything where there is no champion, none in shadow mode, else the first step.

    Args:
        promotion: the version, which the model server has.
        rule: of the rollout; it stands in the entry, the router follows it.
        ledger: where the step is entered.
        production, tracking: what mirrors the split.

    Raises:
        GateError: another rollout of this model goes on.
    """
    book = ProductionLedger(ledger)
    model = promotion.subject.model
    split = book.traffic(model)
    version = ServedVersion(version=promotion.version, subject=promotion.subject)
    held = {label: served for label, served in (("champion", split.champion), ("canary", split.canary)) if served is not None}
    if promotion.version not in {served.version for served in held.values()}:
        share = 100 if split.champion is None else 0 if rule.shadow else rule.steps[0]
        entry = book.enter("rollout_step", version, details={SHARE: str(share), RULE: rule.to_json()})
        digest = entry.digest
    else:
        # A start that was killed behind its entry, or a promotion of what serves already: the split stands.
        digest = next(
            entry.digest
            for entry in reversed(book.entries())
            if entry.statement.kind == "rollout_step" and entry.statement.subject == promotion.subject
        )
    split = mirror(book.entries, model, production=production, tracking=tracking)
    is_champion = split.champion is not None and split.champion.version == promotion.version
    return RolloutReport(
        name=promotion.name,
        version=promotion.version,
        share=100 if is_champion else split.share,
        role="champion" if is_champion else "canary",
        rule=rule,
        entry=digest,
    )
