// Sends one record and reads it back: hello HOST:PORT TOPIC
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>

static char why[512];

static void set(rd_kafka_conf_t *settings, const char *name, const char *value) {
    if (rd_kafka_conf_set(settings, name, value, why, sizeof why) != RD_KAFKA_CONF_OK) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
}

static rd_kafka_t *client(rd_kafka_type_t type, rd_kafka_conf_t *settings) {
    rd_kafka_t *made = rd_kafka_new(type, settings, why, sizeof why);
    if (made == NULL) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
    return made;
}

int main(int count, char **arguments) {
    if (count != 3) {
        return 2;
    }
    const char *bootstrap = arguments[1], *topic = arguments[2];

    rd_kafka_conf_t *sending = rd_kafka_conf_new();
    set(sending, "bootstrap.servers", bootstrap);
    rd_kafka_t *producer = client(RD_KAFKA_PRODUCER, sending);
    rd_kafka_resp_err_t error = rd_kafka_producev(
        producer, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY("greeting", 8),
        RD_KAFKA_V_VALUE("hello from C", 12), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        error = rd_kafka_flush(producer, 10000);
    }
    rd_kafka_destroy(producer);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
        fprintf(stderr, "%s\n", rd_kafka_err2str(error));
        return 1;
    }

    rd_kafka_conf_t *reading = rd_kafka_conf_new();
    set(reading, "bootstrap.servers", bootstrap);
    set(reading, "group.id", "hello-c");
    set(reading, "auto.offset.reset", "earliest");
    rd_kafka_t *consumer = client(RD_KAFKA_CONSUMER, reading);
    rd_kafka_poll_set_consumer(consumer);
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, topic, RD_KAFKA_PARTITION_UA);
    rd_kafka_subscribe(consumer, topics);
    rd_kafka_topic_partition_list_destroy(topics);

    rd_kafka_message_t *record = NULL;
    while (record == NULL || record->err) {
        if (record != NULL) {
            rd_kafka_message_destroy(record);
        }
        record = rd_kafka_consumer_poll(consumer, 1000);
    }
    printf("%.*s\n", (int)record->len, (const char *)record->payload);
    rd_kafka_message_destroy(record);
    rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
    return 0;
}
