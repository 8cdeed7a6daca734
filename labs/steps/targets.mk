.PHONY: schedules mistakes

schedules: setup-loadtest ##2 Try every order of two purchases (ARGS="--guard etcd")
	@$(RUN) -m loadtest schedules $(ARGS)

mistakes: setup-loadtest ##2 Condemn the famous wrong locks, and clear them mended
	@$(RUN) -m loadtest mistakes $(ARGS)
