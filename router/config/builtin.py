"""The configuration that runs when none is given."""

from __future__ import annotations

BUILTIN = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - type: token-producer
    parameters:
      sidecar: {}
  - type: precise-prefix-cache-producer
    parameters:
      speculativeIndexing: true
  - type: inflight-load-producer
  - type: endpoint-notification-source
  - type: prefix-cache-scorer
    parameters:
      prefixMatchInfoProducerName: precise-prefix-cache-producer
  - type: queue-scorer
  - type: kv-cache-utilization-scorer
  - type: active-request-scorer
  - type: max-score-picker
dataLayer:
  sources:
    - pluginRef: endpoint-notification-source
      extractors:
        - pluginRef: precise-prefix-cache-producer
schedulingProfiles:
  - name: default
    plugins:
      - pluginRef: prefix-cache-scorer
        weight: 3
      - pluginRef: queue-scorer
        weight: 1
      - pluginRef: kv-cache-utilization-scorer
        weight: 2
      - pluginRef: active-request-scorer
        weight: 2
      - pluginRef: max-score-picker
"""
