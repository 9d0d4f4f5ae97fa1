"""How the decisions at the operating threshold fall on groups: demographic parity, equal opportunity, four-fifths ratio.

Sources: Hardt, Price and Srebro, Equality of Opportunity in Supervised Learning, NeurIPS 2016; the ratio of 0.8 is that of the Uniform
Guidelines on Employee Selection Procedures, 29 CFR 1607.4(D). Which outcome is the favourable one is not known here: the ratio is
given for both.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from components.core.measurements import Check, GroupFacts

FOUR_FIFTHS = 0.8
MIN_POSITIVES = 10
"""Rows of the positive class that a group needs for a true positive rate that says anything."""


def groups_of(
    scores: npt.NDArray[Any],
    positives: npt.NDArray[np.bool_],
    slices: Mapping[str, Sequence[str]],
    *,
    threshold: float,
    min_size: int,
) -> tuple[GroupFacts, ...]:
    """Counts of every group.

    Args:
        scores: float[N] of the positive class.
        positives: bool[N], rows of that class.
        slices: slice key -> value of each row.
        threshold: score from which a row is decided positive.
        min_size: rows below which a group is shown and not judged.
    """
    decided = scores >= threshold
    found = []
    for key, values in slices.items():
        column = np.array(values)
        for value in sorted(set(values)):
            rows = column == value
            found.append(
                GroupFacts(
                    key=key,
                    value=value,
                    size=int(rows.sum()),
                    positives=int(positives[rows].sum()),
                    decided_positive=int(decided[rows].sum()),
                    true_positive=int((decided & positives)[rows].sum()),
                    judged=bool(rows.sum() >= min_size),
                )
            )
    return tuple(found)


def fairness_checks(groups: Sequence[GroupFacts], *, classes: tuple[str, str]) -> tuple[Check, ...]:
    """The checks of every slice key.

    Args:
        groups: of `groups_of`.
        classes: names of the negative and the positive class.
    """
    checks: list[Check] = []
    for key in dict.fromkeys(group.key for group in groups):
        judged = [group for group in groups if group.key == key and group.judged]
        checks += _of_key(key, judged, classes)
    return tuple(checks)


def _of_key(key: str, judged: Sequence[GroupFacts], classes: tuple[str, str]) -> list[Check]:
    rates = {group.value: group.decided_positive / group.size for group in judged}
    found = {group.value: group.true_positive / group.positives for group in judged if group.positives >= MIN_POSITIVES}
    sizes = {group.value: group.size for group in judged}
    negative, positive = classes
    return [
        _difference(f"fairness/{key}/demographic_parity_difference", rates, sizes, what=f"rows decided {positive}"),
        _difference(f"fairness/{key}/equal_opportunity_difference", found, sizes, what=f"{positive} rows that are found"),
        _ratio(f"fairness/{key}/four_fifths_{positive}", rates, sizes, what=f"decided {positive}"),
        _ratio(
            f"fairness/{key}/four_fifths_{negative}", {value: 1 - rate for value, rate in rates.items()}, sizes, what=f"decided {negative}"
        ),
    ]


def _difference(name: str, rates: Mapping[str, float], sizes: Mapping[str, int], *, what: str) -> Check:
    if len(rates) < 2:
        return _unchecked(name)
    low, high = min(rates, key=lambda value: rates[value]), max(rates, key=lambda value: rates[value])
    return Check(name=name, outcome="measured", value=rates[high] - rates[low], detail=_told(what, low, high, rates=rates, sizes=sizes))


def _ratio(name: str, rates: Mapping[str, float], sizes: Mapping[str, int], *, what: str) -> Check:
    if len(rates) < 2:
        return _unchecked(name, FOUR_FIFTHS)
    low, high = min(rates, key=lambda value: rates[value]), max(rates, key=lambda value: rates[value])
    if rates[high] == 0:
        return Check(name=name, outcome="not checked", limit=FOUR_FIFTHS, detail=f"no row of any group is {what}")
    ratio = rates[low] / rates[high]
    passed = ratio >= FOUR_FIFTHS
    remedy = (
        "" if passed else "see whether the groups differ in what the label says too; if not, look at the features that stand for the group"
    )
    return Check(
        name=name,
        outcome="passed" if passed else "failed",
        value=ratio,
        limit=FOUR_FIFTHS,
        detail=_told(what, low, high, rates=rates, sizes=sizes),
        remedy=remedy,
    )


def _unchecked(name: str, limit: float | None = None) -> Check:
    return Check(name=name, outcome="not checked", limit=limit, detail="fewer than two groups are large enough to be judged")


def _told(what: str, low: str, high: str, *, rates: Mapping[str, float], sizes: Mapping[str, int]) -> str:
    ends = (f"{value} {rates[value]:.1%} of {sizes[value]} rows" for value in (low, high))
    return f"{what}: from {' to '.join(ends)}"
