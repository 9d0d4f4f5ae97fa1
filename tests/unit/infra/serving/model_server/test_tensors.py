"""TensorProto and NumPy, against TensorFlow's own conversion."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2

from infra.serving.model_server.faults import ServingFault
from infra.serving.model_server.tensors import fill_proto, to_array

LIMIT = 1000
KINDS = [np.float32, np.float64, np.int32, np.int64, np.uint8, np.int8, np.int16, np.uint16, np.uint32, np.uint64, np.bool_, np.float16]


def read(proto):
    return to_array("x", proto, max_elements=LIMIT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_content_and_typed_values_are_read_as_tensorflow_reads_them(kind, shape):
    value = (np.arange(int(np.prod(shape))) % 3).astype(kind).reshape(shape)
    content = tf.make_tensor_proto(value)
    np.testing.assert_array_equal(read(content), tf.make_ndarray(content))
    typed = tensor_pb2.TensorProto(dtype=content.dtype, tensor_shape=content.tensor_shape)
    field = {"float32": "float_val", "float64": "double_val", "int64": "int64_val", "bool": "bool_val", "uint32": "uint32_val",
             "uint64": "uint64_val", "float16": "half_val"}.get(np.dtype(kind).name, "int_val")  # fmt: skip
    flat = value.view(np.uint16) if kind is np.float16 else value
    getattr(typed, field).extend(flat.ravel().tolist())
    found = read(typed)
    assert found.dtype == np.dtype(kind)
    np.testing.assert_array_equal(found, value)


def test_too_few_values_repeat_the_last():
    proto = tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, float_val=[1.0, 2.0])
    proto.tensor_shape.dim.add(size=4)
    np.testing.assert_array_equal(read(proto), tf.make_ndarray(proto))
    strings = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[b"a"])
    strings.tensor_shape.dim.add(size=3)
    assert read(strings).tolist() == [b"a", b"a", b"a"]


def bad(**changes):
    dims = changes.pop("dims", [2])
    proto = tensor_pb2.TensorProto(**{"dtype": types_pb2.DT_FLOAT, **changes})
    for size in dims:
        proto.tensor_shape.dim.add(size=size)
    return proto


@pytest.mark.parametrize(
    ("proto", "words"),
    [
        (bad(dims=[-1]), "no shape"),
        (bad(dims=[2**40, 2**40]), "the limit of this server"),
        (bad(dims=[1001], float_val=[1.0]), "the limit of this server"),
        (bad(dims=[1] * 20), "no shape"),
        (bad(tensor_content=b"abc"), "3 bytes of content"),
        (bad(float_val=[1.0, 2.0, 3.0]), "3 values for 2 elements"),
        (bad(dtype=types_pb2.DT_STRING, string_val=[b"a", b"b", b"c"]), "3 values for 2 elements"),
        (bad(dtype=types_pb2.DT_VARIANT), "not served"),
        (bad(dtype=999), "not served"),
    ],
)
def test_what_is_no_tensor_is_refused(proto, words):
    with pytest.raises(ServingFault, match=words):
        read(proto)


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_read_back_by_tensorflow(kind):
    value = (np.arange(6) % 2).astype(kind).reshape(2, 3)
    proto = tensor_pb2.TensorProto()
    fill_proto(proto, value)
    found = tf.make_ndarray(proto)
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found, value)


def test_every_bit_of_a_number_is_kept():
    """A signalling NaN, a NaN with a payload, -0 and a denormal number."""
    bits = np.array([0x7F800001, 0xFFC00123, 0x80000000, 1], np.uint32)
    proto = tensor_pb2.TensorProto()
    fill_proto(proto, bits.view(np.float32))
    assert len(proto.float_val) == 4
    again = tensor_pb2.TensorProto.FromString(proto.SerializeToString()).SerializeToString()
    assert bits.tobytes() in again


def test_strings_keep_their_bytes():
    value = np.array([[b"", b"\x00\xff"], [b"ab" * 40, "é".encode()]], object)
    proto = tensor_pb2.TensorProto()
    fill_proto(proto, value)
    assert tf.make_ndarray(proto).tolist() == value.tolist()
    assert read(proto).tolist() == value.tolist()
