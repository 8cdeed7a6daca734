.PHONY: schedules

schedules: setup-loadtest ##2 Try every order of two purchases (ARGS="--guard etcd")
	@$(RUN) -m loadtest schedules $(ARGS)
