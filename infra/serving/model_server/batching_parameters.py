"""TensorFlow Serving's batching_parameters_file, read strictly: its message is not in the published stubs."""

import dataclasses
import os
import re
from pathlib import Path

from components.core.errors import ConfigError

_ENTRY = re.compile(r"(\w+)\s*(?::\s*(\w+)|:?\s*\{\s*value\s*:\s*(\w+)\s*\})\s*[,;]?\s*")
_SIZES, _PADDING = "allowed_batch_sizes", "pad_variable_length_inputs"
_LARGEST = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class BatchingParameters:
    """How requests share a call; the defaults are those of the real server.

    Attributes:
        max_batch_size: rows of a call, and of a request.
        batch_timeout_micros: microseconds that a request waits for others.
        max_enqueued_batches: batches that may wait in a queue; more is refused.
        num_batch_threads: calls at once.
        allowed_batch_sizes: a call is filled up to one of these, ascending, the last `max_batch_size`; empty = any size.
        pad_variable_length_inputs: requests whose rows differ in shape share a call, the smaller ones padded at the end of each axis with
            the first value of their tensor; without it they are called apart.
    """

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int = len(os.sched_getaffinity(0))
    allowed_batch_sizes: tuple[int, ...] = ()
    pad_variable_length_inputs: bool = False


def read_parameters(path: Path) -> BatchingParameters:
    """Reads `name { value: N }`, `allowed_batch_sizes: N` repeated, `pad_variable_length_inputs: true`.

    Raises:
        ConfigError: it cannot be read, or holds a key or a value that is not served.
    """
    try:
        text = re.sub(r"#[^\n]*", "", path.read_text(encoding="utf-8")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from error
    values: dict[str, int | bool] = {}
    sizes: list[int] = []
    place = 0
    while place < len(text):
        entry = _ENTRY.match(text, place)
        if entry is None:
            raise ConfigError(f"{path}: {text[place : place + 60]!r} is no batching parameter; write e.g. `max_batch_size {{ value: 64 }}`")
        place = entry.end()
        name = entry[1]
        value = _value(path, name, entry[2] or entry[3], wrapped=entry[3] is not None)
        if name == _SIZES:
            sizes.append(value)
        elif name in values:
            raise ConfigError(f"{path}: {name} is given twice")
        else:
            values[name] = value
    made = BatchingParameters(**values, allowed_batch_sizes=tuple(sizes))  # type: ignore[arg-type]  # _value gives the type of each field
    _check(path, made)
    return made


def _value(path: Path, name: str, text: str, *, wrapped: bool) -> int:
    known = [field.name for field in dataclasses.fields(BatchingParameters)]
    if name not in known:
        raise ConfigError(f"{path}: {name} is no batching parameter of this server; allowed are {', '.join(known)}")
    if wrapped == (name in (_SIZES, _PADDING)):
        form = f"{name}: {text}" if wrapped else f"{name} {{ value: {text} }}"
        raise ConfigError(f"{path}: {name} is written in another form; write `{form}`")
    if name == _PADDING:
        if text not in ("true", "false"):
            raise ConfigError(f"{path}: {name} is {text}; allowed are true and false")
        return text == "true"
    if not text.isascii() or not text.isdigit() or int(text) > _LARGEST:
        raise ConfigError(f"{path}: {name} is {text}; allowed are whole numbers from 0 to {_LARGEST}")
    return int(text)


def _check(path: Path, made: BatchingParameters) -> None:
    if min(made.max_batch_size, made.max_enqueued_batches, made.num_batch_threads) < 1:
        raise ConfigError(f"{path}: max_batch_size, max_enqueued_batches and num_batch_threads are at least 1")
    sizes = made.allowed_batch_sizes
    if sizes and (sorted(set(sizes)) != list(sizes) or sizes[0] < 1 or sizes[-1] != made.max_batch_size):
        raise ConfigError(f"{path}: allowed_batch_sizes must ascend and end with max_batch_size ({made.max_batch_size})")
