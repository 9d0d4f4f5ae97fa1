"""One line for people from any exception that ends a stage."""

import errno

import pytest

from components.core.errors import DataError, TrainingError
from pipelines.node import explain

LOG = "/runs/1/logs/transform.log"


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    try:
        raise error from cause
    except type(error) as caught:
        return caught


def test_our_own_words_are_kept_with_the_stage_before_them() -> None:
    assert explain(DataError("a.csv, line 3: bad"), "ingest", LOG) == "ingest: a.csv, line 3: bad"
    assert explain(TrainingError("keras-trainer: the loss is nan"), "keras-trainer", LOG) == "keras-trainer: the loss is nan"


def test_our_own_words_are_found_below_what_a_library_wrapped_around_them() -> None:
    error = raised(RuntimeError("While running DoFn: ..."), DataError("a.csv, line 3: bad"))
    assert explain(error, "transform", LOG) == "transform: a.csv, line 3: bad"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/d/x"),
        raised(RuntimeError("publish failed"), OSError(errno.ENOSPC, "No space left on device", "/d/x")),
        RuntimeError("ResourceExhaustedError: /d/x; No space left on device [while running 'Write']"),
    ],
)
def test_a_full_disk_is_told_as_such_whoever_met_it(error: Exception) -> None:
    message = explain(error, "transform", LOG)
    assert message.startswith("transform: no space left on the disk that holds ")
    assert message.endswith("free some and run again, finished stages are kept")
    assert "\n" not in message


def test_anything_else_is_its_type_its_first_line_and_where_the_rest_is() -> None:
    message = explain(ValueError("\nfirst\nsecond"), "transform", LOG)
    assert message == f"transform: ValueError: first; the whole story is in {LOG}"
    assert explain(KeyError(), "transform", LOG) == f"transform: KeyError: no message; the whole story is in {LOG}"
