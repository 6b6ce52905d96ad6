from __future__ import annotations

from router.producers.estimate_parameters import EstimateParameters
from router.producers.facts import Tokens
from router.producers.token_estimate import Estimator
from router.producers.tokens import Missing
from tests.support import make


async def test_it_is_always_there_and_needs_no_running() -> None:
    estimator = Estimator(EstimateParameters())
    assert estimator.stats.connected
    assert not estimator.stats.not_ready
    await estimator.run()
    body = b'{"prompt": "abcd"}'
    assert await estimator.tokenize("any", make.request(body=body)) == Tokens(b"abcd")


async def test_a_body_of_another_form_is_refused() -> None:
    request = make.request(body=b'{"prompt": {}}')
    assert await Estimator(EstimateParameters()).tokenize("any", request) is Missing.REFUSED
