"""What lies around a SavedModel in the registry, so that MLflow can load it: `MLmodel`, requirements, the scoring code.

MLflow has no flavor that takes a SavedModel as it lies: its own save the model again, and another save has another digest.
"""

import dataclasses
import datetime
import importlib.metadata
import json
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.core import scoring
from components.core.contracts import Framework
from components.core.dossier import DOSSIER_FILE, Dossier, digests
from components.core.errors import RegistryError
from components.core.files import tree_digest, tree_size_bytes, write_bytes

SAVED_MODEL_FOLDER = "saved_model"
MEASUREMENTS_FOLDER = "measurements"
_CODE_FOLDER = "code"
_LOADER = "tandem_scoring"
_REQUIREMENTS = ("mlflow", "tensorflow", "pandas", "numpy")


@dataclasses.dataclass(frozen=True)
class Package:
    """What becomes a version.

    Attributes:
        framework: `keras` or `lightning`.
        saved_model: folder of the final SavedModel.
        digest: its tree digest, 64 hex digits.
        training_run_id: MLflow run of the training.
        native_model_id: LoggedModel of the native model in that run, None when there is none.
        measurements: files that describe this digest.
        tags: version tags beside `framework`, `tree_digest` and `use_case`.
        linked: the training run and its native model shall name this version; a copy for production leaves them with the candidate.
    """

    framework: Framework
    saved_model: Path
    digest: str
    training_run_id: str
    native_model_id: str | None
    measurements: tuple[Path, ...]
    tags: Mapping[str, str]
    linked: bool = True

    @property
    def dossier(self) -> Dossier | None:
        """To be frozen with the package; None of a copy for production, which carries its candidate's."""
        if not self.linked:
            return None
        return Dossier(
            framework=self.framework,
            model_digest=self.digest,
            training_run_id=self.training_run_id,
            recorded=dict(self.tags),
            files=digests(self.measurements),
        )


def require_digest(folder: Path, digest: str, what: str) -> None:
    """Checks that the bytes are those that were recorded.

    Raises:
        RegistryError: they are not, or there are none.
    """
    try:
        found = tree_digest(folder)
    except FileNotFoundError as error:
        raise RegistryError(f"{what} is not there; run the pipeline again") from error
    if found != digest:
        raise RegistryError(f"{what} has digest {found}, recorded is {digest or 'none'}: its bytes changed; run the pipeline again")


def write_surroundings(folder: Path, package: Package, *, model_id: str, run_id: str) -> None:
    """Writes everything of the package but the SavedModel's bytes into `folder`.

    Args:
        folder: an empty folder.
        package: what is registered.
        model_id: of the LoggedModel that will hold it.
        run_id: MLflow run that logs it.

    Raises:
        RegistryError: the SavedModel has no signature `serving_raw`.
    """
    code = folder / _CODE_FOLDER / f"{_LOADER}.py"
    code.parent.mkdir()
    shutil.copyfile(scoring.__file__, code)
    for measurement in package.measurements:
        write_bytes(folder / MEASUREMENTS_FOLDER / measurement.name, measurement.read_bytes())
    dossier = package.dossier
    if dossier is not None:
        write_bytes(folder / MEASUREMENTS_FOLDER / DOSSIER_FILE, (dossier.model_dump_json(indent=2) + "\n").encode())
    requirements = [f"{name}=={importlib.metadata.version(name)}" for name in _REQUIREMENTS]
    (folder / "requirements.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
    environment = {"python": platform.python_version(), "build_dependencies": ["pip"], "dependencies": ["-r requirements.txt"]}
    _write_yaml(folder / "python_env.yaml", environment)
    _write_yaml(folder / "MLmodel", _describe(package, model_id=model_id, run_id=run_id))


def _write_yaml(path: Path, value: Any) -> None:
    """JSON is YAML."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def _describe(package: Package, *, model_id: str, run_id: str) -> dict[str, Any]:
    """MLflow's description of the model.

    `mlflow.pyfunc` takes raw features (`serving_raw`); `mlflow.tensorflow` gives the function `serving_default` on serialized tf.Example.
    """
    tensorflow = {
        "saved_model_dir": SAVED_MODEL_FOLDER,
        "meta_graph_tags": ["serve"],
        "signature_def_key": "serving_default",
        "model_type": "tf1-estimator",
        "code": None,
    }
    pyfunc = {
        "loader_module": _LOADER,
        "python_version": platform.python_version(),
        "data": SAVED_MODEL_FOLDER,
        "code": _CODE_FOLDER,
        "env": {"virtualenv": "python_env.yaml"},
    }
    return {
        "model_id": model_id,
        "model_uuid": model_id,
        "run_id": run_id,
        "utc_time_created": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S.%f}",
        "mlflow_version": importlib.metadata.version("mlflow"),
        "model_size_bytes": tree_size_bytes(package.saved_model),
        "flavors": {"python_function": pyfunc, "tensorflow": tensorflow},
        "signature": read_signature(package.saved_model),
        "metadata": {"tree_digest": package.digest, "framework": package.framework},
    }


def read_signature(saved_model: Path) -> dict[str, str | None]:
    """The signature `serving_raw` in MLflow's form: columns, none of them required, because an absent feature is a missing one.

    Numbers are declared `any`: a column of whole numbers is int64 in a DataFrame, and float64 as soon as one is missing; whichever
    type were declared, MLflow would refuse the other. The scoring code casts to what the model takes.

    Raises:
        RegistryError: there is no signature `serving_raw`.
    """
    from tensorflow.core.framework import types_pb2
    from tensorflow.core.protobuf import saved_model_pb2

    graph = saved_model_pb2.SavedModel.FromString((saved_model / "saved_model.pb").read_bytes())
    signature = graph.meta_graphs[0].signature_def.get(scoring.SIGNATURE)
    if signature is None:
        known = ", ".join(sorted(graph.meta_graphs[0].signature_def))
        raise RegistryError(f"the SavedModel in {saved_model} has no signature `{scoring.SIGNATURE}`, only {known}; export it again")
    columns = [
        {"name": name, "type": "string" if spec.dtype == types_pb2.DT_STRING else "any", "required": False}
        for name, spec in sorted(signature.inputs.items())
    ]
    outputs = [
        {"name": name, "type": "tensor", "tensor-spec": {"dtype": _NUMPY_NAMES.get(spec.dtype, "str"), "shape": [-1, -1]}}
        for name, spec in sorted(signature.outputs.items())
    ]
    return {"inputs": json.dumps(columns), "outputs": json.dumps(outputs), "params": None}


_NUMPY_NAMES = {1: "float32", 2: "float64", 3: "int32", 9: "int64"}
"""Of TensorFlow's DataType numbers, for what a score can be."""
