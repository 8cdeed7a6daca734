"""This process's sessions with etcd, and holding a lock around a purchase."""
