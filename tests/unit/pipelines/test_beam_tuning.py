"""A tuned process and an untouched one run the same Beam pipelines and must agree; each is a process of its own, since tuning stays."""

import json
import subprocess
import sys
import textwrap

import pytest

PROGRAM = textwrap.dedent("""
    import bz2, base64, inspect, json, sys
    import apache_beam as beam
    from apache_beam.internal import cloudpickle_pickler
    from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions, TypeOptions
    from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, is_stateful_dofn
    from apache_beam.coders import VarIntCoder
    from apache_beam.typehints.decorators import get_signature

    if sys.argv[1] == "tuned":
        from pipelines.beam_tuning import tune
        tune()

    class Count(beam.DoFn):
        STATE = ReadModifyWriteStateSpec("seen", VarIntCoder())

        def process(self, element, seen=beam.DoFn.StateParam(STATE)):
            number = (seen.read() or 0) + 1
            seen.write(number)
            yield element[0], number

    class Pair:
        def __init__(self, factor): self.factor = factor
        def plain(self, value, side=1): return value * self.factor + side

    found = {}
    options = PipelineOptions(["--runner=FnApiRunner", "--sdk_container_image=none", "--no_pipeline_type_check"])
    output = []
    factor = 3
    with beam.Pipeline(options=options) as pipeline:
        numbers = pipeline | beam.Create(list(range(20)))
        total = beam.pvalue.AsSingleton(numbers | beam.CombineGlobally(sum))
        shares = numbers | beam.Map(lambda value, whole, times=factor: value * times / whole, total)
        keyed = numbers | beam.Map(lambda value: (value % 3, value))
        def keep(pairs, name):
            def write(pair):
                with open(sys.argv[2], "a") as file: file.write(json.dumps([name, pair]) + chr(10))
            return pairs | name >> beam.Map(write)
        keep(shares, "shares")
        keep(keyed | beam.GroupByKey() | beam.MapTuple(lambda key, values: [key, sorted(values)]), "groups")
        keep(keyed | beam.ParDo(Count()) | beam.CombinePerKey(max), "counts")
        keep(numbers | "method" >> beam.Map(Pair(2).plain, side=5), "methods")
        keep(numbers | "type" >> beam.Map(str) | beam.FlatMap(list) | beam.combiners.Count.PerElement(), "digits")
    found["stateful"] = [is_stateful_dofn(Count()), is_stateful_dofn(beam.transforms.core.CallableWrapperDoFn(len))]
    found["signatures"] = [str(get_signature(f)) for f in (Pair.plain, Pair(1).plain, Pair(2).plain, Pair, len, str.strip)]
    view = options.view_as(StandardOptions)
    view.streaming = True
    checks = options.view_as(TypeOptions).pipeline_type_check
    found["views"] = [options.view_as(StandardOptions).streaming, options.get_all_options()["streaming"], checks]
    found["other"] = PipelineOptions(["--streaming"]).view_as(StandardOptions).runner
    packed = cloudpickle_pickler.dumps({"a": factor})
    found["loaded"] = cloudpickle_pickler.loads(packed)
    print(json.dumps({"found": found, "compressed": base64.b64decode(packed).startswith(b"BZh")}))
""")


def run(mode, folder):
    written = folder / f"{mode}.jsonl"
    done = subprocess.run([sys.executable, "-c", PROGRAM, mode, str(written)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1]), sorted(written.read_text().splitlines())


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("beam")
    return {mode: run(mode, folder) for mode in ("plain", "tuned")}


def test_pipelines_give_the_same(both):
    (plain, plain_rows), (tuned, tuned_rows) = both["plain"], both["tuned"]
    assert len(tuned_rows) == 20 + 3 + 3 + 20 + 10
    assert tuned_rows == plain_rows
    assert tuned["found"] == plain["found"]
    assert tuned["found"]["stateful"] == [True, False]
    assert tuned["found"]["views"] == [True, True, False]


def test_the_compression_is_gone(both):
    """Otherwise the tuning no longer reaches this Beam, and runs pay for it again."""
    assert both["plain"][0]["compressed"] is True
    assert both["tuned"][0]["compressed"] is False
