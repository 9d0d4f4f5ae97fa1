"""What Transform gives to a model, read from its output."""

from typing import Any

from components.core.contracts import ModelSpec, TransformedFeature
from components.core.errors import TrainingError

_DTYPES = ("float32", "int64")


def read_model_spec(transform_graph: str, *, label: str, classes: tuple[str, ...]) -> ModelSpec:
    """Reads the dense features of a transform graph, sorted by name, without the label.

    Args:
        transform_graph: folder of the TransformGraph artifact.
        label: name of the label among the transformed features.
        classes: class names in the order of the class index.

    Raises:
        TrainingError: there is no label, a feature is ragged or sparse, has another dtype than float32 and int64, or is an id
            without a domain from 0; the message says which `preprocessing_fn` output to change.
    """
    import tensorflow_transform as tft

    output = tft.TFTransformOutput(transform_graph)
    parsing = output.transformed_feature_spec()
    if label not in parsing:
        raise TrainingError(
            f"the transform graph {transform_graph} gives no label {label!r}, only {sorted(parsing)}; return it from preprocessing_fn"
        )
    domains = {feature.name: feature for feature in output.transformed_metadata.schema.feature}
    features = tuple(_feature(name, parsing[name], domains[name]) for name in sorted(parsing) if name != label)
    if not features:
        raise TrainingError(f"the transform graph {transform_graph} gives no features beside the label; return some from preprocessing_fn")
    return ModelSpec(features=features, classes=classes)


def _feature(name: str, parsing: Any, schema: Any) -> TransformedFeature:
    """One feature from its parsing specification and its entry in the transformed schema."""
    shape = getattr(parsing, "shape", None)
    if type(parsing).__name__ != "FixedLenFeature" or shape is None or any(size is None for size in shape):
        raise TrainingError(
            f"transformed feature {name!r} is {type(parsing).__name__}: models take dense features of a fixed shape; "
            "make it dense in preprocessing_fn (tf.sparse.to_dense with a default, then tf.ensure_shape)"
        )
    dtype = parsing.dtype.name
    if dtype not in _DTYPES:
        raise TrainingError(f"transformed feature {name!r} is {dtype}; allowed are {' and '.join(_DTYPES)}: cast it in preprocessing_fn")
    size = _vocabulary_size(name, schema) if dtype == "int64" else None
    return TransformedFeature(name=name, dtype=dtype, shape=tuple(map(int, shape)), vocabulary_size=size)


def _vocabulary_size(name: str, schema: Any) -> int:
    """One more than the largest id that the transformed schema allows."""
    if not schema.HasField("int_domain") or not schema.int_domain.is_categorical:
        raise TrainingError(
            f"transformed id feature {name!r} has no domain, so the size of its embedding is unknown; return the output of "
            "tft.compute_and_apply_vocabulary or tft.apply_vocabulary unchanged, or cast a count to float32"
        )
    domain = schema.int_domain
    if domain.min < 0:
        raise TrainingError(
            f"transformed id feature {name!r} can be {domain.min}: a negative id has no embedding row; "
            "give tft.compute_and_apply_vocabulary num_oov_buckets=1 or more"
        )
    return int(domain.max) + 1
