"""etcd, Redis, instances, board and Locust as local processes, and the fault proxy."""
