from __future__ import annotations

from indexer.events import Reason
from indexer.rejects import Rejects


def test_the_present_begins_anew_and_the_whole_only_grows() -> None:
    rejects = Rejects()
    rejects[Reason.BAD_EVENT] += 2
    assert rejects.present == {Reason.BAD_EVENT: 2}
    rejects.begin_anew()
    assert rejects.present == {}
    rejects.update([Reason.BAD_EVENT, Reason.NOT_MSGPACK])
    assert rejects.present == {Reason.BAD_EVENT: 1, Reason.NOT_MSGPACK: 1}
    assert rejects == {Reason.BAD_EVENT: 3, Reason.NOT_MSGPACK: 1}
