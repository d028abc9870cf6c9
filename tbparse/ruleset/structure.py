"""A failure that no rule knows: what its structure allows to say, and no more.

A type that Python itself or the program raised in the user's own code is the program's matter. A connection or timeout
type of a known network library may pass. Of everything else the log alone does not tell.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from typing import NamedTuple

from tbparse.records import Frame
from tbparse.ruleset.below import from_below
from tbparse.ruleset.kinds import category_of
from tbparse.ruleset.match import PROGRAMMING
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
    r"|config|proxy|name or service not known|nodename nor servname|unknown host|refused|\b4\d\d\b|wrong|schema|parse"
    r"|host ?name"
)
"""Words of what stays as it is until someone changes it: never worth a retry."""
_PASSING = re.compile(
    r"(?i)time[d]?[ -]?out|\bconnection|\bconnect(?:ing)? to|disconnect|not connected|unavailable|temporar|\breset by|refused"
    r"|try again|\bretry|rate.?limit|(?:HTTP|status|code|error)\D{0,12}5\d\d\b|\b5\d\d (?:server|internal|bad|service"
    r"|gateway)|\ballocat|\bbusy|\block(?:ed)?\b.{0,20}(?:database|file|by)|database is locked|\blost\b"
    r"|\b(?:CUDA|cu(?:DNN|BLAS|FFT|SPARSE|RAND)|NCCL|HIP|RCCL|HCCL|MPS|XPU|NPU|gloo|driver|GPU|device)(?:_\w+)?"
    r" (?:(?:internal |runtime |system |unhandled |kernel )?(?:error|failure|fault|lost|hang|not ready|unreachable|is dead"
    r"|out of))"
    r"|\bCUDA\b.{0,40}\b(?:error|memory|initiali|driver)|\bNCCL\b|\bHCCL\b|\bgloo\b|device-side|\bsocket\b"
    r"|network (?:is|error|unreach|failure|down|connect)|out of memory|cannot allocate|not enough memory|insufficient memory"
    r"|memory (?:error|access|alloc|limit|exhaust)|\bkilled\b|\bdied\b|\bsignal \d|(?-i:\bSIG[A-Z]{2,})|\baborted\b|broken pipe"
    r"|\bbroken\b"
    r"|closed by|(?:connection|stream|channel|pipe).{0,20}closed|interrupt|preempt|evict"
)
"""Words of failures that may pass, or that come from below the program: about those nothing is said without a rule."""


_NEVER_PASSING = PROGRAMMING | {"ValueError", "ValidationError", "ImportError", "ModuleNotFoundError"}
"""Types that say of themselves that the program, its input or its environment is at fault, whatever words they use."""


class Ruling(NamedTuple):
    """Verdict, category and advice without a rule."""

    verdict: Verdict = "unknown"
    category: Category = "unknown"
    advice: tuple[str, ...] = ()


OWN = Ruling("real", "user-code", ("The program itself raised this: read the line under `where`.",))
REFUSED = Ruling("real", "user-code", ("A library refused what it was given: look at the arguments on the line under `where`.",))
TURNED: dict[Category, str] = {
    "config": "Compare what the message names with this run's command line, config file and environment, and correct it there.",
    "data": "Find which input it was reading (the path, row or index in the message and the lines above it), and look at it.",
    "dependency": "Compare `pip freeze` here with an environment in which it ran, and pin the packages that the message and the "
    "deepest frames name.",
}
"""What to look at first, by the category that the structure tells."""
PASSING = Ruling(
    "transient",
    "network",
    (
        "Try the same address from the same node (`curl -v`, `nc -vz HOST PORT`): when it answers, run again; when it does not, "
        "the service or the way to it is down.",
        "If it comes back at the same step, it is no hiccup: raise the client's timeout, or look at the other end's own log.",
    ),
)


def by_structure(exception: str, message: str, frames: Sequence[Frame]) -> Ruling:
    """What may be said of an exception, by its type, message and frames (outermost first, without plumbing)."""
    own = bool(frames) and frames[-1].origin == "user"
    said = f"{exception}: {message}"
    top, dot, _ = exception.partition(".")
    name = exception.rpartition(".")[2]
    if dot and top in NETWORK_LIBRARIES and _CONNECTION.search(name) and not _LASTING.search(said):
        return Ruling("unknown", "network") if own else PASSING
    below = from_below(exception, message) if name not in _NEVER_PASSING else None
    if below is not None and (below.certain or not own):
        return Ruling(below.verdict, below.category)
    if not frames or (not own and name not in _NEVER_PASSING and _PASSING.search(said)):
        return Ruling()
    category = category_of(exception, message, frames)
    if category is not None:
        return Ruling("real", category, (TURNED[category],))
    if own:
        return OWN
    known = any(x.origin == "user" for x in frames) or hasattr(builtins, exception)
    return REFUSED if known else Ruling()
