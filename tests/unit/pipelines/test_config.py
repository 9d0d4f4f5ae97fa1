"""pipeline.toml: what is read, what is refused and in which words."""

import shutil
from pathlib import Path

import pytest

from components.core.errors import ConfigError
from pipelines.config import CONFIG_FILE, SHIPPED, PipelineConfig, UseCase, environment_for, find_use_case, load_config

CREDIT = SHIPPED / "credit_risk"


@pytest.fixture
def use_case(tmp_path: Path) -> UseCase:
    folder = tmp_path / "elsewhere" / "fraud"
    folder.mkdir(parents=True)
    shutil.copy(CREDIT / CONFIG_FILE, folder / CONFIG_FILE)
    return find_use_case(str(folder))


def refusal(use_case: UseCase, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(use_case, overrides=overrides)
    return str(caught.value)


def test_the_shipped_use_case_is_found_by_name_and_by_path(tmp_path: Path) -> None:
    by_name = find_use_case("credit_risk", working_folder=tmp_path)
    by_path = find_use_case(str(CREDIT), working_folder=tmp_path)
    assert by_name == by_path == UseCase(CREDIT, "pipelines.credit_risk", SHIPPED.parent)


def test_a_use_case_outside_is_a_package_of_its_own(use_case: UseCase) -> None:
    assert use_case.package == "fraud"
    assert use_case.import_root == use_case.folder.parent
    assert use_case.module("features") == "fraud.features"
    assert find_use_case(str(use_case.folder / CONFIG_FILE)) == use_case


def test_children_find_the_use_case_by_pythonpath(use_case: UseCase) -> None:
    environment = environment_for(use_case, {"PYTHONPATH": f"/somewhere:{use_case.import_root}", "HOME": "/h"})
    assert environment == {"PYTHONPATH": f"{use_case.import_root}:{SHIPPED.parent}:/somewhere", "HOME": "/h"}


def test_an_unknown_use_case_names_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no use case 'nothing'.*shipped one \(.*credit_risk.*\).*tandem init"):
        find_use_case("nothing", working_folder=tmp_path)


@pytest.mark.parametrize("name", ["not-a-name", "components"])
def test_a_folder_name_that_is_no_package_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    shutil.copy(CREDIT / CONFIG_FILE, tmp_path / name / CONFIG_FILE)
    with pytest.raises(ConfigError, match="rename"):
        find_use_case(str(tmp_path / name))


def test_paths_start_where_they_should(use_case: UseCase, tmp_path: Path) -> None:
    config = load_config(use_case, working_folder=tmp_path)
    assert config.data_path == use_case.folder / "data" / "credit.csv"
    assert config.home == tmp_path / ".tandem"
    assert config.serving_root == tmp_path / "serving"
    assert config.tracking.uri == f"sqlite:///{tmp_path}/.tandem/mlflow.db"


def test_the_shipped_configuration_says_what_it_should() -> None:
    config: PipelineConfig = load_config(find_use_case("credit_risk"))
    spec = config.data_spec
    assert len(spec.features) == 13
    assert {feature.name for feature in spec.features if feature.optional} == {"Income", "Assets", "Debt", "Home", "Job", "Marital"}
    assert (spec.label.positive, spec.label.positive_index) == ("bad", 1)
    assert spec.slice_keys == ("Home", "Marital", "Job", "age")
    assert spec.bands[0].names() == ("<25", "[25, 35)", "[35, 45)", "[45, 55)", ">=55")
    assert spec.split_weights == {"train": 2, "eval": 1}
    assert config.serving_spec.batch_buckets == (1, 8, 64)


def test_precision_32_may_be_written_as_a_number(use_case: UseCase) -> None:
    assert load_config(use_case, overrides=["training.precision=32"]).training_spec.precision == "32"


def test_overrides_take_toml_values_and_bare_text(use_case: UseCase) -> None:
    config = load_config(use_case, overrides=["training.epochs=3", "training.precision=bf16-mixed", "training.model.hidden_units=[8, 4]"])
    assert config.training_spec.epochs == 3
    assert config.training_spec.precision == "bf16-mixed"
    assert config.training_spec.model["hidden_units"] == (8, 4)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("colour=1", ["unknown key 'colour'", "allowed here: approval, audit, data, directories, features"]),
        ("training.epoch=3", ["unknown key 'training.epoch'", "allowed here:", "epochs"]),
        ("slices.bands.age.edge=3", ["unknown key 'slices.bands.age.edge'", "allowed here: edges, feature"]),
        ("training.epochs=many", ["key 'training.epochs'", "integer", "not 'many'"]),
        ("training.epochs=0", ["key 'training.epochs'", "greater than or equal to 1", "not 0"]),
        ("training.epochs=2.5", ["key 'training.epochs'", "not 2.5"]),
        ("training.precision=8", ["key 'training.precision'", "'32', 'bf16-mixed' or '16-mixed'"]),
        ("training.device=tpu", ["key 'training.device'", "auto|cpu|cuda"]),
        ("label.positive=ugly", ["positive must be one of ['good', 'bad'], not 'ugly'"]),
        ("audit.floors.gini=0.3", ["unknown metric 'gini'", "known: auc"]),
        ("slices.by=['Age']", ["slice 'Age' is no category feature", "[slices.bands]"]),
        ("slices.bands.age.edges=[3, 2]", ["edges must ascend"]),
        ("features.optional=['Salary']", ["optional names features that are not listed: Salary"]),
        ("serving.batch_buckets=[8, 1]", ["batch_buckets must be whole numbers of 1 or more that ascend"]),
        ("serving.parity_tolerance=0.1", ["key 'serving.parity_tolerance'", "less than or equal to 0.00001"]),
        ("data.split.test=1", ["split weights: train and eval"]),
        ("name=Credit Risk", ["key 'name'", "not 'Credit Risk'"]),
        ("training", ["not of the form key=value", "training.epochs=3"]),
        ("name.first=3", ["'name' is a value, not a table"]),
    ],
)
def test_what_is_wrong_is_refused_with_file_key_and_what_is_allowed(use_case: UseCase, override: str, words: list[str]) -> None:
    message = refusal(use_case, override)
    assert "\n" not in message
    assert all(word in message for word in words), message
    assert override.startswith(("training", "name.")) or str(use_case.folder / CONFIG_FILE) in message


def test_an_audit_without_an_absolute_threshold_is_refused(use_case: UseCase) -> None:
    message = refusal(use_case, "audit.floors={}", "audit.ceilings={}")
    assert "audits nothing" in message


def test_several_faults_are_told_at_once(use_case: UseCase) -> None:
    message = refusal(use_case, "training.epochs=0", "colour=1")
    assert "training.epochs" in message
    assert "colour" in message


def test_broken_toml_names_file_and_line(use_case: UseCase) -> None:
    (use_case.folder / CONFIG_FILE).write_text("name = 'x'\n[data\n")
    message = refusal(use_case)
    assert str(use_case.folder / CONFIG_FILE) in message
    assert "line 2" in message


def test_a_missing_table_is_named(use_case: UseCase) -> None:
    (use_case.folder / CONFIG_FILE).write_text("name = 'x'\n")
    message = refusal(use_case)
    assert "key 'data' is missing" in message
    assert "key 'audit' is missing" in message
