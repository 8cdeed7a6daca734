.PHONY: schedules mistakes recorded

schedules: setup-loadtest ##2 Try every order of two purchases (ARGS="--guard etcd")
	@$(RUN) -m loadtest schedules $(ARGS)

mistakes: setup-loadtest ##2 Condemn the famous wrong locks, and clear them mended
	@$(RUN) -m loadtest mistakes $(ARGS)

recorded: setup-loadtest ##3 Record anew the schedules that came with the repository
	@for folder in $(wildcard labs/*/recorded); do \
	$(RUN) -m loadtest schedules $$(ls $$folder | sed "s/schedules-\(.*\).json/--guard=\1/") --record $$folder || exit; done
