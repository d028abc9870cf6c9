"""A failure that no rule knows: what its structure allows to say, and no more.

A type that Python itself or the program raised in the user's own code is the program's matter. A connection or timeout
type of a known network library may pass. Of everything else the log alone does not tell.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tbparse.terms import Category, Verdict

NETWORK_LIBRARIES = frozenset({
    "aiobotocore", "aiohttp", "aioredis", "amqp", "anyio", "asyncpg", "asyncssh", "azure", "boto3", "botocore",
    "clickhouse_connect", "confluent_kafka", "consul", "elastic_transport", "elasticsearch", "etcd3", "gcsfs", "google",
    "grpc", "h2", "h11", "http", "httpcore", "httplib2", "httpx", "hvac", "influxdb_client", "kafka", "kazoo", "kombu",
    "minio", "nats", "opensearchpy", "oss2", "paramiko", "pika", "psycopg", "pymongo", "pymysql", "redis", "requests",
    "s3transfer", "tencentcloud", "urllib", "urllib3", "websocket", "websockets",
})  # fmt: skip
"""Packages (the first part of a printed type) whose connection and timeout types mean the other end or the way to it."""

_CONNECTION = re.compile(
    r"(?i)connect(?!or)|connector(?:error|dns)|disconnect|timeout|timedout|unavailable|reconnect|unreachable|deadlineexceeded"
    r"|chunkedencoding|remoteprotocol|incompleteread|serviceresponse|readerror|writeerror|brokersavailable|connectionloss"
)
_LASTING = re.compile(
    r"(?i)ssl|tls|certificat|auth|denied|forbidden|permission|credential|password|invalid|unsupported|not (?:supported|found)"
    r"|config|proxy|name or service not known|nodename nor servname|unknown host|refused|\b4\d\d\b|wrong|schema|parse|host ?name"
)
"""Words of what stays as it is until someone changes it: never worth a retry."""
_PASSING = re.compile(
    r"(?i)time[d]?[ -]?out|connect|unavailable|temporar|reset|refused|try again|retry|rate.?limit"
    r"|\b5\d\d\b|busy|locked|lost|CUDA|NCCL|HIP|HCCL|XPU|gloo|driver"
    r"|device|socket|network|memory|killed|died|signal|aborted|broken|closed|interrupt|preempt|evict"
)
"""Words of failures that may pass, or that come from below the program: about those nothing is said without a rule."""


class Ruling(NamedTuple):
    """Verdict, category and advice without a rule."""

    verdict: Verdict = "unknown"
    category: Category = "unknown"
    advice: tuple[str, ...] = ()


OWN = Ruling("real", "user-code", ("The program itself raised this: read the line under `where`.",))
REFUSED = Ruling("real", "user-code", ("A library refused what it was given: look at the arguments on the line under `where`.",))
PASSING = Ruling(
    "transient",
    "network",
    (
        "Try the same address from the same node (`curl -v`, `nc -vz HOST PORT`): when it answers, run again; when it does not, "
        "the service or the way to it is down.",
        "If it comes back at the same step, it is no hiccup: raise the client's timeout, or look at the other end's own log.",
    ),
)


def by_structure(exception: str, message: str, *, in_user_code: bool, below_user_code: bool) -> Ruling:
    """What may be said of an exception. ``in_user_code``: its deepest frame is the user's; ``below_user_code``: one of them is."""
    if in_user_code:
        return OWN
    said = f"{exception}: {message}"
    top, dot, _ = exception.partition(".")
    name = exception.rpartition(".")[2]
    if dot and top in NETWORK_LIBRARIES and _CONNECTION.search(name) and not _LASTING.search(said):
        return PASSING
    if below_user_code and not _PASSING.search(said):
        return REFUSED
    return Ruling()
