"""Trains one framework with several seeds on transformed examples and writes the exact eval AUC of each: a child of five_seeds.py.

Call: `seed_training.py keras|lightning|logistic REQUEST.json RESULT.json`.
"""

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import product
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from components.core.contracts import FRAMEWORKS, ModelSpec
from components.core.measurements import TRAINING_FACTS_FILE, TrainingFacts, read_measurement
from components.ingest.digest import data_digest
from pipelines.config import PipelineConfig, find_use_case, load_config
from pipelines.plan import plan_training

Columns = tuple[dict[str, Any], Any]


def train_seeds(framework: str, config: PipelineConfig, request: dict[str, Any]) -> dict[str, list[float]]:
    """AUC and epochs of each seed, by the framework's own `run_fn` and native scorer."""
    custom = dict(plan_training(config, data_digest=data_digest(config.data_path)).parameters(f"{framework}-trainer"))
    custom["classes"] = json.loads(custom["classes"])
    run_fn = importlib.import_module(f"trainers.{framework}.run").run_fn
    config.home.mkdir(parents=True, exist_ok=True)
    result: dict[str, list[float]] = {"auc": [], "epochs": []}
    for seed in request["seeds"]:
        training = config.training_spec.model_copy(update={"seed": seed})
        target = Path(request["folder"]) / "models" / framework / str(seed)
        run_fn(
            SimpleNamespace(
                custom_config={**custom, "training": training.to_json()},
                transform_graph_path=request["transform_graph"],
                train_files=_pattern(request, "train"),
                eval_files=_pattern(request, "eval"),
                serving_model_dir=str(target / "Format-Serving"),
                model_run_dir=str(target / "model_run"),
            )
        )
        scorer = importlib.import_module(f"trainers.{framework}.native").NativeScorer(target / "Format-Serving")
        features, labels = read_split(config, request, split="eval", spec=scorer.native.spec)
        result["auc"].append(_auc(labels, scorer.predict(features), config))
        result["epochs"].append(read_measurement(TrainingFacts, str(target / "model_run"), TRAINING_FACTS_FILE).epochs_run)
    return result


def logistic_peer(config: PipelineConfig, request: dict[str, Any]) -> dict[str, Any]:
    """AUC of a logistic regression on the same transformed rows: floats as they are, ids one-hot."""
    from trainers.model_spec import read_model_spec

    label = config.data_spec.label
    spec = read_model_spec(request["transform_graph"], label=label.name, classes=label.classes)
    (train, train_labels), (held_out, labels) = (read_split(config, request, split=split, spec=spec) for split in ("train", "eval"))
    model = LogisticRegression(max_iter=2000).fit(_matrix(train, spec), train_labels)
    auc = _auc(labels, model.predict_proba(_matrix(held_out, spec)), config)
    return {"auc": [auc], "train_rows": len(train_labels), "eval_rows": len(labels)}


def read_split(config: PipelineConfig, request: dict[str, Any], *, split: str, spec: ModelSpec) -> Columns:
    """All rows of a split: name -> array [N, ...], and class indices int64[N]."""
    from trainers.examples import ExampleReader

    files = [str(path) for path in (Path(request["transformed_examples"]) / f"Split-{split}").iterdir()]
    reader = ExampleReader(files, spec, label=config.data_spec.label.name, batch_size=4096)
    parts = list(reader.arrays(1))
    features = {name: np.concatenate([part[0][name] for part in parts]) for name in parts[0][0]}
    return features, np.concatenate([part[1] for part in parts])


def _pattern(request: dict[str, Any], split: str) -> list[str]:
    return [str(Path(request["transformed_examples"]) / f"Split-{split}" / "*")]


def _matrix(features: dict[str, Any], spec: ModelSpec) -> Any:
    """float[N, columns]."""
    floats = [features[feature.name].reshape(-1, 1) for feature in spec.floats]
    return np.hstack([*floats, *(np.eye(feature.vocabulary_size or 0)[features[feature.name]] for feature in spec.ids)])


def _auc(labels: Any, scores: Any, config: PipelineConfig) -> float:
    """Exact area under the ROC curve of the positive class, from scores float[N, C]."""
    positive = config.data_spec.label.positive_index
    return float(roc_auc_score(labels == positive, scores[:, positive]))


def main() -> None:
    """Reads the request, trains, writes the result."""
    kind, request_path, result_path = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    request = json.loads(request_path.read_text())
    config = load_config(find_use_case(product.USE_CASE), working_folder=Path(request["folder"]))
    result = train_seeds(kind, config, request) if kind in FRAMEWORKS else logistic_peer(config, request)
    result_path.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
