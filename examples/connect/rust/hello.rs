// Sends one record and reads it back: hello HOST:PORT TOPIC
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::message::Message;
use rdkafka::producer::{FutureProducer, FutureRecord};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let (bootstrap, topic) = (&arguments[1], &arguments[2]);

    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .create()?;
    producer
        .send(FutureRecord::to(topic).key("greeting").payload("hello from Rust"), Duration::from_secs(10))
        .await
        .map_err(|(error, _)| error)?;

    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "hello-rust")
        .set("auto.offset.reset", "earliest")
        .create()?;
    consumer.subscribe(&[topic])?;
    let record = consumer.recv().await?;
    println!("{}", std::str::from_utf8(record.payload().unwrap_or_default())?);
    Ok(())
}
