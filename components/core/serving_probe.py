"""Runs signatures of a SavedModel as a stock model server does: by TensorFlow's C++ loader, XLA switched off, no Python package at all.

A script of its own, started as `python -I -S serving_probe.py LIBRARY SAVED_MODEL` in a fresh process: without site-packages neither
torch nor keras nor tensorflow can be imported, and loading the C library alone takes a quarter of the time of `import tensorflow`. On
stdin it reads JSON: a list of {"feeds": {tensor: {"dtype", "values"}}, "fetch": tensor}, strings as hexadecimal; on stdout it writes
JSON: for each the scores as rows, or {"error": message}. With "repeats" a request is run that often after its first answer, and for it
{"scores": rows, "latencies_ms": numbers} is written.
"""

import ctypes
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

_NUMBERS: dict[str, tuple[int, Any]] = {"float32": (1, ctypes.c_float), "float64": (2, ctypes.c_double)}
_STRING = 7
_TSTRING_BYTES = 24
_POINTER = ctypes.c_void_p
_POINTER_RESULTS = (
    "TF_NewStatus",
    "TF_NewGraph",
    "TF_NewSessionOptions",
    "TF_LoadSessionFromSavedModel",
    "TF_GraphOperationByName",
    "TF_AllocateTensor",
    "TF_TensorData",
)


class _Output(ctypes.Structure):
    """TF_Output: an operation and the position of its output."""

    _fields_ = [("operation", _POINTER), ("index", ctypes.c_int)]


class Session:
    """A SavedModel loaded with XLA compilation disabled for the whole process."""

    def __init__(self, library: str, saved_model: str) -> None:
        self.c: Any = ctypes.CDLL(library)
        for name in _POINTER_RESULTS:
            getattr(self.c, name).restype = _POINTER
        self.c.TF_Message.restype = ctypes.c_char_p
        self.c.TF_Dim.restype = ctypes.c_int64
        self.c._ZN10tensorflow21DisableXlaCompilationEv()
        self.status = _POINTER(self.c.TF_NewStatus())
        self.graph = _POINTER(self.c.TF_NewGraph())
        options = _POINTER(self.c.TF_NewSessionOptions())
        tags = (ctypes.c_char_p * 1)(b"serve")
        self.session = _POINTER(
            self.c.TF_LoadSessionFromSavedModel(options, None, saved_model.encode(), tags, 1, self.graph, None, self.status)
        )
        self._check()

    def _check(self) -> None:
        if self.c.TF_GetCode(self.status):
            raise RuntimeError(self.c.TF_Message(self.status).decode("utf-8", "replace"))

    def _output(self, tensor: str) -> _Output:
        name, _, index = tensor.partition(":")
        operation = self.c.TF_GraphOperationByName(self.graph, name.encode())
        if not operation:
            raise RuntimeError(f"no operation {name}")
        return _Output(operation, int(index))

    def _vector(self, dtype: str, values: Sequence[Any]) -> Any:
        dims = (ctypes.c_int64 * 1)(len(values))
        code, kind = (_STRING, None) if dtype == "string" else _NUMBERS[dtype]
        size = len(values) * (_TSTRING_BYTES if kind is None else ctypes.sizeof(kind))
        tensor = _POINTER(self.c.TF_AllocateTensor(code, dims, 1, ctypes.c_size_t(size)))
        data = self.c.TF_TensorData(tensor)
        if kind is not None:
            if values:
                (kind * len(values)).from_address(data)[:] = [float(value) for value in values]
            return tensor
        for index, value in enumerate(map(bytes.fromhex, values)):
            place = _POINTER(data + index * _TSTRING_BYTES)
            self.c.TF_StringInit(place)
            self.c.TF_StringCopy(place, value, ctypes.c_size_t(len(value)))
        return tensor

    def run(self, feeds: Mapping[str, Mapping[str, Any]], fetch: str) -> list[list[float]]:
        """Runs once and returns the fetched float32[N, C]."""
        inputs = (_Output * len(feeds))(*map(self._output, feeds))
        tensors = (_POINTER * len(feeds))(*(self._vector(feed["dtype"], feed["values"]) for feed in feeds.values()))
        output, result = (_Output * 1)(self._output(fetch)), (_POINTER * 1)()
        self.c.TF_SessionRun(self.session, None, inputs, tensors, len(feeds), output, result, 1, None, 0, None, self.status)
        self._check()
        tensor = _POINTER(result[0])
        rows, columns = (self.c.TF_Dim(tensor, axis) for axis in (0, 1))
        if not rows:
            return []
        values = (ctypes.c_float * (rows * columns)).from_address(self.c.TF_TensorData(tensor))
        return [list(values[row * columns : (row + 1) * columns]) for row in range(rows)]


def _answer(session: Session, request: Mapping[str, Any]) -> Any:
    feeds, fetch = request["feeds"], request["fetch"]
    try:
        scores = session.run(feeds, fetch)
        if not request.get("repeats"):
            return scores
        latencies = []
        for _ in range(request["repeats"]):
            began = time.perf_counter()
            session.run(feeds, fetch)
            latencies.append(1000 * (time.perf_counter() - began))
        return {"scores": scores, "latencies_ms": latencies}
    except RuntimeError as error:
        return {"error": str(error)}


def main(library: str, saved_model: str) -> None:
    """Answers the requests of stdin on stdout."""
    requests = json.load(sys.stdin)
    session = Session(library, saved_model)
    json.dump([_answer(session, request) for request in requests], sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
