"""The shop: a flash sale whose purchases can be made under any of several guards."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask

    from app.config.settings import Settings


def create_app(settings: Settings | None = None) -> Flask:
    """Create the shop as a WSGI application; it connects to etcd and Redis at their first use.

    Args:
        settings: those of the environment if None.

    Raises:
        SettingsError: the environment cannot be used.
    """
    # Imported here, because gunicorn's master reads app.config: it must not load gRPC before it forks, nor Prometheus
    # before its directory is set.
    from flask import Flask

    from app import services
    from app.telemetry import metrics
    from app.web import access, error_handlers, health, routes

    app = Flask("app", static_folder=None)
    error_handlers.init_app(app)
    made = services.init_app(app, settings)
    access.init_app(app, names=made.host_names, setting="FLASHSALE_NAMES")
    routes.init_app(app, made.shop)
    health.init_app(app, made.health)
    metrics.init_app(app, made.metrics)
    return app
