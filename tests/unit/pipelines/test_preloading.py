import json
import subprocess
import sys

PROGRAM = """
import gc, json, sys
import pipelines.{module}
hidden = "torch" not in sys.modules
import torch
print(json.dumps([hidden, float(torch.ones(2).sum()), gc.isenabled(), gc.get_freeze_count() > 100_000, "torch._dynamo" in sys.modules]))
"""


def loaded(module, log):
    program = PROGRAM.format(module=module)
    environment = {"TANDEM_PRELOAD_LOG": str(log), "PATH": "/usr/bin:/bin"}
    # Output goes to the log once the preload has begun: the answer is its last line.
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, log.read_text()[-2000:]
    assert done.stdout == ""
    return json.loads(log.read_text().splitlines()[-1])


def test_a_cached_run_loads_no_torch_and_can_still_import_it(tmp_path):
    assert loaded("preload_cached", tmp_path / "log") == [True, 2.0, True, True, False]


def test_an_executing_run_loads_everything(tmp_path):
    assert loaded("preload", tmp_path / "log") == [False, 2.0, True, True, True]
