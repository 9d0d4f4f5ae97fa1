import pytest

from components.core.errors import TrainingError
from trainers.job import TrainerConfig, TrainingJob, other_trainer_threads


def test_config_survives_the_way_through_tfx(workplace):
    from tfx.utils import json_utils

    config = workplace.config("keras")
    plain = config.to_custom_config()
    assert isinstance(plain["training"], str)
    assert TrainerConfig.from_custom_config(json_utils.loads(json_utils.dumps(plain))) == config


def test_half_of_the_cores_are_left_to_the_other_trainer(workplace):
    plain = workplace.config("keras").to_custom_config()
    del plain["threads"]
    assert TrainerConfig.from_custom_config(plain).threads == other_trainer_threads() >= 1


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [("label", None, "label"), ("surplus", 1, "surplus"), ("threads", 0, "threads"), ("training", "{", "custom_config")],
)
def test_a_bad_custom_config_names_its_key(workplace, key, value, word):
    plain = workplace.config("keras").to_custom_config() | {key: value}
    with pytest.raises(TrainingError, match=word):
        TrainerConfig.from_custom_config({name: entry for name, entry in plain.items() if entry is not None})


def test_hparams_hold_the_learning_rate(workplace):
    assert workplace.job("keras").hparams == {"units": 2, "dropout": 0.2, "learning_rate": 0.05}


def test_without_examples_or_graph_the_split_is_named(workplace):
    fn_args = workplace.fn_args("keras")
    fn_args.eval_files = ["/nowhere/*"]
    with pytest.raises(TrainingError, match="split 'eval'"):
        TrainingJob.of(fn_args)
    fn_args.transform_graph_path = None
    with pytest.raises(TrainingError, match="no transform graph"):
        TrainingJob.of(fn_args)


def test_the_digest_of_the_examples_stands_in_for_an_unknown_one(workplace):
    first, second = (workplace.job(framework, dataset_digest="").dataset_digest for framework in ("keras", "lightning"))
    assert first == second
    assert len(first) == 64
