"""What a hub keeps for those who follow: what somebody has yet to send, and not much more."""

from __future__ import annotations

import asyncio

from maestro_state.serve.hub import KEPT_BYTES, SENT_BYTES, TAKEN_BYTES, Follower, Hub

_PIECE = b"x" * 16_384


def put(hub: Hub, numbers: range) -> None:
    """Put pieces with these numbers as ids."""
    for number in numbers:
        hub.put((f"{number}-0", _PIECE))


async def test_what_everybody_has_sent_is_not_kept():
    """Two who keep up: whatever goes through, little stays; each gets everything once."""
    hub = Hub()
    followers = {Follower(hub.next): (0, 0) for _ in range(2)}
    hub.followers |= set(followers)
    taken = dict.fromkeys(followers, 0)
    for number in range(1, 2000):
        put(hub, range(number, number + 1))
        for follower, last in followers.items():
            data, followers[follower] = hub.take(follower, last)
            taken[follower] += len(data)
        assert hub.held_bytes <= SENT_BYTES + len(_PIECE)
    assert set(taken.values()) == {1999 * len(_PIECE)}


async def test_who_is_behind_is_waited_for_until_there_is_too_much():
    """What the slow one has not sent stays, however fast the other is; beyond the bound it is let go."""
    hub, count = Hub(), KEPT_BYTES // len(_PIECE)
    fast = Follower(hub.next)
    waiting = asyncio.get_running_loop().create_future()
    slow: Follower | None = None

    async def follow() -> None:
        nonlocal slow
        slow = Follower(hub.next)
        hub.followers.add(slow)
        await waiting

    task = asyncio.create_task(follow())
    await asyncio.sleep(0)
    assert slow is not None
    hub.followers.add(fast)
    last = (0, 0)
    for number in range(1, count):
        put(hub, range(number, number + 1))
        _, last = hub.take(fast, last)
    assert hub.held_bytes == (count - 1) * len(_PIECE)
    put(hub, range(count, count + 2))
    await asyncio.wait([task])
    assert (slow.lost, fast.lost, task.cancelled()) == (True, False, True)
    data, last = hub.take(fast, last)
    assert (len(data), last) == (2 * len(_PIECE), (count + 1, 0))


async def test_who_wakes_up_late_takes_a_part_at_a_time():
    """All of it, in order, and never much at once; what was told already is passed over."""
    hub = Hub()
    late = Follower(hub.next)
    hub.followers.add(late)
    put(hub, range(1, 100))
    sizes, last = [], (3, 0)
    while (taken := hub.take(late, last))[0]:
        last = taken[1]
        sizes.append(len(taken[0]))
    assert (sum(sizes), last) == (96 * len(_PIECE), (99, 0))
    assert max(sizes) < TAKEN_BYTES + len(_PIECE)
