# The images of docker-compose.yaml, a target each: kafka, airflow, worker-1, worker-2, spark, postgres, redis, store.
# Everything comes from one Debian image and from the registries: Debian's packages, PyPI by the hashes of requirements.txt,
# Maven Central by those of lab/install/jars.sha256, the store's source from Go's proxy by its checksum. Official images can take the place of the bases (KAFKA_BASE, AIRFLOW_BASE, SPARK_BASE, POSTGRES_BASE);
# none of them has been tried. A base of Kafka needs Java 17 or newer and bash, one of Airflow and of Spark besides
# /usr/bin/python3 of version 3.11, one of PostgreSQL its programs on the path.
#
# What fetches runs under `with-ca`, which trusts the certificates of the secret `ca` as well.
ARG KAFKA_BASE=java
ARG AIRFLOW_BASE=python
ARG SPARK_BASE=python
ARG POSTGRES_BASE=postgresql

FROM debian:bookworm-slim AS java
COPY lab/containers/bin/with-ca /usr/local/bin/
RUN --mount=type=secret,id=ca with-ca sh -c 'apt-get update -q && apt-get install -qy --no-install-recommends \
    ca-certificates openjdk-17-jre-headless && rm -rf /var/lib/apt/lists/*'

FROM java AS python
RUN --mount=type=secret,id=ca with-ca sh -c 'apt-get update -q && apt-get install -qy --no-install-recommends \
    procps python3 python3-venv && rm -rf /var/lib/apt/lists/*'

# Airflow, Spark and all that the product imports, in the order of how often it changes.
FROM python AS packages
WORKDIR /opt/switchback
COPY requirements-build.txt ./
RUN --mount=type=secret,id=ca python3 -m venv .venv && with-ca .venv/bin/pip install --quiet --no-cache-dir \
    --disable-pip-version-check --require-hashes -r requirements-build.txt
COPY requirements.txt ./
RUN --mount=type=secret,id=ca with-ca .venv/bin/uv --system-certs pip install --quiet --no-cache --python .venv/bin/python \
    --require-hashes --no-build-isolation -r requirements.txt
# Some packages carry templates that are no valid Python.
RUN .venv/bin/python -m compileall -q -j 0 .venv/lib > /dev/null || true
COPY lab/__init__.py lab/
COPY lab/install/__init__.py lab/install/jars.py lab/install/java_flags.py lab/install/short_spark_job.py lab/install/spark_warm_up.py lab/install/
RUN .venv/bin/python -m lab.install.spark_warm_up

FROM python AS jars
WORKDIR /opt/switchback
COPY --from=packages /opt/switchback/.venv/lib/python3.11/site-packages/pyspark/jars/ivy-*.jar /ivy.jar
COPY lab/__init__.py lab/
COPY lab/install/__init__.py lab/install/jars.py lab/install/jars.sha256 lab/install/ivy.xml lab/install/ivysettings.xml lab/install/
ENV XDG_CACHE_HOME=/opt
RUN --mount=type=secret,id=ca with-ca python3 -c \
    'from pathlib import Path; from lab.install.jars import ensure_jars; ensure_jars(Path("/ivy.jar"))' \
    && rm -rf /opt/switchback/ivy /opt/switchback/lab

# One user in all images, for they share volumes: a volume takes its first owner from the image.
FROM ${KAFKA_BASE} AS kafka
USER root
COPY lab/containers/bin/user-with-folders /usr/local/bin/
RUN user-with-folders lab/arguments lab/certificates lab/brokers/primary lab/brokers/standby lab/tmp
COPY --from=jars /opt/switchback/ /opt/switchback/
COPY lab/containers/log4j2.properties /opt/switchback/lab/containers/
COPY lab/containers/bin/ /usr/local/bin/
RUN chmod -R a+rX /usr/local/bin /opt/switchback/lab
USER 1000:1000

FROM ${AIRFLOW_BASE} AS airflow
USER root
COPY lab/containers/bin/user-with-folders /usr/local/bin/
RUN user-with-folders lab/arguments lab/postgres lab/redis lab/store clients machines/airflow-worker-1 \
    machines/airflow-worker-2 machines/spark-master machines/spark-worker-1 machines/spark-worker-2
COPY --from=packages /opt/switchback/.venv/ /opt/switchback/.venv/
COPY --from=jars /opt/switchback/ /opt/switchback/
ENV PATH=/opt/switchback/.venv/bin:$PATH XDG_CACHE_HOME=/opt PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/switchback
COPY spark/ spark/
COPY lab/ lab/
COPY plugins/ plugins/
COPY dags/ dags/
COPY lab/containers/bin/ /usr/local/bin/
# A checkout may be readable by its owner alone.
RUN chmod -R a+rX /usr/local/bin spark lab plugins dags
USER 1000:1000

# Two machines that run tasks, each as a user of its own.
FROM airflow AS worker-1
USER root
RUN rm -rf /var/lib/switchback && OWNER=1001 user-with-folders
USER 1001:1000

FROM airflow AS worker-2
USER root
RUN rm -rf /var/lib/switchback && OWNER=1002 user-with-folders
USER 1002:1000

FROM ${SPARK_BASE} AS spark
USER root
COPY lab/containers/bin/user-with-folders /usr/local/bin/
RUN user-with-folders lab
COPY --from=packages /opt/switchback/.venv/ /opt/switchback/.venv/
ENV PATH=/opt/switchback/.venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/switchback
COPY lab/containers/bin/ /usr/local/bin/
RUN chmod -R a+rX /usr/local/bin
USER 1000:1000

FROM debian:bookworm-slim AS postgresql
COPY lab/containers/bin/with-ca /usr/local/bin/
# Debian's package would make a cluster of its own.
RUN --mount=type=secret,id=ca with-ca sh -c 'apt-get update -q && apt-get install -qy --no-install-recommends \
    postgresql-common && echo "create_main_cluster = false" >> /etc/postgresql-common/createcluster.conf \
    && apt-get install -qy --no-install-recommends postgresql-15 && rm -rf /var/lib/apt/lists/*'

FROM ${POSTGRES_BASE} AS postgres
USER root
COPY lab/containers/bin/ /usr/local/bin/
RUN chmod -R a+rX /usr/local/bin && user-with-folders lab/postgres && mkdir -p /var/lib/postgresql/data && chown 1000:1000 /var/lib/postgresql/data
USER 1000:1000

FROM debian:bookworm-slim AS redis
COPY lab/containers/bin/with-ca /usr/local/bin/
RUN --mount=type=secret,id=ca with-ca sh -c 'apt-get update -q && apt-get install -qy --no-install-recommends \
    redis-server && rm -rf /var/lib/apt/lists/*'
COPY lab/containers/bin/ /usr/local/bin/
RUN chmod -R a+rX /usr/local/bin && user-with-folders lab/redis && chown 1000:1000 /var/lib/redis
USER 1000:1000

# The store is built from its source: PyPI has Go's compiler, Go's proxy the source, pinned by its checksum.
FROM python AS store-build
WORKDIR /build
COPY lab/containers/store/requirements.txt ./
RUN --mount=type=secret,id=ca python3 -m venv /venv && with-ca /venv/bin/pip install --quiet --no-cache-dir \
    --disable-pip-version-check --require-hashes -r requirements.txt
ARG SEAWEEDFS=v0.0.0-20261109003541-7506e5f91cd6
ARG SEAWEEDFS_SUM=h1:LOYZFToHq9F7pSR6lkPGfkM8RmHlVFrzndKdhmNZjrU=
ENV PATH=/venv/bin:$PATH GOTOOLCHAIN=local GOFLAGS=-mod=readonly GOMODCACHE=/build/modules CGO_ENABLED=0
RUN --mount=type=secret,id=ca with-ca go mod download -json "github.com/seaweedfs/seaweedfs@$SEAWEEDFS" > module.json \
    && grep -qF "\"$SEAWEEDFS_SUM\"" module.json && cp -R "modules/github.com/seaweedfs/seaweedfs@$SEAWEEDFS" source \
    && chmod -R u+w source
RUN --mount=type=secret,id=ca cd source && with-ca go build -trimpath -ldflags "-s -w" -o /build/weed ./weed \
    && rm -rf /root/.cache/go-build

FROM debian:bookworm-slim AS store
COPY --from=store-build /build/weed /usr/local/bin/
COPY lab/containers/bin/ /usr/local/bin/
RUN chmod -R a+rX /usr/local/bin && user-with-folders lab/store && mkdir /var/lib/store && chown 1000:1000 /var/lib/store
USER 1000:1000
