"""One loaded version of a model: its signatures, and calls by input names."""

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from infra.serving.model_server.faults import Code, ServingFault, invalid
from infra.serving.model_server.session import Array, Session
from infra.serving.model_server.tensors import dtype_of, to_array

PREDICT = "tensorflow/serving/predict"
CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"
_DEFAULT_ELEMENTS = 1 << 28
_VARIABLES = frozenset({"VarHandleOp", "VariableV2", "Variable"})


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """A tensor of a signature: its name in the graph, NumPy dtype (`object` = string), shape with -1 for unknown, None = unknown rank."""

    tensor: str
    dtype: Any
    shape: tuple[int, ...] | None


@dataclasses.dataclass(frozen=True)
class Signature:
    """A SignatureDef.

    Attributes:
        key: its name.
        method: `tensorflow/serving/predict`, `classify` or `regress`.
        inputs, outputs: by name.
        defaults: inputs that a caller may leave out, and what they are then.
    """

    key: str
    method: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    defaults: Mapping[str, Array]


class Servable:
    """A loaded version; `acquire` and `release` count who uses it, `close` waits for them.

    Attributes:
        model, version: what it is.
        signatures: by key.
        signature_defs: as the SavedModel has them, for GetModelMetadata.
    """

    def __init__(self, model: str, version: int, folder: Path) -> None:
        """Loads; does not warm up.

        Raises:
            ServingFault: TensorFlow cannot load it.
        """
        self.model, self.version = model, version
        graph = _meta_graph(folder)
        _check_variables(graph, folder)
        self.signature_defs: Mapping[str, Any] = dict(graph.signature_def)
        self.signatures = {key: _signature(key, definition) for key, definition in self.signature_defs.items() if definition.method_name}
        self._session = Session(folder)
        self._users = 0
        self._idle = threading.Condition()
        self._closing = False

    def signature(self, key: str) -> Signature:
        """One signature.

        Raises:
            ServingFault: there is none of this name.
        """
        found = self.signatures.get(key or "serving_default")
        if found is None:
            raise ServingFault(Code.FAILED_PRECONDITION, f'Serving signature key "{key or "serving_default"}" not found.')
        return found

    def call(self, signature: Signature, inputs: Mapping[str, Array], *, outputs: Sequence[str] = ()) -> dict[str, Array]:
        """Calls a signature.

        Args:
            signature: of this servable.
            inputs: by name; those with a default may be missing.
            outputs: names that are wanted; none = all.

        Raises:
            ServingFault: names, types or shapes are not the signature's, or TensorFlow refuses.
        """
        _check_names(signature, inputs)
        feeds = {spec.tensor: _checked(name, inputs, spec, signature) for name, spec in signature.inputs.items()}
        wanted = list(outputs) or list(signature.outputs)
        for place, name in enumerate(wanted):
            if name not in signature.outputs:
                known = ",".join(sorted(signature.outputs))
                raise invalid(f"output tensor alias not found in signature: {name} Outputs expected to be in the set {{{known}}}.")
            if name in wanted[:place]:
                raise invalid(f"duplicate output tensor alias: {name}")
        results = self._session.run(feeds, [signature.outputs[name].tensor for name in wanted])
        return dict(zip(wanted, results, strict=True))

    def acquire(self) -> bool:
        """Counts one user more; False when it is being unloaded."""
        with self._idle:
            if self._closing:
                return False
            self._users += 1
            return True

    def release(self) -> None:
        """Counts one user less."""
        with self._idle:
            self._users -= 1
            if not self._users:
                self._idle.notify_all()

    def close(self) -> None:
        """Takes no new users, waits for those that are there, and lets the memory go."""
        with self._idle:
            self._closing = True
            while self._users:
                self._idle.wait()
        self._session.close()


def _meta_graph(folder: Path) -> Any:
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    try:
        graphs = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes()).meta_graphs
    except (OSError, DecodeError) as error:
        raise ServingFault(
            Code.NOT_FOUND, f"Could not find SavedModel .pb at supplied export directory path: {folder} ({error})"
        ) from error
    for graph in graphs:
        if "serve" in graph.meta_info_def.tags:
            return graph
    raise ServingFault(Code.NOT_FOUND, f"Could not find meta graph def matching supplied tags: {{ serve }} in {folder}")


def _check_variables(graph: Any, folder: Path) -> None:
    """TensorFlow loads a graph whose variables are not there, and every call fails then: a copy that is still under way looks like that."""
    index = folder / "variables" / "variables.index"
    if not index.is_file() and any(node.op in _VARIABLES for node in graph.graph_def.node):
        raise ServingFault(Code.NOT_FOUND, f"The graph has variables, and their values are not there: {index}")


def _signature(key: str, definition: Any) -> Signature:
    return Signature(
        key=key,
        method=definition.method_name,
        inputs={name: _spec(info) for name, info in definition.inputs.items()},
        outputs={name: _spec(info) for name, info in definition.outputs.items()},
        defaults={name: to_array(name, tensor, max_elements=_DEFAULT_ELEMENTS) for name, tensor in definition.defaults.items()},
    )


def _spec(info: Any) -> TensorSpec:
    shape = None if info.tensor_shape.unknown_rank else tuple(dim.size for dim in info.tensor_shape.dim)
    return TensorSpec(info.name, dtype_of(info.dtype), shape)


def _check_names(signature: Signature, inputs: Mapping[str, Array]) -> None:
    """Refuses names that are not the signature's, and missing ones without a default, in the order and words of the real server."""
    sent, wanted = sorted(inputs), sorted(signature.inputs)
    if len(sent) > len(wanted) or (len(sent) < len(wanted) and not signature.defaults):
        extra, missing = sorted(set(sent) - set(wanted)), sorted(set(wanted) - set(sent))
        raise invalid(
            f"input size does not match signature: {len(sent)}!={len(wanted)} len({{{','.join(sent)}}}) != len({{{','.join(wanted)}}}). "
            f"Sent extra: {{{','.join(extra)}}}. Missing but required: {{{','.join(missing)}}}."
        )
    for name, spec in signature.inputs.items():
        if name not in inputs and name not in signature.defaults:
            raise invalid(
                f"Signature input alias: {name}(feed name: {spec.tensor}) not found in request and no default value provided. Inputs "
                f"expected to be in the request {{{','.join(sent)}}}, or default input alias set: {','.join(sorted(signature.defaults))}"
            )
    unknown = set(sent) - set(wanted)
    if unknown:
        used = ",".join(name for name in sent if name in signature.inputs)
        raise invalid(f"Inputs contains invalid name. Used request inputs: {used}, request input: {','.join(sent)}")


def _checked(name: str, inputs: Mapping[str, Array], spec: TensorSpec, signature: Signature) -> Array:
    value = inputs.get(name)
    if value is None:
        return signature.defaults[name]
    if value.dtype != spec.dtype:
        wanted = "string" if spec.dtype == object else spec.dtype
        given = "string" if value.dtype == object else value.dtype
        raise invalid(f"input {name!r} of signature {signature.key!r} is {wanted}, not {given}")
    if spec.shape is not None and (
        value.ndim != len(spec.shape) or any(size not in (-1, given) for size, given in zip(spec.shape, value.shape, strict=True))
    ):
        raise invalid(f"input {name!r} of signature {signature.key!r} has shape {list(spec.shape)}, not {list(value.shape)}")
    return value


def rows_of(inputs: Mapping[str, Array]) -> int:
    """Size of the first axis; 1 for scalars."""
    return max((len(np.atleast_1d(value)) for value in inputs.values()), default=0)
