"""`tandem init`: a use case of one's own."""

import ast
import csv
import hashlib
import io
import os

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from components.core.errors import ConfigError
from pipelines.cli import main
from pipelines.config import SHIPPED, find_use_case, load_config
from pipelines.sample_data import sample_customers
from pipelines.scaffold import TEMPLATE, check_name, create_use_case


def test_the_use_case_loads_and_has_all_files(tmp_path):
    folder = create_use_case("my_case2", tmp_path / "new")
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {
        "__init__.py", "README.md", "data/customers.csv", "features.py", "keras_model.py", "lightning_model.py", "pipeline.toml",
    }  # fmt: skip
    config = load_config(find_use_case(str(folder)))
    assert (config.name, config.use_case.package, config.use_case.import_root) == ("my-case2", "my_case2", folder.parent)
    assert config.data_path == folder / "data/customers.csv"
    text = "".join((folder / name).read_text() for name in files)
    assert "use_case_name" not in text
    assert "use-case-name" not in text


def test_lists_of_the_transform_say_what_the_toml_says(tmp_path):
    folder = create_use_case("my_case", tmp_path)
    tree = ast.parse((folder / "features.py").read_text())
    lists = {node.targets[0].id: ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign)}
    spec = load_config(find_use_case(str(folder))).data_spec
    numeric = {feature.name for feature in spec.features if feature.kind != "category"}
    assert {*lists["AMOUNTS"], *lists["PLAIN"]} == numeric
    assert set(lists["OPTIONAL"]) == {feature.name for feature in spec.features if feature.optional and feature.name in numeric}
    assert set(lists["CATEGORIES"]) == {feature.name for feature in spec.features if feature.kind == "category"}
    assert (lists["LABEL"], lists["CLASSES"]) == (spec.label.name, spec.label.classes)


def test_every_key_of_the_configuration_is_in_the_template():
    text = (TEMPLATE / "pipeline.toml").read_text()
    config = load_config(find_use_case(str(TEMPLATE)))
    for section in ("data", "features", "slices", "training", "audit", "serving", "slo", "directories"):
        for key in type(getattr(config.toml, section)).model_fields:
            assert f"{key} = " in text or f"[{section}.{key}" in text, f"{section}.{key}"


def test_the_template_is_no_shipped_use_case():
    assert "scaffold_template" not in {path.parent.name for path in SHIPPED.glob("*/pipeline.toml")}


def test_the_data_is_the_same_everywhere_and_has_missing_cells():
    text = sample_customers()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 600
    assert hashlib.sha256(text.encode()).hexdigest() == "c2cc60e23dd0877ed87bcea9f15ffbee2ae6e405c4b97b9f033836c3bc569d28"
    assert 30 < sum(row["usage_hours"] == "" for row in rows) < 70
    assert 30 < sum(row["region"] == "" for row in rows) < 70
    assert 180 < sum(row["cancelled"] == "yes" for row in rows) < 280


def test_the_data_can_be_learned_well_above_the_floor():
    rows = list(csv.DictReader(io.StringIO(sample_customers())))
    numbers = [[float(row[name] or 30) for name in ("months", "tickets", "monthly_fee", "usage_hours")] for row in rows]
    values = np.column_stack([np.array(numbers), [row["region"] == "north" for row in rows]])
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    labels = np.array([row["cancelled"] == "yes" for row in rows])
    scores = LogisticRegression().fit(values[:400], labels[:400]).predict_proba(values[400:])[:, 1]
    assert roc_auc_score(labels[400:], scores) > 0.85


@pytest.mark.parametrize("name", ["My_case", "1case", "a-b", "_x", "x_", "", "größe", "a" * 64, "a.b", "../x"])
def test_names_that_cannot_be_used(name, tmp_path):
    with pytest.raises(ConfigError, match="allowed: up to 63 small letters"):
        create_use_case(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("class", "module of Python itself"), ("json", "module of Python itself"), ("components", "would hide an installed package"),
        ("trainers", "would hide an installed package"), ("torch", "would hide an installed package"),
        ("credit_risk", "is a shipped use case"),
    ],
)  # fmt: skip
def test_names_that_hide_something(name, why):
    with pytest.raises(ConfigError, match=why):
        check_name(name)


def test_what_is_in_the_way_stays(tmp_path):
    (tmp_path / "my_case").mkdir()
    (tmp_path / "my_case" / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is there already, nothing was changed"):
        create_use_case("my_case", tmp_path)
    assert [path.name for path in (tmp_path / "my_case").iterdir()] == ["mine.txt"]


def test_places_that_fail_later_are_refused_now(tmp_path):
    with pytest.raises(ConfigError, match="inside Tandem's own folder"):
        create_use_case("my_case", SHIPPED.parent)
    with pytest.raises(ConfigError, match="separates folders in PYTHONPATH"):
        create_use_case("my_case", tmp_path / f"a{os.pathsep}b")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be written: .*; choose another folder with --dir"):
        create_use_case("my_case", tmp_path / "file")


def test_nothing_half_made_is_left(tmp_path, monkeypatch):
    def full(text, *arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipelines.scaffold._write", full)
    with pytest.raises(ConfigError, match="No space left on device"):
        create_use_case("my_case", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_is_next(tmp_path, capsys):
    assert main(["init", "my_case", "--dir", str(tmp_path)]) == 0
    assert f"next: cd {tmp_path} && tandem run my_case" in capsys.readouterr().out
    assert main(["init", "my_case", "--dir", str(tmp_path)]) == 2
