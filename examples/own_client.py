"""Maestro over a redis-py client of your own, with its pool and credentials; here, to the project's private server."""

import redis

from maestro_state import Maestro

with Maestro() as private:
    private.sessions.start("own-client")
    address = private.address

client = redis.Redis(unix_socket_path=address.path, client_name="my-program")
with Maestro(client=client) as maestro:
    maestro.messages.add("user", "sent over redis-py")
    print([message.content for message in maestro.messages.last(1)])
print("still mine:", client.ping())
client.close()
