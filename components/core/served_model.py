"""The served-model contract as names and rows: what the exporter, the compiler and a model server must agree on.

Both frameworks give the same SavedModel: `serving_default` takes serialized tf.Example, `serving_raw` one named tensor a raw feature;
both answer `scores` float32[N, C] and `classes` string[N, C].
"""

import inspect
import keyword
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from components.core.contracts import DataSpec, Feature
from components.core.errors import DataError, ExportError

SERVING_DEFAULT = "serving_default"
SERVING_RAW = "serving_raw"
XLA_SUFFIX = "_xla"
EXAMPLES = "examples"
SCORES = "scores"
CLASSES = "classes"
EXTRA_ASSETS = "assets.extra"
EDGE_ROWS_FILE = "edge_rows.tfrecord.gz"
WARMUP_FILE = "tf_serving_warmup_requests"
WARMUP_XLA_FILE = "tf_serving_warmup_requests_xla"

LARGEST_EXACT_INTEGER = 2**53
"""Integers travel as float64 in `serving_raw`: exact up to this size, refused beyond."""

_RAW_DTYPES = {"integer": "float64", "number": "float32", "category": "string"}
_EXAMPLE_DTYPES = {"integer": "int64", "number": "float32", "category": "string"}


def input_name(feature: str) -> str:
    """Input name of `serving_raw` for a raw feature.

    TensorFlow takes ASCII letters, digits and `_` in an input name, a letter first. Other ASCII characters become `_`, every other
    character `_u` and its code in hexadecimal (`比率` -> `f_u6bd4_u7387`); a name that would not begin with a letter gets an `f` in
    front; a Python keyword and `self` get a `_` behind.
    """
    name = "".join((character if character.isalnum() else "_") if character.isascii() else f"_u{ord(character):x}" for character in feature)
    if not name[:1].isalpha():
        name = "f" + name
    return name + "_" if keyword.iskeyword(name) or name == "self" else name


def input_names(features: Sequence[Feature]) -> dict[str, str]:
    """Feature name -> input name of `serving_raw`, in the order of `features`.

    Raises:
        ExportError: two features would get the same input name, which TensorFlow compares without case; rename one of them.
    """
    names: dict[str, str] = {}
    owners: dict[str, str] = {}
    for feature in features:
        name = input_name(feature.name)
        other = owners.setdefault(name.lower(), feature.name)
        if other != feature.name:
            raise ExportError(
                f"features {other!r} and {feature.name!r} would both be input {name!r} of {SERVING_RAW} (compared without case); "
                "rename one of them in the data and in pipeline.toml"
            )
        names[feature.name] = name
    return names


def raw_dtype(feature: Feature) -> str:
    """TensorFlow dtype name of a feature in `serving_raw`."""
    return _RAW_DTYPES[feature.kind]


def missing_value(feature: Feature) -> float | str:
    """What stands for a missing cell in `serving_raw`: NaN, or the empty string."""
    return "" if feature.kind == "category" else math.nan


def parse_spec(spec: DataSpec) -> dict[str, Any]:
    """Feature spec for tf.io.parse_example; every raw feature is sparse, the label is not among them."""
    import tensorflow as tf

    return {feature.name: tf.io.VarLenFeature(tf.as_dtype(_EXAMPLE_DTYPES[feature.kind])) for feature in spec.features}


def raw_inputs(spec: DataSpec, examples: Sequence[bytes]) -> dict[str, Any]:
    """Turns serialized tf.Example rows into the inputs of `serving_raw`.

    Args:
        spec: the features; each holds at most one value a row.
        examples: N rows.

    Returns:
        Input name -> tensor [N]; a missing value is NaN or the empty string.
    """
    import tensorflow as tf

    parsed = tf.io.parse_example(tf.constant(list(examples), tf.string), parse_spec(spec))
    names = input_names(spec.features)
    inputs = {}
    for feature in spec.features:
        sparse = parsed[feature.name]
        dtype = tf.as_dtype(raw_dtype(feature))
        values = sparse.values if dtype == tf.string else tf.cast(sparse.values, dtype)
        missing = tf.fill([len(examples)], tf.constant(missing_value(feature), dtype))
        inputs[names[feature.name]] = tf.tensor_scatter_nd_update(missing, sparse.indices[:, :1], values)
    return inputs


def raw_batches(spec: DataSpec, examples: Sequence[bytes]) -> Callable[[slice], dict[str, Any]]:
    """Like `raw_inputs` for many small batches of the same rows: they are parsed once, and a batch is cut from memory.

    Returns:
        Row range -> inputs of `serving_raw`.
    """
    import tensorflow as tf

    columns = {name: tensor.numpy() for name, tensor in raw_inputs(spec, examples).items()}
    return lambda rows: {name: tf.constant(column[rows]) for name, column in columns.items()}


def read_examples(source: Path | str) -> list[bytes]:
    """Reads serialized tf.Example rows of gzip TFRecord files: one file, or all of a split's folder in the order of their names.

    Raises:
        DataError: there is no row.
    """
    import tensorflow as tf

    source = Path(source)
    found = source.iterdir() if source.is_dir() else [source]
    files = sorted(str(path) for path in found if path.is_file() and not path.name.startswith("."))
    rows = [bytes(row) for row in tf.data.TFRecordDataset(files, compression_type="GZIP").as_numpy_iterator()] if files else []
    if not rows:
        raise DataError(f"{source} holds no row; the split needs at least one")
    return rows


def write_examples(path: Path | str, examples: Sequence[bytes]) -> None:
    """Writes serialized tf.Example rows as one gzip TFRecord file, whole or not at all."""
    import tensorflow as tf

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with tf.io.TFRecordWriter(str(temporary), tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
        for example in examples:
            writer.write(example)
    temporary.replace(path)


def named_function(body: Callable[[Mapping[str, Any]], Any], *, specs: Mapping[str, Any], defaults: Mapping[str, Any]) -> Any:
    """Makes a tf.function with one named argument an input, whose tensor defaults TensorFlow writes into the SignatureDef.

    Args:
        body: receives all inputs by name.
        specs: input name -> tf.TensorSpec.
        defaults: input name -> value of an input that may be left out.
    """
    import tensorflow as tf

    order = [*(name for name in specs if name not in defaults), *defaults]

    def raw(*args: Any, **kwargs: Any) -> Any:
        return body({**dict(zip(order, args, strict=False)), **kwargs})

    raw.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read by tf.function to name its inputs
        [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=defaults.get(name, inspect.Parameter.empty))
            for name in order
        ]
    )
    return tf.function(raw, input_signature=[specs[name] for name in order], autograph=False)


def answer(classes: Sequence[str], scores: Any) -> dict[str, Any]:
    """What every signature answers: `scores` [N, C] and `classes` [N, C], the class name of each score."""
    import tensorflow as tf

    return {SCORES: scores, CLASSES: tf.tile(tf.constant([list(classes)]), [tf.shape(scores)[0], 1])}
