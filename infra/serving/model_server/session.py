"""A SavedModel loaded by TensorFlow's C++ loader, called through the C interface.

The same loader and the same session as in the real server: signature calls are Session::Run. Loading and running let Python's lock go, so
requests are answered while another version loads, and nothing of the graph is built anew in Python.
"""

import ctypes
import functools
import math
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
_SIGNATURES: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "TF_NewStatus": (_POINTER, ()),
    "TF_DeleteStatus": (None, (_POINTER,)),
    "TF_GetCode": (ctypes.c_int, (_POINTER,)),
    "TF_Message": (ctypes.c_char_p, (_POINTER,)),
    "TF_NewGraph": (_POINTER, ()),
    "TF_NewSessionOptions": (_POINTER, ()),
    "TF_DeleteSessionOptions": (None, (_POINTER,)),
    "TF_GraphOperationByName": (_POINTER, (_POINTER, ctypes.c_char_p)),
    "TF_AllocateTensor": (_POINTER, (ctypes.c_int, _POINTER, ctypes.c_int, ctypes.c_size_t)),
    "TF_DeleteTensor": (None, (_POINTER,)),
    "TF_TensorData": (_POINTER, (_POINTER,)),
    "TF_TensorType": (ctypes.c_int, (_POINTER,)),
    "TF_NumDims": (ctypes.c_int, (_POINTER,)),
    "TF_Dim": (ctypes.c_int64, (_POINTER, ctypes.c_int)),
    "TF_StringCopy": (None, (_POINTER, ctypes.c_char_p, ctypes.c_size_t)),
    "TF_StringGetSize": (ctypes.c_size_t, (_POINTER,)),
    "TF_StringGetDataPointer": (_POINTER, (_POINTER,)),
}
"""Of the C interface (tensorflow/c/c_api.h): type of the result, types of the arguments."""


class _Output(ctypes.Structure):
    """TF_Output: an operation and the position of its output."""

    _fields_ = [("operation", _POINTER), ("index", ctypes.c_int)]


@functools.cache
def _waiting() -> Any:
    """The functions that take long: Python's lock is let go while they run."""
    import tensorflow as tf

    c: Any = ctypes.CDLL(str(Path(tf.__file__).with_name("libtensorflow_cc.so.2")))
    c.TF_LoadSessionFromSavedModel.restype = _POINTER
    return c


@functools.cache
def _library() -> Any:
    """The functions that take a microsecond: to let Python's lock go for each would cost more than they do, the more so under load."""
    import tensorflow as tf

    c: Any = ctypes.PyDLL(str(Path(tf.__file__).with_name("libtensorflow_cc.so.2")))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(c, name)
        function.restype, function.argtypes = result, arguments
    return c


def disable_xla() -> None:
    """Switches XLA off for the whole process, as in the real server without its XLA flag; TensorFlow then refuses `_xla` signatures."""
    _waiting()._ZN10tensorflow21DisableXlaCompilationEv()


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
        self._graph = c.TF_NewGraph()
        self._session: Any = None
        options = c.TF_NewSessionOptions()
        status = _Status()
        tags = (ctypes.c_char_p * 1)(b"serve")
        session = _waiting().TF_LoadSessionFromSavedModel(
            _POINTER(options), None, str(folder).encode(), tags, 1, _POINTER(self._graph), None, _POINTER(status.pointer)
        )
        c.TF_DeleteSessionOptions(options)
        try:
            status.check()
        except ServingFault:
            _waiting().TF_DeleteGraph(_POINTER(self._graph))
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
        status, c = _Status(), _waiting()
        c.TF_CloseSession(_POINTER(session), _POINTER(status.pointer))
        c.TF_DeleteSession(_POINTER(session), _POINTER(status.pointer))
        c.TF_DeleteGraph(_POINTER(self._graph))

    def run(self, feeds: Mapping[str, Array], fetches: Sequence[str]) -> list[Array]:
        """Runs once.

        Args:
            feeds: tensor name -> array; strings as arrays of `bytes` objects.
            fetches: tensor names.

        Returns:
            An array a fetch, strings as arrays of `bytes` objects; the others cannot be written to.

        Raises:
            ServingFault: TensorFlow refuses, with its own words.
        """
        inputs = (_Output * len(feeds))(*[self._output(name) for name in feeds])
        outputs = (_Output * len(fetches))(*[self._output(name) for name in fetches])
        given: list[Any] = []
        results = (_POINTER * len(fetches))()
        status = _Status()
        try:
            for value in feeds.values():
                given.append(self._tensor(value))
            tensors = (_POINTER * len(given))(*given)
            _waiting().TF_SessionRun(
                _POINTER(self._session), None, inputs, tensors, len(given), outputs, results, len(fetches), None, 0, None,
                _POINTER(status.pointer),
            )  # fmt: skip
            status.check()
            return [self._array(result) for result in results]
        finally:
            for tensor in (*given, *(result for result in results if result)):
                self._c.TF_DeleteTensor(tensor)

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
        tensor = self._c.TF_AllocateTensor(number, dims, value.ndim, value.nbytes)
        if value.nbytes:
            _memory(self._c.TF_TensorData(tensor), value.shape, value.dtype)[...] = value
        return tensor

    def _strings(self, value: Array, dims: Any) -> Any:
        tensor = self._c.TF_AllocateTensor(_STRING, dims, value.ndim, value.size * _TSTRING_BYTES)
        data = self._c.TF_TensorData(tensor)
        if not value.size:
            return tensor
        # 24 zeros are an empty string (TF_StringInit); the copy takes memory of its own where a string is long.
        _memory(data, (value.size * _TSTRING_BYTES,), np.dtype(np.uint8))[...] = 0
        copy = self._c.TF_StringCopy
        places = range(data, data + value.size * _TSTRING_BYTES, _TSTRING_BYTES)
        for place, text in zip(places, value.ravel().tolist(), strict=True):
            copy(place, text, len(text))
        return tensor

    def _array(self, tensor: Any) -> Array:
        c = self._c
        shape = tuple(c.TF_Dim(tensor, axis) for axis in range(c.TF_NumDims(tensor)))
        number = c.TF_TensorType(tensor)
        size = math.prod(shape)
        if number == _STRING:
            return self._bytes(tensor, size).reshape(shape)
        kind = DTYPES.get(number)
        if kind is None:
            raise ServingFault(Code.UNIMPLEMENTED, f"tensors of TensorFlow's type {number} are not served")
        if not size:
            return np.empty(shape, kind)
        return np.frombuffer(ctypes.string_at(c.TF_TensorData(tensor), size * np.dtype(kind).itemsize), kind).reshape(shape)

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
                place = data + begin
                texts[index] = ctypes.string_at(c.TF_StringGetDataPointer(place), c.TF_StringGetSize(place))
        return texts


def _memory(address: int, shape: tuple[int, ...], dtype: Any) -> Array:
    """Foreign memory as an array."""
    return np.ndarray(shape, dtype, (ctypes.c_char * (math.prod(shape) * dtype.itemsize)).from_address(address))


class _Status:
    """TF_Status, freed with this object."""

    def __init__(self) -> None:
        self._c = _library()
        self.pointer = self._c.TF_NewStatus()

    def __del__(self) -> None:
        self._c.TF_DeleteStatus(self.pointer)

    def check(self) -> None:
        """Raises what it holds."""
        number = self._c.TF_GetCode(self.pointer)
        if number:
            message = self._c.TF_Message(self.pointer).decode("utf-8", "replace")
            raise ServingFault(BY_NUMBER.get(number, Code.UNKNOWN), message)
