"""MLflow runs of stages: one run a stage, ended as what it was, resumable by its id."""

import contextlib
import importlib.util
import math
import os
import re
import shutil
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, unquote

from components.core.contracts import TrackingSpec
from components.core.store_address import sqlite_path

_METRICS_A_REQUEST = 1000
_DATASET_ATTEMPTS = 5
_PLAIN = re.compile(r"[\w\- .]")


def encode_metric_part(text: str) -> str:
    """Turns any text into a part of an MLflow metric name, reversibly (MLflow refuses most punctuation).

    Letters, digits and marks of any script that MLflow takes stay, as do `_`, `-`, `.` and the space; every other character becomes
    `:XX` for each byte of its UTF-8 form, so `>=65` is `:3E:3D65`. A leading or trailing dot or space is encoded too: as a part of a
    path it would be refused or lost.
    """
    last = len(text) - 1
    return "".join(
        character
        if _PLAIN.fullmatch(character) and not (character in ". " and position in (0, last))
        else "".join(f":{byte:02X}" for byte in character.encode("utf-8", errors="surrogatepass"))
        for position, character in enumerate(text)
    )


def decode_metric_part(encoded: str) -> str:
    """Reverses `encode_metric_part`."""
    return unquote(encoded.replace(":", "%"), errors="surrogatepass")


def slice_metric(key: str, value: str, metric: str) -> str:
    """Name of a slice's metric in MLflow: `slice/<key>/<value>/<metric>`, each part encoded."""
    return "/".join(["slice", encode_metric_part(key), encode_metric_part(value), metric])


def _client(tracking: TrackingSpec) -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=tracking.uri, registry_uri=tracking.uri)


def experiment_id(tracking: TrackingSpec) -> str:
    """Id of the experiment, made when it is not there; two processes at once get the same one."""
    from mlflow.exceptions import MlflowException

    client = _client(tracking)
    found = client.get_experiment_by_name(tracking.experiment)
    if found is None:
        try:
            root = tracking.artifact_root.rstrip("/")
            return str(client.create_experiment(tracking.experiment, artifact_location=f"{root}/{quote(tracking.experiment)}"))
        except MlflowException:
            found = client.get_experiment_by_name(tracking.experiment)
            if found is None:
                raise
    return str(found.experiment_id)


def prepare_store(tracking: TrackingSpec) -> None:
    """Makes MLflow's tables and the experiment where they are not there yet, which takes seconds.

    A SQLite file is made under another name and appears whole: a process that is killed meanwhile leaves no half-made tables, which
    MLflow would refuse ever after, and of two that start at once both find the same file.
    """
    path = sqlite_path(tracking.uri)
    if path is not None and not path.exists():
        fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
        try:
            experiment_id(tracking.model_copy(update={"uri": f"sqlite:///{fresh}"}))
            with contextlib.suppress(FileExistsError):
                os.link(fresh, path)
        finally:
            fresh.unlink(missing_ok=True)
    experiment_id(tracking)


class StageRun:
    """One MLflow run of one stage, used as a context: FINISHED, FAILED on an exception, KILLED on an interrupt.

    Attributes:
        run_id: MLflow's id.
        client: MLflow's client, for what this class does not offer.
    """

    def __init__(self, tracking: TrackingSpec, name: str, *, tags: Mapping[str, str], run_id: str | None = None) -> None:
        self.tracking = tracking
        self.client = _client(tracking)
        tags = {**tags, "use_case": tracking.use_case}
        if run_id is None:
            run = self.client.create_run(experiment_id(tracking), run_name=name, tags=tags)
            self.run_id = str(run.info.run_id)
        else:
            self.run_id = run_id
            self.client.update_run(run_id, status="RUNNING")
            if "error" in self.client.get_run(run_id).data.tags:
                self.client.delete_tag(run_id, "error")
            for key, value in tags.items():
                self.client.set_tag(run_id, key, value)

    @staticmethod
    def exists(tracking: TrackingSpec, run_id: str) -> bool:
        """Whether a run can be gone on with: this store has it, in this experiment, not deleted."""
        from mlflow.exceptions import MlflowException

        try:
            info = _client(tracking).get_run(run_id).info
        except MlflowException:
            return False
        return bool(info.lifecycle_stage == "active" and info.experiment_id == experiment_id(tracking))

    def __enter__(self) -> Self:
        """Starts the context."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        """Ends the run as what it was."""
        if kind is None:
            self.client.set_terminated(self.run_id, status="FINISHED")
            return
        status = "KILLED" if issubclass(kind, (KeyboardInterrupt, SystemExit)) else "FAILED"
        self.client.set_tag(self.run_id, "error", str(error)[:500])
        self.client.set_terminated(self.run_id, status=status)

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Logs parameters; the same name may be logged again with the same value only."""
        from mlflow.entities import Param

        self.client.log_batch(self.run_id, params=[Param(key, str(value)) for key, value in params.items()])

    def log_metrics(self, metrics: Mapping[str, float | None], step: int = 0) -> None:
        """Logs metrics at `step`; a value that is None or not finite becomes the tag `undefined.<metric>` (MLflow would sort it first)."""
        import time

        from mlflow.entities import Metric, RunTag

        now = int(time.time() * 1000)
        finite = [Metric(key, value, now, step) for key, value in metrics.items() if value is not None and math.isfinite(value)]
        undefined = [RunTag(f"undefined.{key}", str(value)) for key, value in metrics.items() if value is None or not math.isfinite(value)]
        for start in range(0, len(finite), 500):
            self.client.log_batch(self.run_id, metrics=finite[start : start + 500])
        for start in range(0, len(undefined), 50):
            self.client.log_batch(self.run_id, tags=undefined[start : start + 50])

    def log_history(self, history: Mapping[int, Mapping[str, float]]) -> None:
        """Logs finite metrics of many steps in few requests; a step's metrics are stored together or not at all.

        Args:
            history: step -> metric -> finite value; at most 1000 metrics a step.
        """
        import time

        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        batch: list[Any] = []
        for step in sorted(history):
            entries = [Metric(key, value, now, step) for key, value in history[step].items()]
            if len(batch) + len(entries) > _METRICS_A_REQUEST:
                self.client.log_batch(self.run_id, metrics=batch)
                batch = []
            batch += entries
        if batch:
            self.client.log_batch(self.run_id, metrics=batch)

    def last_step(self, metric: str) -> int:
        """Largest step at which `metric` was logged, 0 when it never was."""
        return max((int(entry.step) for entry in self.client.get_metric_history(self.run_id, metric)), default=0)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Sets tags of the run."""
        from mlflow.entities import RunTag

        self.client.log_batch(self.run_id, tags=[RunTag(key, value) for key, value in tags.items()])

    def log_file(self, path: Path | str, folder: str | None = None) -> None:
        """Copies a file into the run's artifacts."""
        self.client.log_artifact(self.run_id, str(path), folder)

    def log_dataset(self, name: str, digest: str, context: str) -> None:
        """Records which data went in, so that runs over the same data can be found; `context` is e.g. `training`."""
        from mlflow.entities import Dataset, DatasetInput, InputTag
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import IntegrityError

        source = f'{{"uri": "{quote(name)}"}}'
        dataset = Dataset(name=name, digest=digest[:36], source_type="local", source=source)
        inputs = [DatasetInput(dataset, [InputTag("mlflow.data.context", context)])]
        for attempt in range(_DATASET_ATTEMPTS, 0, -1):
            try:
                self.client.log_inputs(self.run_id, datasets=inputs)
            except MlflowException as error:
                # MLflow looks for the dataset and then adds it: the other framework's run, at the same moment, may have been first.
                if attempt == 1 or not isinstance(error.__cause__, IntegrityError):
                    raise
            else:
                return

    def log_native_model(self, folder: Path | str, *, name: str, module: str, loader: str, requirements: Sequence[str]) -> str:
        """Logs a native model as the run's one LoggedModel, loadable by pyfunc where this distribution is installed.

        Nothing is inferred or imported: the folder, the sources of the use case's package and the given requirements are copied. A
        LoggedModel that an interrupted attempt left in this run is deleted first: the run's metrics belong to one model.

        Args:
            folder: the native model (`native.json` and weights).
            name: of the LoggedModel.
            module: dotted path of the module that builds the model; the Python files of its package go along.
            loader: dotted path of the module whose `_load_pyfunc(path)` loads `folder`.
            requirements: pip requirements, exact.

        Returns:
            id of the LoggedModel; `models:/<id>` is a source for the registry.
        """
        from mlflow.entities import LoggedModelOutput

        run = self.client.get_run(self.run_id)
        for left in self.client.search_logged_models([run.info.experiment_id], filter_string=f"source_run_id = '{self.run_id}'"):
            self.client.delete_logged_model(left.model_id)
        logged = self.client.create_logged_model(run.info.experiment_id, name=name, source_run_id=self.run_id, model_type="native")
        with tempfile.TemporaryDirectory() as root:
            write_pyfunc_model(root, folder, module=module, loader=loader, requirements=requirements)
            self.client.log_model_artifacts(logged.model_id, root)
        self.client.finalize_logged_model(logged.model_id, "READY")
        self.client.log_outputs(self.run_id, [LoggedModelOutput(logged.model_id, step=0)])
        return str(logged.model_id)


def write_pyfunc_model(root: Path | str, folder: Path | str, *, module: str, loader: str, requirements: Sequence[str]) -> None:
    """Writes an MLflow model folder: `MLmodel`, `requirements.txt`, `data/` (a copy of `folder`) and `code/` (the package of `module`).

    Args:
        root: an empty folder.
        folder, module, loader, requirements: as in `StageRun.log_native_model`.
    """
    import platform

    import mlflow.pyfunc
    from mlflow.models import Model

    root = Path(root)
    shutil.copytree(folder, root / "data")
    _copy_package(module, root / "code")
    (root / "requirements.txt").write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
    model = Model()
    mlflow.pyfunc.add_to_model(model, loader_module=loader, data="data", code="code", python_version=platform.python_version())
    model.save(str(root / "MLmodel"))


def _copy_package(module: str, target: Path) -> None:
    """Copies the Python files of the package of `module`, and the `__init__.py` of the packages above it."""
    parts = module.split(".")[:-1]
    for depth in range(1, len(parts) + 1):
        found = importlib.util.find_spec(".".join(parts[:depth]))
        for place in found.submodule_search_locations or () if found is not None else ():
            names = Path(place).glob("*.py" if depth == len(parts) else "__init__.py")
            (target / Path(*parts[:depth])).mkdir(parents=True, exist_ok=True)
            for source in names:
                shutil.copyfile(source, target / Path(*parts[:depth]) / source.name)
    if not parts:
        found = importlib.util.find_spec(module)
        target.mkdir()
        if found is not None and found.origin:
            shutil.copyfile(found.origin, target / f"{module}.py")
