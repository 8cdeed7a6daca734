"""The shop: a flash sale whose purchases can be made under any of several guards."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask

    from app.config.settings import Settings


def create_app(settings: Settings | None = None) -> Flask:
    """The shop as a WSGI application; connects to etcd and Redis when they are first needed.

    Args:
        settings: those of the environment if None.

    Raises:
        SettingsError: the environment cannot be used.
    """
    # Imported here, because gunicorn's master reads app.settings: it must not load gRPC before it forks, nor Prometheus
    # before its directory is set.
    from flask import Flask

    from app import services
    from app.telemetry import metrics
    from app.web import error_handlers as errors
    from app.web import health
    from app.web import routes as shop

    app = Flask("app", static_folder=None)
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False  # or OPTIONS would be the one answer without the instance's name
    errors.init_app(app)
    made = services.init_app(app, settings)
    shop.init_app(app, made.shop)
    health.init_app(app, made.health)
    metrics.init_app(app, made.metrics)
    return app
