"""This process's sessions with etcd."""
