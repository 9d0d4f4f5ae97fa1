"""Copies in the background are bounded in number and in bytes."""

import asyncio

from infra.serving.router.shadows import Shadows


def test_copies_are_bounded_counted_and_ended():
    async def run():
        gate, done = asyncio.Event(), []

        async def copy(number):
            await gate.wait()
            done.append(number)

        shadows = Shadows(at_once=2, bytes_at_once=100)
        for number in range(4):
            if shadows.has_room(10):
                shadows.start(copy(number), 10)
        dropped_for_number = shadows.dropped
        gate.set()
        await asyncio.sleep(0.01)
        gate.clear()
        assert shadows.has_room(500)  # a single one always may
        shadows.start(copy(9), 500)
        dropped_for_bytes = shadows.has_room(1)
        shadows.close()
        await asyncio.sleep(0.01)
        return done, dropped_for_number, dropped_for_bytes, shadows.has_room(1), shadows.dropped

    assert asyncio.run(run()) == ([0, 1], 2, False, False, 3)
