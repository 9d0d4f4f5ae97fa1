import pytest

from components.core.contracts import TransformedFeature
from components.core.errors import TrainingError
from trainers.model_spec import read_model_spec


def graph(folder, parsing, domains=None):
    """A transform graph's metadata, as tf.Transform writes it."""
    from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io, schema_utils

    schema = schema_utils.schema_from_feature_spec(parsing, domains)
    metadata_io.write_metadata(dataset_metadata.DatasetMetadata(schema), str(folder / "transformed_metadata"))
    return str(folder)


def fixed(dtype, shape=()):
    import tensorflow as tf

    return tf.io.FixedLenFeature(shape, tf.dtypes.as_dtype(dtype))


def ids(largest, smallest=0):
    from tensorflow_metadata.proto.v0 import schema_pb2

    return schema_pb2.IntDomain(min=smallest, max=largest, is_categorical=True)


def read(folder):
    return read_model_spec(folder, label="y", classes=("no", "yes"))


def test_spec_of_a_real_transform(transformed):
    spec = read(str(transformed / "graph"))
    # three words and one bucket for unseen ones
    assert spec.features == (
        TransformedFeature(name="word", dtype="int64", vocabulary_size=4),
        TransformedFeature(name="x", dtype="float32"),
        TransformedFeature(name="x_missing", dtype="float32"),
    )
    assert spec.classes == ("no", "yes")


def test_shapes_are_kept(tmp_path):
    folder = graph(tmp_path, {"y": fixed("int64"), "image": fixed("float32", (8, 8)), "words": fixed("int64", (5,))}, {"words": ids(9)})
    assert [(feature.name, feature.shape, feature.vocabulary_size) for feature in read(folder).features] == [
        ("image", (8, 8), None),
        ("words", (5,), 10),
    ]


@pytest.mark.parametrize(
    ("parsing", "domains", "words"),
    [
        (lambda: {"x": fixed("float32")}, {}, ("no label 'y'", "['x']", "preprocessing_fn")),
        (lambda: {"y": fixed("int64")}, {}, ("no features beside the label",)),
        (lambda: {"y": fixed("int64"), "id": fixed("int64")}, {}, ("'id' has no domain", "apply_vocabulary")),
        (lambda: {"y": fixed("int64"), "id": fixed("int64")}, {"id": (3, -1)}, ("'id' can be -1", "num_oov_buckets")),
        (lambda: {"y": fixed("int64"), "s": fixed("string")}, {}, ("'s' is string", "float32 and int64")),
        (
            lambda: {"y": fixed("int64"), "s": __import__("tensorflow").io.VarLenFeature("float32")},
            {},
            ("'s' is VarLenFeature", "to_dense"),
        ),
    ],
)
def test_what_models_cannot_take_is_refused(tmp_path, parsing, domains, words):
    folder = graph(tmp_path, parsing(), {name: ids(*domain) for name, domain in domains.items()})
    with pytest.raises(TrainingError) as caught:
        read(folder)
    assert all(word in str(caught.value) for word in words), caught.value
