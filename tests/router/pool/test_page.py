from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from router.pool.page import Page
from router.pool.sources import DcgmSourceParameters, MetricsSourceParameters


@pytest.mark.parametrize(
    ("parameters", "url"),
    [
        (MetricsSourceParameters(), "http://10.0.0.1:8000/metrics"),
        (MetricsSourceParameters(path="/x", port=9), "http://10.0.0.1:9/x"),
        (MetricsSourceParameters(scheme="https"), "https://10.0.0.1:8000/metrics"),
        (DcgmSourceParameters(), "http://10.0.0.1:9400/metrics"),
    ],
)
def test_a_page_has_the_address_of_its_endpoint(
    parameters: MetricsSourceParameters, url: str
) -> None:
    assert str(Page(parameters).url("10.0.0.1:8000")) == url


def test_ipv6_addresses_stay_in_their_brackets() -> None:
    assert str(Page(DcgmSourceParameters()).url("[::1]:8000")) == "http://[::1]:9400/metrics"


def test_any_certificate_will_do_unless_it_is_checked() -> None:
    assert Page(MetricsSourceParameters(scheme="https")).context is False
    checked = Page(MetricsSourceParameters(scheme="https", insecure_skip_verify=False)).context
    assert isinstance(checked, ssl.SSLContext)
    assert checked.verify_mode is ssl.CERT_REQUIRED


def test_a_certificate_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    missing = str(tmp_path / "ca.crt")
    parameters = MetricsSourceParameters(
        scheme="https", insecure_skip_verify=False, ca_cert_path=missing
    )
    with pytest.raises(OSError, match="No such file"):
        Page(parameters)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"interval": "49ms"}, "at least 50ms"),
        ({"interval": "soon"}, "expected a duration"),
        ({"client_cert_path": "c"}, "go together"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(fields: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        MetricsSourceParameters(**fields)  # type: ignore[arg-type]
