"""A web service that runs a team: GET /run/humaneval/12 streams the run's events.

    python examples/web_service.py 8000 &
    curl -N localhost:8000/run/humaneval/12

`team.stream` is an async iterator that never blocks the event loop. If the client disconnects, the
run is canceled. With `async with`, the team's model is loaded once, for the first request.
"""

import asyncio
import sys
from contextlib import aclosing

import collab
from collab.errors import CollabError


class Service:
    def __init__(self, team: collab.Team) -> None:
        self.team = team

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, path, _ = (await reader.readline()).decode().split(" ", 2)
        try:
            if method == "GET" and path.startswith("/run/"):
                await self._stream(path.removeprefix("/run/"), reader, writer)
            else:
                writer.write(b"HTTP/1.1 404 Not Found\r\n\r\n")
        except ConnectionError:
            return  # the client hung up; the run is cancelled
        finally:
            writer.close()

    async def _stream(
        self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        run = asyncio.create_task(self._send_events(address, writer))
        hung_up = asyncio.create_task(self._until_closed(reader))
        await asyncio.wait({run, hung_up}, return_when=asyncio.FIRST_COMPLETED)
        hung_up.cancel()
        if not run.done():
            run.cancel()
        await asyncio.gather(run, hung_up, return_exceptions=True)

    async def _send_events(self, address: str, writer: asyncio.StreamWriter) -> None:
        try:
            async with aclosing(self.team.stream(address)) as events:
                async for event in events:
                    writer.write(f"data: {event.model_dump_json()}\n\n".encode())
                    await writer.drain()
        except CollabError as error:
            writer.write(f"event: error\ndata: {error}\n\n".encode())

    async def _until_closed(self, reader: asyncio.StreamReader) -> None:
        while await reader.readline():
            pass


async def main(port: int, model: str = "smollm2-135m") -> None:
    async with collab.load("coding", model=model) as team:
        server = await asyncio.start_server(Service(team).answer, "127.0.0.1", port)
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
