"""You are the scheduler: purchases that go on only when a person says so, through the real Redis and etcd."""
