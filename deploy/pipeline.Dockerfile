# The Spark jobs, with Java: docker build -f deploy/pipeline.Dockerfile -t dafka-pipeline .
# At its first start a job takes Spark's Kafka connector and Delta from Maven, and keeps them in /archive beside what it
# archives; without a network give them in a folder (docs/pipelines.md, "Without a network"). Debian's default Java is one
# that Spark runs on: 17 in Debian 12, 21 in Debian 13.
ARG BASE=python:3.11-slim
FROM ${BASE}
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends default-jre-headless python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY wireproto wireproto
COPY mesh mesh
COPY gateway gateway
COPY dafka dafka
COPY dafka_pipeline dafka_pipeline
RUN python3 -m venv /opt/dafka \
 && /opt/dafka/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt '.[spark]' \
 && mkdir /archive && chown 10001:10001 /archive
# Spark asks who it is: a user without a name has none.
RUN useradd --uid 10001 --user-group --home-dir /archive --no-create-home dafka
ENV PATH=/opt/dafka/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/archive
USER 10001:10001
VOLUME /archive
WORKDIR /archive
STOPSIGNAL SIGTERM
ENTRYPOINT ["dafka-pipeline"]
