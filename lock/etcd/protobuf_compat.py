"""Let etcd3 0.12 run on current protobuf.

etcd3's generated modules (``kv_pb2``, ``auth_pb2``, ``rpc_pb2``) predate protobuf 4, which refuses to import them. The
schema they carry is sound, so it is read out of them as data and handed to the installed protobuf's own builder; the
modules built that way take the generated ones' place before anything imports them. No generated code is executed.

The descriptors have their own pool: the files are named ``kv.proto`` and ``rpc.proto``, and another package in the same
process may bring a different file under such a common name.
"""

import ast
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

from google.protobuf import descriptor_pool
from google.protobuf.internal import builder

_PACKAGE = "etcd3.etcdrpc"
_MODULES = ("kv_pb2", "auth_pb2", "rpc_pb2")  # in the order of their imports
_SCHEMA = re.compile(r"serialized_pb=_b\(('(?:[^'\\]|\\.)*')\)")


def install() -> None:
    """Register the bridged modules, once; ImportError without etcd3, or if its generated modules look different."""
    pool = descriptor_pool.DescriptorPool()
    for name in _MODULES:
        qualified = f"{_PACKAGE}.{name}"
        if qualified not in sys.modules:
            sys.modules[qualified] = _build(pool, qualified, _serialized_schema(name))


def _build(pool: descriptor_pool.DescriptorPool, qualified: str, schema: bytes) -> ModuleType:
    module = ModuleType(qualified)
    descriptor = pool.AddSerializedFile(schema) or pool.FindFileByName(qualified.rpartition(".")[2])
    module.DESCRIPTOR = descriptor  # type: ignore[attr-defined]
    builder.BuildMessageAndEnumDescriptors(descriptor, vars(module))
    builder.BuildTopDescriptorsAndMessages(descriptor, qualified, vars(module))
    return module


def _serialized_schema(name: str) -> bytes:
    """The ``serialized_pb`` literal of one generated module, found in its source text: parsing all of it takes long."""
    found = _SCHEMA.search(_source(name))
    if found is None:
        raise ImportError(f"{_PACKAGE}.{name} carries no serialized schema: this bridge is written for etcd3 0.12")
    return bytes(ast.literal_eval(found[1]).encode("latin-1"))


def _source(name: str) -> str:
    spec = importlib.util.find_spec("etcd3")  # finds the package without importing it
    if spec is None or not spec.origin:
        raise ImportError("etcd3 is not installed: pip install etcd3==0.12.0")
    return (Path(spec.origin).parent / "etcdrpc" / f"{name}.py").read_text(encoding="utf-8")
