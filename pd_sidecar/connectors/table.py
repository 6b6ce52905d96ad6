"""Every connector by its name on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pd_sidecar.config import Config
from pd_sidecar.connectors.nixlv2 import NixlV2
from pd_sidecar.connectors.sglang import SGLang
from pd_sidecar.connectors.shared_storage import SharedStorage
from pd_sidecar.connectors.types import Connector, Engines

CONNECTORS: Mapping[str, Callable[[Engines, Config], Connector]] = {
    "nixlv2": lambda engines, config: NixlV2(engines),
    "shared-storage": lambda engines, config: SharedStorage(engines),
    "sglang": lambda engines, config: SGLang(engines, config.bootstrap_port),
}
