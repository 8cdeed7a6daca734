.PHONY: bench bench-lock

bench: setup-loadtest ##2 Measure the guards; ARGS="--part rush --rounds 3" is short
	@$(RUN) -m loadtest bench $(ARGS)

bench-lock: setup-loadtest ##2 Measure the locks: ours, Go's, etcd's lock RPC, redis-py's
	@$(RUN) -m loadtest bench-lock $(ARGS)
