"""Requests without a client: any method, header and body."""

import http.client
import json
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """Of an error."""
        return str(self.json["error"]["message"])


def ask(
    url: str,
    path: str,
    body: Any = None,
    *,
    method: str | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """One request; a body that is not bytes is sent as JSON."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
    sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    given = {} if body is None else {"content-type": "application/json"}
    connection.request(
        method or ("GET" if body is None else "POST"), path, sent, {**given, **(headers or {})}
    )
    response = connection.getresponse()
    answer = Answer(response.status, dict(response.getheaders()), response.read())
    connection.close()
    return answer
