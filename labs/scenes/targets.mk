.PHONY: scene

scene: setup-loadtest ##2 Pause or kill the holder, phase by phase (ARGS=pause)
	@$(RUN) -m loadtest scene $(ARGS)
