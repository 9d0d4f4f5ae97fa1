"""A SavedModel loaded by TensorFlow's C++ loader, called through the C interface.

The same loader and the same session as in the real server: signature calls are Session::Run. Loading and running let Python's lock go, so
requests are answered while another version loads, and nothing of the graph is built anew in Python.
"""

import ctypes
import functools
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from infra.serving.model_server.faults import BY_NUMBER, Code, ServingFault

Array = np.ndarray[Any, Any]
_POINTER = ctypes.c_void_p
_STRING = 7
_TSTRING_BYTES = 24
_TSTRING_SMALL = 0
DTYPES: Mapping[int, type[np.generic]] = {
    1: np.float32,
    2: np.float64,
    3: np.int32,
    4: np.uint8,
    5: np.int16,
    6: np.int8,
    9: np.int64,
    10: np.bool_,
    17: np.uint16,
    19: np.float16,
    22: np.uint32,
    23: np.uint64,
}
"""TensorFlow's DataType numbers (framework/types.proto) that are passed; `string` is 7."""
_NUMBERS = {np.dtype(kind): number for number, kind in DTYPES.items()}
_RETURNS_POINTER = (
    "TF_NewStatus",
    "TF_NewGraph",
    "TF_NewSessionOptions",
    "TF_LoadSessionFromSavedModel",
    "TF_GraphOperationByName",
    "TF_AllocateTensor",
    "TF_TensorData",
    "TF_StringGetDataPointer",
)


class _Output(ctypes.Structure):
    """TF_Output: an operation and the position of its output."""

    _fields_ = [("operation", _POINTER), ("index", ctypes.c_int)]


@functools.cache
def _library() -> Any:
    import tensorflow as tf

    c: Any = ctypes.CDLL(str(Path(tf.__file__).with_name("libtensorflow_cc.so.2")))
    for name in _RETURNS_POINTER:
        getattr(c, name).restype = _POINTER
    c.TF_Message.restype = ctypes.c_char_p
    c.TF_Dim.restype = ctypes.c_int64
    c.TF_StringGetSize.restype = ctypes.c_size_t
    return c


def disable_xla() -> None:
    """Switches XLA off for the whole process, as in the real server without its XLA flag; TensorFlow then refuses `_xla` signatures."""
    _library()._ZN10tensorflow21DisableXlaCompilationEv()


class Session:
    """One loaded SavedModel; calls from several threads run at once."""

    def __init__(self, folder: Path) -> None:
        """Loads.

        Args:
            folder: of the SavedModel.

        Raises:
            ServingFault: TensorFlow cannot load it.
        """
        c = self._c = _library()
        self._graph = _POINTER(c.TF_NewGraph())
        self._session: Any = None
        options = _POINTER(c.TF_NewSessionOptions())
        status = _Status(c)
        tags = (ctypes.c_char_p * 1)(b"serve")
        session = _POINTER(c.TF_LoadSessionFromSavedModel(options, None, str(folder).encode(), tags, 1, self._graph, None, status.pointer))
        c.TF_DeleteSessionOptions(options)
        try:
            status.check()
        except ServingFault:
            c.TF_DeleteGraph(self._graph)
            raise
        self._session = session
        self._outputs: dict[str, _Output] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Lets the memory go; no call may be running."""
        with self._lock:
            session, self._session = self._session, None
        if session is None:
            return
        status = _Status(self._c)
        self._c.TF_CloseSession(session, status.pointer)
        self._c.TF_DeleteSession(session, status.pointer)
        self._c.TF_DeleteGraph(self._graph)

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str]) -> list[Array]:
        """Runs once.

        Args:
            feeds: tensor name -> array; strings as arrays of `bytes` objects.
            fetches: tensor names.

        Returns:
            An array a fetch, strings as arrays of `bytes` objects.

        Raises:
            ServingFault: TensorFlow refuses, with its own words.
        """
        c = self._c
        inputs = (_Output * len(feeds))(*[self._output(name) for name in feeds])
        given = [self._tensor(value) for value in feeds.values()]
        tensors = (_POINTER * len(given))(*given)
        outputs = (_Output * len(fetches))(*[self._output(name) for name in fetches])
        results = (_POINTER * len(fetches))()
        status = _Status(c)
        try:
            c.TF_SessionRun(self._session, None, inputs, tensors, len(given), outputs, results, len(fetches), None, 0, None, status.pointer)
            status.check()
            return [self._array(_POINTER(result)) for result in results]
        finally:
            for tensor in (*given, *(_POINTER(result) for result in results if result)):
                c.TF_DeleteTensor(tensor)

    def _output(self, tensor: str) -> _Output:
        found = self._outputs.get(tensor)
        if found is None:
            name, _, index = tensor.partition(":")
            operation = self._c.TF_GraphOperationByName(self._graph, name.encode())
            if not operation:
                raise ServingFault(Code.FAILED_PRECONDITION, f"the graph has no operation {name}")
            found = self._outputs[tensor] = _Output(operation, int(index or 0))
        return found

    def _tensor(self, value: Array) -> Any:
        dims = (ctypes.c_int64 * value.ndim)(*value.shape)
        if value.dtype == object:
            return self._strings(value, dims)
        number = _NUMBERS.get(value.dtype)
        if number is None:
            raise ServingFault(Code.UNIMPLEMENTED, f"tensors of {value.dtype} are not served")
        flat = np.ascontiguousarray(value)
        tensor = _POINTER(self._c.TF_AllocateTensor(number, dims, value.ndim, ctypes.c_size_t(flat.nbytes)))
        if flat.nbytes:
            ctypes.memmove(self._c.TF_TensorData(tensor), flat.ctypes.data, flat.nbytes)
        return tensor

    def _strings(self, value: Array, dims: Any) -> Any:
        c = self._c
        tensor = _POINTER(c.TF_AllocateTensor(_STRING, dims, value.ndim, ctypes.c_size_t(value.size * _TSTRING_BYTES)))
        data = c.TF_TensorData(tensor)
        for index, text in enumerate(value.ravel().tolist()):
            place = _POINTER(data + index * _TSTRING_BYTES)
            c.TF_StringInit(place)
            c.TF_StringCopy(place, text, ctypes.c_size_t(len(text)))
        return tensor

    def _array(self, tensor: Any) -> Array:
        c = self._c
        shape = tuple(c.TF_Dim(tensor, axis) for axis in range(c.TF_NumDims(tensor)))
        number = c.TF_TensorType(tensor)
        size = int(np.prod(shape, dtype=np.int64))
        if number == _STRING:
            return self._bytes(tensor, size).reshape(shape)
        kind = DTYPES.get(number)
        if kind is None:
            raise ServingFault(Code.UNIMPLEMENTED, f"tensors of TensorFlow's type {number} are not served")
        array = np.empty(shape, kind)
        if size:
            ctypes.memmove(array.ctypes.data, c.TF_TensorData(tensor), array.nbytes)
        return array

    def _bytes(self, tensor: Any, size: int) -> Array:
        c = self._c
        texts = np.empty(size, object)
        if not size:
            return texts
        data = c.TF_TensorData(tensor)
        raw = ctypes.string_at(data, size * _TSTRING_BYTES)
        for index in range(size):
            begin = index * _TSTRING_BYTES
            first = raw[begin]
            if first & 3 == _TSTRING_SMALL:
                # A short string lies in its own 24 bytes behind a byte of length and kind (tensorflow/tsl/platform/ctstring_internal.h).
                texts[index] = raw[begin + 1 : begin + 1 + (first >> 2)]
            else:
                place = _POINTER(data + begin)
                texts[index] = ctypes.string_at(c.TF_StringGetDataPointer(place), c.TF_StringGetSize(place))
        return texts


class _Status:
    """TF_Status, freed with this object."""

    def __init__(self, c: Any) -> None:
        self._c = c
        self.pointer = _POINTER(c.TF_NewStatus())

    def __del__(self) -> None:
        self._c.TF_DeleteStatus(self.pointer)

    def check(self) -> None:
        """Raises what it holds."""
        number = self._c.TF_GetCode(self.pointer)
        if number:
            message = self._c.TF_Message(self.pointer).decode("utf-8", "replace")
            raise ServingFault(BY_NUMBER.get(number, Code.UNKNOWN), message)
