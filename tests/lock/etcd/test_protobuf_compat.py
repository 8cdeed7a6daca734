"""The bridge: etcd3's client runs on current protobuf, without running generated code or disturbing other packages."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from loadtest.stack.servers import Etcd
from lock.etcd import protobuf_compat
from tests.support.lock import ROOT
from tests.support.waiting import Patch, assert_raises


def output(code: str) -> str:
    """What `code` prints in a fresh interpreter; it has to succeed."""
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
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


def test_without_etcd3_0_12_the_error_says_what_is_missing(monkeypatch: Patch) -> None:
    """ImportError: which package to install, or that the one that is there looks different."""
    monkeypatch.delitem(sys.modules, "etcd3.etcdrpc.kv_pb2")
    with monkeypatch.context() as patched:
        patched.setattr(importlib.util, "find_spec", lambda name: None)
        assert_raises(ImportError, protobuf_compat.install, match="pip install etcd3==0.12.0")
    monkeypatch.setattr(protobuf_compat, "_source", lambda name: "DESCRIPTOR = None")
    assert_raises(ImportError, protobuf_compat.install, match="kv_pb2 carries no serialized schema")
