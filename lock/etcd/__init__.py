"""Calls and watches with deadlines; the only folder that knows gRPC and etcd3."""
