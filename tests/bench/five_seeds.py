"""Eval AUC of both frameworks over five seeds, the shipped one among them, through the trainers themselves.

The pipeline runs once; then each framework's `run_fn` trains five times on the transformed examples of that run, as the pipeline's trainer
stage calls it, with models, checkpoints and MLflow store in a folder of their own, and the native models score the eval split. A logistic
regression of scikit-learn on the same transformed rows is the peer.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from figures import Figure, Place, bench_main
from process_tree import CommandError, last_line
from product import USE_CASE, environment, finished_record, fresh_folder

TRAINING = Path(__file__).resolve().parent / "seed_training.py"
SEEDS = 5
LEAST_AUC = 0.85
LARGEST_GAP = 0.01
FRAMEWORKS = ("keras", "lightning")


def measure(place: Place) -> list[Figure]:
    """Medians of five trainings of each framework, their distance, and the peer; `repeats` plays no part."""
    folder = fresh_folder(place.folder / "five-seeds")
    seeds, shipped = _seeds(folder)
    artifacts = finished_record(place.folder).artifacts
    inputs = {name: artifacts[f"transform/{name}"] for name in ("transform_graph", "transformed_examples")}
    request = {"folder": str(folder), "seeds": seeds, **inputs}
    results = {kind: _train(kind, request, folder) for kind in (*FRAMEWORKS, "logistic")}
    figures = []
    for framework in FRAMEWORKS:
        aucs = results[framework]["auc"]
        epochs = ", ".join(map(str, results[framework]["epochs"]))
        note = f"seeds {', '.join(map(str, seeds))}, shipped {shipped}; epochs run {epochs}"
        figures.append(Figure(f"{framework}, median eval AUC", statistics.median(aucs), "", LEAST_AUC, "at least", tuple(aucs), note))
    medians = [figure.value for figure in figures]
    figures.append(Figure("distance of the medians", abs(medians[0] - medians[1]), "", LARGEST_GAP, "at most"))
    peer = results["logistic"]
    note = f"scikit-learn, default C, ids one-hot; {peer['train_rows']} train and {peer['eval_rows']} eval rows"
    figures.append(Figure("logistic regression, eval AUC", peer["auc"][0], note=note))
    return figures


def choose_seeds(shipped: int) -> tuple[int, ...]:
    """Five seeds from 0 on; the shipped one takes the last place where it is not among them."""
    first = tuple(range(SEEDS))
    return first if shipped in first else (*first[:-1], shipped)


def _seeds(folder: Path) -> tuple[tuple[int, ...], int]:
    """The five seeds and the shipped one."""
    from pipelines.config import find_use_case, load_config

    shipped = load_config(find_use_case(USE_CASE), working_folder=folder).training_spec.seed
    return choose_seeds(shipped), shipped


def _train(kind: str, request: Mapping[str, object], folder: Path) -> dict[str, list[float]]:
    """Trains in a process of its own, as the pipeline does, and returns what it measured."""
    log, given, result = (folder / f"{kind}.{ending}" for ending in ("log", "request.json", "result.json"))
    given.write_text(json.dumps(request))
    with log.open("wb") as output:
        command = [sys.executable, str(TRAINING), kind, str(given), str(result)]
        finished = subprocess.run(command, cwd=folder, env=environment(), stdout=output, stderr=output, check=False)
    if finished.returncode != 0:
        raise CommandError(f"{kind}: {last_line(log)}; the whole story is in {log}")
    measured: dict[str, list[float]] = json.loads(result.read_text())
    return measured


if __name__ == "__main__":
    bench_main(measure)
