/*  A native producer in C, on a mesh with keys: publishes one record, and ends when a store has acknowledged it.

    gcc -Wall -Wextra -Werror -o native_producer native_producer.c -lczmq -lzmq
    ./native_producer KEYS TOWER_CERTIFICATE TOWER_IN TOWER_OUT SUBJECT CONTENT

    KEYS is a directory of `dafka keys`, with the role `producer`; TOWER_CERTIFICATE the tower's own.key; TOWER_IN
    and TOWER_OUT are its endpoints, such as tcp://127.0.0.1:5556.

    What binds is CURVE's server and asks zauth, which knows the certificates of KEYS/members. What connects
    names the key of whom it means: the tower's by its certificate, a store's by the tower's beacon. */

#include <czmq.h>

#define PATIENCE_MS 30000
#define TURN_MS 100

static zcert_t *s_certificate(const char *path)
{
    zcert_t *certificate = zcert_load(path);
    if (!certificate) {
        fprintf(stderr, "%s is no certificate, or its secret key cannot be read\n", path);
        exit(2);
    }
    return certificate;
}

/*  Connects as the client of whoever has this key. */
static void s_connect(zsock_t *socket, zcert_t *own, const char *endpoint, const char *key)
{
    zcert_apply(own, socket);
    zsock_set_curve_serverkey(socket, key);
    if (zsock_connect(socket, "%s", endpoint) != 0) {
        fprintf(stderr, "%s is no endpoint\n", endpoint);
        exit(2);
    }
}

/*  Binds as a server that lets in whom zauth knows; the port. */
static int s_bind(zsock_t *socket, zcert_t *own)
{
    zcert_apply(own, socket);
    zsock_set_curve_server(socket, 1);
    zsock_set_zap_domain(socket, "dafka");
    return zsock_bind(socket, "tcp://127.0.0.1:*");
}

/*  Appends a string of up to 255 bytes, with its length. */
static byte *s_put_string(byte *at, const char *text)
{
    size_t size = strlen(text);
    *at++ = (byte) size;
    memcpy(at, text, size);
    return at + size;
}

/*  RECORD, sequence 0 of this address: the producer says one thing in its life. */
static void s_publish(zsock_t *publisher, const char *address, const char *subject, const char *content)
{
    byte header[1 + 256 + 1 + 256 + 256 + 8] = "M";
    byte *at = header + 1;
    memcpy(at, subject, strlen(subject));
    at += strlen(subject);
    *at++ = 0;      /* end of the topic */
    *at++ = 1;      /* version */
    at = s_put_string(at, address);
    at = s_put_string(at, subject);
    memset(at, 0, 8);
    at += 8;
    zmsg_t *record = zmsg_new();
    zmsg_addmem(record, header, at - header);
    zmsg_addstr(record, content);
    zmsg_send(&record, publisher);
}

/*  Says once more where this node is. */
static void s_beacon(zsock_t *tower, const char *address, int port)
{
    zsock_send(tower, "sssi", "B", address, "127.0.0.1", port);
}

/*  A beacon of a tower: a link to the node that it tells of, unless that is this one, or linked already. */
static void s_meet(zmsg_t *beacon, const char *address, zcert_t *own, zpoller_t *poller, zhash_t *links)
{
    char *topic = zmsg_popstr(beacon), *node = zmsg_popstr(beacon);
    char *endpoint = zmsg_popstr(beacon), *key = zmsg_popstr(beacon);
    if (key && streq(topic, "B") && !streq(node, address) && !zhash_lookup(links, endpoint)) {
        zsock_t *link = zsock_new(ZMQ_SUB);
        char acknowledgements[64];
        snprintf(acknowledgements, sizeof acknowledgements, "K%s", address);
        zsock_set_subscribe(link, acknowledgements);
        s_connect(link, own, endpoint, key);
        zhash_insert(links, endpoint, link);
        zpoller_add(poller, link);
    }
    zstr_free(&topic);
    zstr_free(&node);
    zstr_free(&endpoint);
    zstr_free(&key);
}

/*  Publishes until somebody has acknowledged it: whether somebody has. A link may come up later than a record is sent. */
static bool s_acknowledged(zcert_t *own, zcert_t *tower_certificate, char **arguments)
{
    const char *tower_key = zcert_public_txt(tower_certificate);
    char *subject = arguments[5], *content = arguments[6];
    char address[33];
    zuuid_t *uuid = zuuid_new();
    snprintf(address, sizeof address, "%s", zuuid_str(uuid));
    zuuid_destroy(&uuid);

    zsock_t *publisher = zsock_new(ZMQ_PUB), *tower_in = zsock_new(ZMQ_PUB), *tower_out = zsock_new(ZMQ_SUB);
    int port = s_bind(publisher, own);
    s_connect(tower_in, own, arguments[3], tower_key);
    zsock_set_subscribe(tower_out, "B");
    s_connect(tower_out, own, arguments[4], tower_key);

    zhash_t *links = zhash_new();
    zpoller_t *poller = zpoller_new(tower_out, NULL);
    bool done = false;
    for (int64_t until = zclock_mono() + PATIENCE_MS; !done && !zsys_interrupted && zclock_mono() < until;) {
        s_beacon(tower_in, address, port);
        s_publish(publisher, address, subject, content);
        zsock_t *ready = zpoller_wait(poller, TURN_MS);
        if (!ready)
            continue;
        zmsg_t *message = zmsg_recv(ready);
        if (ready == tower_out)
            s_meet(message, address, own, poller, links);
        else
            done = message != NULL;
        zmsg_destroy(&message);
    }
    for (zsock_t *link = zhash_first(links); link; link = zhash_next(links))
        zsock_destroy(&link);
    zhash_destroy(&links);
    zpoller_destroy(&poller);
    zsock_destroy(&publisher);
    zsock_destroy(&tower_in);
    zsock_destroy(&tower_out);
    return done;
}

int main(int count, char **arguments)
{
    if (count != 7 || strlen(arguments[5]) > 255) {
        fprintf(stderr, "usage: %s KEYS TOWER_CERTIFICATE TOWER_IN TOWER_OUT SUBJECT CONTENT\n", arguments[0]);
        return 2;
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/own.key", arguments[1]);
    zcert_t *own = s_certificate(path);     /* zcert_load takes own.key_secret, which is beside it */
    zcert_t *tower = s_certificate(arguments[2]);

    zactor_t *admission = zactor_new(zauth, NULL);
    snprintf(path, sizeof path, "%s/members", arguments[1]);
    zstr_sendx(admission, "CURVE", path, NULL);
    zsock_wait(admission);

    bool done = s_acknowledged(own, tower, arguments);
    if (!done)
        fprintf(stderr, "no store has acknowledged it\n");
    zactor_destroy(&admission);
    zcert_destroy(&own);
    zcert_destroy(&tower);
    return done ? 0 : 1;
}
