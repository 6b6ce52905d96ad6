from __future__ import annotations

from tests.router.telemetry.doctor.ward import Ward


def test_what_the_configuration_asks_for_in_vain_is_told() -> None:
    ward = Ward()
    ward.config.warnings = ("plugin 'x' is not used",)
    finding = ward.only()
    assert (finding.code, finding.what) == ("config-warning", "plugin 'x' is not used")
    assert "warmroute check" in finding.fix


def test_a_file_that_cannot_run_is_told() -> None:
    ward = Ward()
    ward.config.error, ward.config.failures = "unknown plugin", 2
    finding = ward.only()
    assert (finding.code, finding.evidence["failures"]) == ("config-not-in-force", 2)
