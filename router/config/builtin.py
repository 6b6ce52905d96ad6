"""The configurations that run when none is given."""

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
        weight: 2
      - pluginRef: kv-cache-utilization-scorer
        weight: 2
      - pluginRef: active-request-scorer
        weight: 2
      - pluginRef: max-score-picker
"""

BUILTIN_PD = """\
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
  - type: disagg-profile-handler
    parameters:
      deciders:
        prefill: prefix-based-pd-decider
  - type: prefix-based-pd-decider
    parameters:
      nonCachedTokens: 32
      prefixMatchInfoProducerName: precise-prefix-cache-producer
  - type: prefill-filter
  - type: decode-filter
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
  - name: prefill
    plugins:
      - pluginRef: prefill-filter
      - pluginRef: prefix-cache-scorer
        weight: 3
      - pluginRef: queue-scorer
        weight: 2
      - pluginRef: active-request-scorer
        weight: 2
      - pluginRef: max-score-picker
  - name: decode
    plugins:
      - pluginRef: decode-filter
      - pluginRef: prefix-cache-scorer
        weight: 3
      - pluginRef: queue-scorer
        weight: 2
      - pluginRef: kv-cache-utilization-scorer
        weight: 2
      - pluginRef: active-request-scorer
        weight: 2
      - pluginRef: max-score-picker
"""
"""What `warmroute up --pd` runs: prompts of which a decode engine lacks 32 tokens or more are
prefilled elsewhere. That is little, so that short examples show it."""
