"""The bridge: etcd3's client runs on current protobuf, without running generated code or disturbing other packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from loadtest.stack.servers import Etcd

ROOT = Path(__file__).parents[3]


def run(code: str, *, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter that finds packages in `path` first."""
    setup = f"import sys; sys.path[:0] = [{str(path)!r}, {str(ROOT)!r}]\n"
    return subprocess.run([sys.executable, "-c", setup + code], capture_output=True, text=True, timeout=60, check=False)


def output(code: str) -> str:
    """What `code` prints; it has to succeed."""
    result = run(code)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_etcd3s_own_client_works_beside_ours_on_the_fast_runtime(etcd: Etcd) -> None:
    """After `import lock` it works on installed protobuf, in C (upb), with the bytes of etcd's API; twice is once."""
    host, port = etcd.endpoint.split(":")
    code = f"""
import lock, etcd3, sys
from google.protobuf.internal import api_implementation
from lock.etcd import protobuf_compat
from lock.etcd.transport import rpc
client = etcd3.client({host!r}, {port})
lease = client.lease(60)
client.put("bridge/a", "one", lease)
print(client.get("bridge/a")[0].decode(), lease.remaining_ttl > 0)
lease.revoke()
print(client.get("bridge/a")[0])
print(api_implementation.Type())
print(rpc.PutRequest(key=b"k", value=b"v", lease=5).SerializeToString().hex())
before = sys.modules["etcd3.etcdrpc.rpc_pb2"]
protobuf_compat.install()
print(sys.modules["etcd3.etcdrpc.rpc_pb2"] is before)
"""
    assert output(code).split("\n") == ["one True", "None", "upb", (b"\n\x01k\x12\x01v\x18\x05").hex(), "True"]


def test_another_kv_proto_in_the_same_process_is_no_conflict() -> None:
    """Other packages bring a kv.proto and an rpc.proto too, in protobuf's default pool."""
    code = """
from google.protobuf import descriptor_pb2, descriptor_pool
for name in ("kv.proto", "rpc.proto", "auth.proto"):
    file = descriptor_pb2.FileDescriptorProto(name=name, package="mvccpb")
    file.message_type.add(name="KeyValue" if name == "kv.proto" else "Other" + name[:2])
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
import lock
print("fine")
"""
    assert output(code) == "fine"


def test_without_etcd3_the_error_says_what_to_install() -> None:
    """ImportError names the package and its version."""
    code = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "etcd3" else find(name, *rest)
import lock
"""
    result = run(code)
    assert result.returncode == 1
    assert "ImportError: etcd3 is not installed: pip install etcd3==0.12.0" in result.stderr


@pytest.mark.parametrize("source", ["DESCRIPTOR = None", "pool.AddSerializedFile(b'...')"])
def test_another_release_of_etcd3_is_refused_clearly(tmp_path: Path, source: str) -> None:
    """Generated code that looks different gives an ImportError that says so."""
    package = tmp_path / "etcd3" / "etcdrpc"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    for name in ("kv_pb2", "auth_pb2", "rpc_pb2"):
        (package / f"{name}.py").write_text(source)
    result = run("import lock", path=tmp_path)
    assert result.returncode == 1
    assert "ImportError: etcd3.etcdrpc.kv_pb2 carries no serialized schema" in result.stderr
