# docker build -t dafka-gateway . && docker run -p 9092:9092 -v dafka:/data dafka-gateway
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY wireproto wireproto
COPY mesh mesh
COPY gateway gateway
COPY dafka dafka
# Only because the package has it: pipelines need Java and PySpark, which this image has not.
COPY dafka_pipeline dafka_pipeline
RUN python -m venv /opt/dafka \
 && /opt/dafka/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt .

FROM python:3.11-slim
COPY --from=build /opt/dafka /opt/dafka
RUN useradd --system --uid 10001 --home-dir /data dafka && mkdir /data && chown dafka /data
ENV PATH=/opt/dafka/bin:$PATH
USER dafka
VOLUME /data
EXPOSE 9092 9404
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD \
  ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9404/health', timeout=2)"]
# Exec form: SIGTERM reaches the server itself, which answers what is in flight and ends with 0.
ENTRYPOINT ["dafka"]
# 127.0.0.1 is what a client on this machine reaches through `-p 9092:9092`; other clients need their own listener,
# see deploy/compose.yaml.
CMD ["standalone", "--listen", "0.0.0.0:9092@127.0.0.1:9092", "--data", "/data", "--metrics", "0.0.0.0:9404"]
