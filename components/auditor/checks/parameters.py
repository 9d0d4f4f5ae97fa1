"""Parameters that training did not move as one would expect: frozen, dead, not finite, or without a gradient."""

from collections.abc import Callable, Sequence

from components.core.measurements import Check, ParameterFacts, TrainingFacts

_NAMED = 5


def _is_broken(facts: ParameterFacts) -> bool:
    return facts.weight_norm is None


def _is_dead(facts: ParameterFacts) -> bool:
    return facts.trainable and facts.weight_norm == 0


def _has_no_gradient(facts: ParameterFacts) -> bool:
    return facts.trainable and not facts.gradient_norm


_LIMITED: Sequence[tuple[str, Callable[[ParameterFacts], bool], str]] = (
    ("not_finite", _is_broken, "lower the learning rate, or look for rows with extreme values"),
    ("dead", _is_dead, "look at the initializer: weights that are all zero learn nothing alike"),
    (
        "no_gradient",
        _has_no_gradient,
        "see that the layer is used in the loss and not cut off by stop_gradient, detach or a dead activation",
    ),
)


def parameter_checks(training: TrainingFacts) -> tuple[Check, ...]:
    """A check for each kind, with the names; frozen parameters are counted and not judged, they may be meant so."""
    checks = []
    for name, is_one, remedy in _LIMITED:
        found = [facts.name for facts in training.parameters if is_one(facts)]
        checks.append(
            Check(
                name=f"parameters/{name}",
                outcome="failed" if found else "passed",
                value=len(found),
                limit=0,
                detail=_named(found, len(training.parameters)),
                remedy=remedy if found else "",
            )
        )
    frozen = [facts.name for facts in training.parameters if not facts.trainable]
    return (
        *checks,
        Check(name="parameters/frozen", outcome="measured", value=len(frozen), detail=_named(frozen, len(training.parameters))),
    )


def _named(found: Sequence[str], of: int) -> str:
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"{len(found)} of {of} tensors" + (f": {', '.join(found[:_NAMED])}{more}" if found else "")
