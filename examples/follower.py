"""Follow a session live: one task writes, another sees each event, and goes on later from where it was."""

import asyncio

from maestro_state import AsyncMaestro


async def write(maestro: AsyncMaestro, session_id: str) -> None:
    for word in ("one", "two", "three"):
        await maestro.messages.add("user", word, session_id)
    await maestro.sessions.end(session_id)


async def follow(maestro: AsyncMaestro, session_id: str) -> str:
    """Print events until the session ends; return the id of the first one, a place to go on from."""
    first = ""
    async for event in maestro.follow.events(session_id, cursor="start"):
        first = first or event.id
        print(event.type, event.data.get("content", ""))
    return first


async def main() -> None:
    async with AsyncMaestro() as writer, AsyncMaestro() as reader:
        session = await writer.sessions.start("follow-me")
        following = asyncio.create_task(follow(reader, session.id))
        await write(writer, session.id)
        cursor = await following
        later = [event.type async for event in reader.follow.events(session.id, cursor=cursor)]
        print("seen again from the first one on:", len(later))


asyncio.run(main())
