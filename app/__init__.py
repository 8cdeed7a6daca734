"""The shop: a flash sale whose purchases can be made under any of several guards."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask

    from app.config.settings import Settings


def create_app(settings: Settings | None = None) -> Flask:
    """Create the shop as a WSGI application; it connects to etcd and Redis at their first use.

    Args:
        settings: those of the environment if `None`.

    Raises:
        SettingsError: the environment cannot be used.
    """
    # Imported here, because gunicorn's master reads app.config: it must not load gRPC before it forks, nor Prometheus
    # before its directory is set.
    from flask import Flask

    from app.config.settings import Settings
    from app.contract import labs
    from app.services import Services
    from app.web import access, error_handlers
    from app.web.health import probes
    from app.web.routes import sale

    settings = settings or Settings.from_environment()
    app = Flask("app", static_folder=None)
    error_handlers.init_app(app)
    app.config["INSTANCE"] = settings.instance
    app.extensions["services"] = Services(settings)
    access.init_app(app, names=frozenset({*settings.names, settings.host}), setting="FLASHSALE_NAMES")
    app.register_blueprint(sale)
    app.register_blueprint(probes)
    for lab in labs.modules("shop"):
        lab.init_app(app)
    return app
