"""The command ``python -m lock`` (``etcd-lock`` where the package is installed): one module per subcommand."""
