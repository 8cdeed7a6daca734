"""The locustfile runs where only Locust's image is: the rush, and of the shop the rules that both share."""

from __future__ import annotations

import subprocess
import sys

from tests.support.rushing import REPOSITORY

# What the image has not, and what is loaded only when it is needed.
IMPORTING = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, *_):
        top, _, rest = name.partition(".")
        is_shop = top == "app" and rest.split(".")[0] not in ("", "contract")
        if is_shop or top in ("lock", "labs", "grpc", "etcd3", "google", "vl_convert"):
            raise ImportError(f"{name} is not in the image")

sys.meta_path.insert(0, Missing())
import loadtest.locustfile
print(*sorted({".".join(name.split(".")[:2]) for name in sys.modules if name.split(".")[0] in ("app", "loadtest")}))
"""


def test_the_locustfile_needs_the_contract_alone() -> None:
    """It can be imported without lock, gRPC, labs and the rest of the shop, and starts neither servers nor drawings."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert "app.contract" in loaded
    assert not {"loadtest.stack", "loadtest.report", "loadtest.cli"} & {*loaded}
