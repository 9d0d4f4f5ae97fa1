"""Edge rows, and the names of inputs."""

import pytest

from components.core.contracts import Feature
from components.core.errors import ExportError
from components.core.served_model import input_name, input_names


@pytest.mark.parametrize(
    ("feature", "name"),
    [
        ("Income", "Income"),
        ("pay_0", "pay_0"),
        ("a b", "a_b"),
        ("a.b-c", "a_b_c"),
        ("比率", "f_u6bd4_u7387"),
        ("Größe", "Gr_uf6_udfe"),
        ("0x", "f0x"),
        ("_y", "f_y"),
        ("class", "class_"),
        ("self", "self_"),
    ],
)
def test_input_names_follow_one_rule(feature, name):
    assert input_name(feature) == name


@pytest.mark.parametrize(("one", "other"), [("a b", "a.b"), ("Income", "income"), ("比", "f_u6bd4")])
def test_names_that_collapse_are_refused_and_both_are_named(one, other):
    with pytest.raises(ExportError, match="rename one of them") as refusal:
        input_names([Feature(name=one, kind="number"), Feature(name=other, kind="number")])
    assert repr(one) in str(refusal.value) and repr(other) in str(refusal.value)


@pytest.fixture(scope="module")
def edges(served_case):
    from components.exporter.edge_rows import decode_example, make_edge_rows

    return {edge.name: decode_example(served_case.data, edge.example) for edge in make_edge_rows(served_case.data, served_case.examples)}


def test_each_optional_feature_is_missing_once_and_all_together(edges):
    for name in ("Income", "比率", "Home"):
        alone = edges[f"{name} missing"]
        assert [key for key, value in alone.items() if value == "(missing)"] == [name]
    assert [key for key, value in edges["all missing"].items() if value == "(missing)"] == ["Income", "比率", "Home"]
    assert "Age missing" not in edges


def test_extremes_of_each_kind_are_there(edges):
    assert edges["Income at 2^53"]["Income"] == "9007199254740992"
    assert edges["Income at -2^53"]["Income"] == "-9007199254740992"
    assert float(edges["比率 at the largest float32"]["比率"]) == pytest.approx(3.4028235e38)
    assert edges["比率 negative zero"]["比率"] == "-0.0"
    assert edges["Home not ASCII"]["Home"].startswith("北京")
    assert edges["Home an empty string"]["Home"] == ""


def test_observed_limits_and_typical_values_are_those_of_the_data(edges, served_case):
    incomes = sorted(row["Income"] for row in served_case.rows if row["Income"] is not None)
    homes = [row["Home"] for row in served_case.rows if row["Home"]]
    assert edges["Income at its smallest observed value"]["Income"] == str(incomes[0])
    assert edges["Income at its largest observed value"]["Income"] == str(incomes[-1])
    assert edges["typical"]["Income"] == str(incomes[len(incomes) // 2])
    assert homes.count(edges["typical"]["Home"]) == max(map(homes.count, set(homes)))
