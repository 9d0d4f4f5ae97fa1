"""Takes work out of Beam that an in-process run pays for nothing; only children of the local runner load this.

Beam is made for workers on other machines: it compresses every pickle with bzip2, looks through all loaded modules for what a function
needs there, weighs what it caches object by object, parses its command line anew for each look at an option, and inspects the same
functions at each step. On a small pipeline this is half of the time of a stage. These functions are replaced; results stay the same
(tests/unit/pipelines/test_beam_tuning.py), and a run whose workers are other processes never comes here.
"""

import sys
import types
import weakref
from typing import Any

from apache_beam.internal import cloudpickle_pickler
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.worker import statecache
from apache_beam.transforms import core, ptransform
from apache_beam.typehints import decorators


def tune() -> None:
    """Replaces the functions for the life of this process."""
    cloudpickle_pickler.bz2 = _Stored  # the module's own name for its compressor
    # Who unpickles has the modules loaded: it is this process.
    cloudpickle._find_imported_submodules = lambda code, top_level_dependencies: []
    # The cache of side inputs is bounded by weight, to protect a worker's memory; here their source is in the same memory anyway.
    statecache.get_deep_size = lambda *objects: sum(map(sys.getsizeof, objects))
    _remember_views()
    _remember_signatures()


class _Stored:
    """Stands for the module bz2: pickles that never leave the process stay as they are."""

    @staticmethod
    def compress(data: bytes, compresslevel: int = 9) -> bytes:
        """Returns `data`."""
        del compresslevel
        return data

    @staticmethod
    def decompress(data: bytes) -> bytes:
        """Returns `data`."""
        return data


def _remember_views() -> None:
    """`options.view_as(cls)` parses once: all views of an options object share its values, so one of each class is enough."""
    views: weakref.WeakKeyDictionary[Any, dict[type, Any]] = weakref.WeakKeyDictionary()
    make = PipelineOptions.view_as

    def view_as(self: Any, cls: type) -> Any:
        known = views.setdefault(self, {})
        view = known.get(cls)
        if view is None or view._all_options is not self._all_options:
            view = known[cls] = make(self, cls)
        return view

    PipelineOptions.view_as = view_as


def _remember_signatures() -> None:
    """The signature of a function is inspected once; bound methods of one function share one without `self`."""
    signatures: weakref.WeakKeyDictionary[Any, dict[bool, Any]] = weakref.WeakKeyDictionary()
    inspect_signature = decorators.get_signature

    def get_signature(func: Any) -> Any:
        bound = isinstance(func, types.MethodType)
        function = func.__func__ if bound else func
        if not isinstance(function, types.FunctionType):
            return inspect_signature(func)
        known = signatures.setdefault(function, {})
        if bound not in known:
            known[bound] = inspect_signature(func)
        return known[bound]

    for module in (decorators, core, ptransform):
        module.get_signature = get_signature
