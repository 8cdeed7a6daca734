.PHONY: libraries

libraries: setup-loadtest ##2 Try the locks of many libraries; ARGS="--only redis-py --only kazoo"
	@$(RUN) -m loadtest libraries $(ARGS)
