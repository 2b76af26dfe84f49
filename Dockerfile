# docker build -t dafka-gateway . && docker run -p 9092:9092 -v dafka:/data dafka-gateway
#
# BASE may be any image with glibc and Python 3.11 or newer; nothing runs in the final stage, so it needs no shell. BUILD,
# if it is another one, has Python in the same place, and its venv module. All dependencies have wheels for both
# platforms: docker buildx build --platform linux/amd64,linux/arm64 .
ARG BASE=python:3.11-slim
ARG BUILD=${BASE}

FROM ${BUILD} AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY wireproto wireproto
COPY mesh mesh
COPY gateway gateway
COPY dafka dafka
# Only because the package has it: pipelines need Java and PySpark, which this image has not.
COPY dafka_pipeline dafka_pipeline
# pip stays behind, and what writes the SBOM: it names the packages beside Python's own, with versions and licences.
# The root of a container is read-only, so all bytecode is made here: that of the packages, which does not look at its
# sources again, and that of Python's own library where the base has none.
RUN touch /begun && mkdir -p /image/data /image/usr \
 && python3 -m venv /pip && python3 -m venv --without-pip /opt/dafka \
 && /pip/bin/pip --python /opt/dafka/bin/python3 install --no-cache-dir --no-compile --disable-pip-version-check \
      -c constraints.txt . \
 && /pip/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt cyclonedx-bom \
 && /pip/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
      -o /opt/dafka/sbom.cdx.json /opt/dafka/bin/python3 \
 && find /opt/dafka/lib -type d -name tests -prune -exec rm -r {} + \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/dafka/lib \
 && library=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))') \
 && { python3 -m compileall -q -x '/(test|tests|idlelib|lib2to3|tkinter|ensurepip|site-packages|dist-packages)/' \
      "$library" || true; } \
 && find "$library" -name '*.pyc' -newer /begun -exec cp --parents -t /image {} +

FROM ${BASE}
ARG VERSION=0.1.0.dev0
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="Dafka gateway" \
      org.opencontainers.image.description="Kafka clients and Spark on a Dafka mesh" \
      org.opencontainers.image.licenses="MPL-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
COPY --from=build /opt/dafka /opt/dafka
# /data, its owner's alone, and what bytecode the base lacks.
COPY --from=build --chown=10001:10001 /image/data /data
COPY --from=build /image/usr /usr
ENV PATH=/opt/dafka/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/data \
    DAFKA_DATA=/data \
    DAFKA_METRICS=0.0.0.0:9404
# By number, so that Kubernetes can see that it is not root.
USER 10001:10001
VOLUME /data
EXPOSE 9092 9404
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["dafka", "health"]
# Exec form: SIGTERM reaches the server itself, which answers what is in flight and ends with 0.
ENTRYPOINT ["dafka"]
# 127.0.0.1 is what a client on this machine reaches through `-p 9092:9092`; other clients need their own listener,
# see deploy/compose.yaml.
CMD ["standalone", "--listen", "0.0.0.0:9092@127.0.0.1:9092"]
