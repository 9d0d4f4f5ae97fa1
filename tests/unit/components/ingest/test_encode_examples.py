"""The wire format against TensorFlow's own messages and parser."""

import numpy as np
import pyarrow as pa
import tensorflow as tf

from components.ingest.encode_examples import encode_batch
from components.ingest.parse_cells import Column


def column(values, dtype):
    coded = pa.array(values, dtype).dictionary_encode()
    return Column(coded.indices, coded.dictionary)


def test_examples_are_what_tensorflow_serializes():
    integers = [0, 1, 127, 128, 16383, 16384, -1, 2**53, -(2**53), 2**63 - 1, -(2**63), None, 300, 300]
    floats = [0.0, -0.0, 1.5, 1e-45, 3.4e38, -1.0, 0.1, None, 2.0, 3.0, 4.0, 5.0, 6.0, 1.5]
    texts = ["", "a", "漢字", "x" * 127, "x" * 128, "x" * 20000, "\0", None, "é", "b", "c", "d", "e", "a"]
    columns = {
        "integer": column(integers, pa.int64()),
        "名" * 50: column(floats, pa.float64()),
        "a": column(texts, pa.string()),
    }
    for row, serialized in enumerate(encode_batch(columns).to_pylist()):
        expected = tf.train.Example()
        if integers[row] is not None:
            expected.features.feature["integer"].int64_list.value.append(integers[row])
        if floats[row] is not None:
            expected.features.feature["名" * 50].float_list.value.append(floats[row])
        if texts[row] is not None:
            expected.features.feature["a"].bytes_list.value.append(texts[row].encode())
        assert tf.train.Example.FromString(serialized) == expected
        assert len(serialized) == expected.ByteSize()


def test_a_column_and_a_row_without_any_value():
    encoded = encode_batch(
        {"i": column([None, None], pa.int64()), "x": column([None, 2.0], pa.float64()), "c": column([None, None], pa.string())}
    )
    parsed = [tf.train.Example.FromString(serialized) for serialized in encoded.to_pylist()]
    assert [list(example.features.feature) for example in parsed] == [[], ["x"]]


def test_tensorflow_parses_a_batch():
    encoded = encode_batch({"i": column([5, None], pa.int64()), "c": column(["a", "b"], pa.string())})
    parsed = tf.io.parse_example(
        tf.constant(encoded.to_pylist()), {"i": tf.io.FixedLenFeature([], tf.int64, -1), "c": tf.io.FixedLenFeature([], tf.string)}
    )
    np.testing.assert_array_equal(parsed["i"], [5, -1])
    assert parsed["c"].numpy().tolist() == [b"a", b"b"]
