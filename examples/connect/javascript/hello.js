// Sends one record and reads it back: node hello.js HOST:PORT TOPIC
const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, topic] = process.argv.slice(2);
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR });

async function main() {
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, messages: [{ key: "greeting", value: "hello from JavaScript" }] });
  await producer.disconnect();

  const consumer = kafka.consumer({ groupId: "hello-javascript" });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer.run({
      eachMessage: async ({ message }) => {
        console.log(message.value.toString());
        resolve();
      },
    });
  });
  await consumer.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
