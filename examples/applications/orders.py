r"""A web service with a consumer: orders come by HTTP, go through a topic, and are counted on the other side.

    pip install fastapi uvicorn confluent-kafka
    KAFKA_BOOTSTRAP=127.0.0.1:9092 uvicorn --app-dir examples/applications orders:app
    curl -X POST localhost:8000/orders -H 'content-type: application/json' \
        -d '{"customer": "ada", "cents": 1250}'
    curl localhost:8000/totals/ada

The answer to a POST says that the order is durable: it waits for the acknowledgement, without holding up
other requests. The consumer is a thread of the same process here; it may as well be a process of its own.
Each start reads the topic from its beginning, so the totals need no database: the topic is one. (With much
history, keep them in a table, with the offsets in the same transaction: see change_events.py.)

How it is tested: test_orders.py, beside this file.
"""

import asyncio
import json
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel, PositiveInt


class Order(BaseModel):
    """What a customer sends."""

    customer: str
    cents: PositiveInt


class NotAccepted(Exception):
    """The order may be lost: ask the customer to try again."""


class Orders:
    """Places orders, and knows what each customer has ordered. `start` and `close` it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.totals: Counter[str] = Counter()
        self._bootstrap = bootstrap
        self._topic = topic
        # Idempotent: an order that had to be sent again is there once.
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": 10_000}
        )
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._poll_producer, self._consume)]

    def start(self) -> None:
        """Make the topic if it is not there, and read it."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        try:
            admin.create_topics([NewTopic(self._topic, 1)])[self._topic].result()
        except Exception as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Send what was not sent yet, and stop reading."""
        self._producer.flush(10)
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    async def place(self, order: Order) -> int:
        """The order's number, once it is durable. Raises NotAccepted."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()

        def told(error: KafkaError | None, message: Message) -> None:
            """Called by the thread that polls."""
            if error is None:
                loop.call_soon_threadsafe(done.set_result, message.offset())
            else:
                loop.call_soon_threadsafe(done.set_exception, NotAccepted(error.str()))

        self._producer.produce(self._topic, order.model_dump_json(), order.customer, on_delivery=told)
        return await done

    def _poll_producer(self) -> None:
        while not self._stopping.is_set():
            self._producer.poll(0.1)

    def _consume(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "unused", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition(self._topic, 0, 0)])
        while not self._stopping.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                order = json.loads(message.value())
                self.totals[order["customer"]] += order["cents"]
        consumer.close()


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The orders live as long as the service."""
    bootstrap = os.environ.get("KAFKA_BOOTSTRAP", "127.0.0.1:9092")
    app.state.orders = Orders(bootstrap, os.environ.get("ORDERS_TOPIC", "orders"))
    await asyncio.to_thread(app.state.orders.start)
    yield
    await asyncio.to_thread(app.state.orders.close)


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def place(order: Order) -> dict[str, int]:
    """Place an order."""
    try:
        return {"number": await app.state.orders.place(order)}
    except NotAccepted as error:
        raise HTTPException(503, f"not accepted, try again: {error}") from error


@app.get("/totals/{customer}")
async def total(customer: str) -> dict[str, int]:
    """What a customer has ordered so far."""
    return {"cents": app.state.orders.totals[customer]}
