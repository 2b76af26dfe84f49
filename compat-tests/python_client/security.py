"""Listeners that ask who comes: what lets a client in, what does not, and what changes while records flow.

Topics are made where nobody is asked. A session lasts two seconds where clients are asked again.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial

from python_client.adapter import Adapter, Producer, Record
from python_client.checks import (
    equal,
    fresh_topic,
    read,
    read_partition,
    same_but_for_repeats,
    same_records,
    send_all,
)
from python_client.doors import AUTHENTICATION, CERTIFICATE, Door
from python_client.records import sample

REFUSED_SECONDS = 40.0
"""Whoever is not let in knows by then."""
STREAMS_SECONDS = 7.0
"""Some sessions, one after the other."""
AT_A_TIME = 20


def tls(adapter: Adapter) -> None:
    door = Door("SSL", os.environ["COMPAT_CA"])
    topic = fresh_topic(adapter, "tls")
    _refused(adapter, topic, replace(door, ca=os.environ["COMPAT_OTHER_CA"]), CERTIFICATE)
    _both_ways(adapter.secured(door), topic)


def sasl(adapter: Adapter, mechanism: str) -> None:
    """With and without TLS: what is wrong is refused, and what is right lets in after it."""
    for protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        topic = fresh_topic(adapter, mechanism)
        right, wrong = (_door(protocol, mechanism, is_right) for is_right in (True, False))
        _refused(adapter, topic, wrong, AUTHENTICATION)
        _both_ways(adapter.secured(right), topic)
        _refused(adapter, topic, wrong, AUTHENTICATION)


def certificate_exchanged(adapter: Adapter) -> None:
    """By one of another authority: who is connected goes on, who comes anew has to trust the new one."""
    topic = fresh_topic(adapter, "exchanged")
    old, new = (Door("SSL", os.environ[name]) for name in ("COMPAT_CA", "COMPAT_OTHER_CA"))
    connected = adapter.secured(old)
    before, after, more = (_labelled(label) for label in ("before", "after", "more"))
    with closing(connected.producer(idempotent=True)) as producer, closing(connected.consumer()) as consumer:
        consumer.assign(topic, [0])
        send_all(producer, topic, before)
        same_records(read(consumer, len(before)), before)
        equal(_ask("exchange-certificate"), "exchanged", "what the runner says")
        send_all(producer, topic, after)
        same_records(read(consumer, len(after)), after, len(before))
        _refused(adapter, topic, old, CERTIFICATE)
        with closing(adapter.secured(new).producer()) as newcomer:
            send_all(newcomer, topic, more)
        same_records(read(consumer, len(more)), more, len(before) + len(after))
    wanted = [*before, *after, *more]
    same_records(read_partition(adapter.secured(new), topic, len(wanted)), wanted)


def password_changed(adapter: Adapter) -> None:
    """Who came in by the old one is cut off and stays out; with the new one a client goes on."""
    topic = fresh_topic(adapter, "password")
    old = _door("SASL_SSL", adapter.best_mechanism, is_right=True)
    before, after = _labelled("before"), _labelled("after")
    producer, consumer = adapter.secured(old).producer(), adapter.secured(old).consumer()
    with closing(consumer):
        consumer.assign(topic, [0])
        send_all(producer, topic, before)
        same_records(read(consumer, len(before)), before)
        new = replace(old, secret=_ask("change-password"))
        _fails(partial(_send_one, producer, topic))
        _refused(adapter, topic, old, AUTHENTICATION)
    with closing(adapter.secured(new).producer()) as newcomer:
        send_all(newcomer, topic, after)
    wanted = [*before, *after]
    same_records(read_partition(adapter.secured(new), topic, len(wanted)), wanted)


def reauthentication(adapter: Adapter) -> None:
    """Records flow over several sessions; each is there once, in order."""
    door = _door("SASL_SSL", adapter.best_mechanism, is_right=True)
    client = adapter.secured(door)
    topic = fresh_topic(adapter, "again")
    sent: list[Record] = []
    found: list[Record] = []
    with closing(client.producer(idempotent=True)) as producer, closing(client.consumer()) as consumer:
        consumer.assign(topic, [0])
        end = time.monotonic() + STREAMS_SECONDS
        while time.monotonic() < end:
            some = _labelled(f"{len(sent)}")
            send_all(producer, topic, some)
            sent += some
            found += read(consumer, len(some))
            time.sleep(0.05)
    if adapter.can_be_idempotent:
        same_records(found, sent)
        same_records(read_partition(client, topic, len(sent)), sent)
    else:
        same_but_for_repeats(found, sent[: len(found)])


def _door(protocol: str, mechanism: str, is_right: bool) -> Door:
    what = "TOKEN" if mechanism == "OAUTHBEARER" else "PASSWORD"
    secret = os.environ[f"COMPAT_{what}" if is_right else f"COMPAT_WRONG_{what}"]
    return Door(protocol, os.environ["COMPAT_CA"], mechanism, os.environ["COMPAT_USER"], secret)


def _both_ways(adapter: Adapter, topic: str) -> None:
    records = sample(100)
    with closing(adapter.producer()) as producer:
        send_all(producer, topic, records)
    same_records(read_partition(adapter, topic, len(records)), records)


def _refused(adapter: Adapter, topic: str, door: Door, why: str) -> None:
    """A producer does not come in there, and says why."""
    client = adapter.secured(replace(door, is_hopeless=True))

    def send() -> None:
        with closing(client.producer()) as producer:
            _send_one(producer, topic)

    error = _fails(send)
    equal(client.refusal(error), why, f"what {error!r} says")


def _send_one(producer: Producer, topic: str) -> None:
    producer.send(topic, Record(b"never"))()


def _fails(send: Callable[[], object]) -> Exception:
    """Nothing is acknowledged, and the client says so in bounded time."""
    begun = time.monotonic()
    failure: Exception | None = None
    try:
        send()
    except Exception as error:
        failure = error
    assert failure is not None, "it came in"
    took = time.monotonic() - begun
    assert took < REFUSED_SECONDS, f"it knew after {took:.0f} s: {failure!r}"
    return failure


def _labelled(label: str) -> list[Record]:
    return [Record(b"%s %d" % (label.encode(), n), b"key %d" % n) for n in range(AT_A_TIME)]


def _ask(word: str) -> str:
    """Have the runner do it; what it says then."""
    print(word, flush=True)
    return sys.stdin.readline().strip()
