"""The card: every number stands in a measurement file, and data cannot break its Markdown."""

import dataclasses

from components.core.contracts import LOWER_IS_BETTER
from components.core.measurements import Gate, MetricValue, SliceReport
from components.registrar.model_card import CARD_LIMIT, worst_slices, write_card


def card(facts):
    return write_card(facts, reference="credit-risk/3", dataset_digest="d" * 64)


def with_audit(facts, **changes):
    return dataclasses.replace(facts, audit=facts.audit.model_copy(update=changes))


def test_the_card_says_what_it_is_and_how_good(facts):
    lines = card(facts).splitlines()
    assert lines[0] == "**keras model, blessed** by its audit on 1500 rows."
    assert f"- SavedModel: 12345 bytes, tree digest `{'a' * 64}`" in lines
    assert f"- data: SHA-256 `{'d' * 64}`" in lines
    assert "- exported against native scores: largest difference 2.5e-07, 1500 eval rows and 9 edge rows" in lines
    assert "| auc | 0.86 | 0.84 to 0.88 |" in lines
    assert "| precision | undefined (undefined: no row) | undefined |" in lines
    assert "1 passed, 1 not checked" in lines
    assert "- change/auc: **not checked**: no champion yet" in lines
    assert "- not done: change/auc: there is no champion" in lines
    assert "| 1 | 1.25 / 2.5 | 1 / 2 | yes |" in lines
    assert "| 64 | 1.25 / 2.5 | 1 / 2 | not judged |" in lines
    assert 'model = mlflow.pyfunc.load_model("models:/credit-risk/3")' in lines


def test_judged_slices_come_first_and_their_text_stays_in_its_cell(facts):
    lines = card(facts).splitlines()
    table = lines[lines.index("### Worst slices by auc") + 4 :][:2]
    assert table == [r"| Job | a\|b \`c\` | 300 | 0.71 | yes |", "| Home | owner | 700 | 0.9 | yes |"]


def test_slices_that_nobody_judged_are_shown_as_such(facts):
    unjudged = tuple(part.model_copy(update={"judged": False}) for part in facts.audit.slices)
    assert r"| Home | (missing) | 5 | 0.2 | no |" in card(with_audit(facts, slices=unjudged))


def test_the_worst_slice_of_a_loss_is_the_largest(facts):
    (metric, *_) = sorted(LOWER_IS_BETTER)
    parts = tuple(
        SliceReport(key="k", value=value, size=9, positives=1, judged=True, metrics={metric: MetricValue(value=loss)})
        for value, loss in (("small", 0.1), ("large", 0.9), ("undefined", None))
    )
    assert [part.value for part in worst_slices(with_audit(facts, slices=parts).audit, metric)] == ["large", "small"]


def test_a_failed_gate_names_value_and_limit(facts):
    gate = Gate(name="floor/auc", status="failed", value=0.84, limit=0.85, detail="whole eval split")
    assert "- floor/auc: **failed** (measured 0.84, limit 0.85): whole eval split" in card(with_audit(facts, gates=(gate,), blessed=False))


def test_the_card_never_exceeds_what_a_registry_keeps(facts):
    gates = tuple(Gate(name=f"slice_floor/{'x' * 300}/{index}", status="failed", detail="y" * 500) for index in range(500))
    text = card(with_audit(facts, gates=gates))
    assert len(text) <= CARD_LIMIT
    assert text.endswith("(cut here; the whole is in the version's `measurements/` folder)\n")


def test_what_was_not_measured_is_said(facts):
    bare = with_audit(facts, metrics={}, slices=(), gates=())
    text = card(dataclasses.replace(bare, compiled=facts.compiled.model_copy(update={"buckets": ()})))
    assert text.count("not measured") == 2
    assert "### Gates\n\nnone" in text
