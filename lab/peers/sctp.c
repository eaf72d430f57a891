/* Both sides of a trial over SCTP, by usrsctp over UDP (RFC 6951).
 *
 * sctp serve|call LOAD BYTES SIZE RATE COUNT WANT MS ADDRESS[,ADDRESS] [WORD]
 *
 * LOAD is bulk, transfer or messages. WANT is ordered, each, newest or within. A side prints the same lines as
 * `lab serve` and `lab call`, and ends when its standard input closes. */

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

#define MESSAGE 8192
#define HEADER 16
#define BUFFER (32 << 20)
#define SCTP_PORT 5001
#define ADDRESSES 8
#define BIN 10000000ull

static struct {
    bool transfer, messages;
    uint64_t bytes, size, count;
    double rate;
    const char *want;
    uint32_t within;
} job;

/* The findings. The thread that prints them takes the lock and does not return. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool serving;
static uint64_t bytes, sent, first, last, distinct;
static struct bin { uint64_t bin, bytes; } *bins;
static size_t bin_count, bin_room;
static struct arrival { uint64_t number, sent, at; } *arrivals;
static size_t arrival_count, arrival_room;
static uint8_t *seen;

static uint64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

static _Noreturn void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("failed ");
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    _exit(1);
}

static void *grown(void *memory, size_t count, size_t *room, size_t size) {
    if (count < *room) return memory;
    *room = *room ? 2 * *room : 1024;
    memory = realloc(memory, *room * size);
    if (memory == NULL) fail("out of memory");
    return memory;
}

static void print_found(void) {
    double cpu = (double)now(CLOCK_PROCESS_CPUTIME_ID) / 1e9;
    if (serving) {
        printf("figures {\"bytes\":%lu,\"first\":%lu,\"last\":%lu,\"bins\":[", bytes, first, last);
        for (size_t i = 0; i < bin_count; i++) printf("%s[%lu,%lu]", i ? "," : "", bins[i].bin, bins[i].bytes);
        printf("],\"messages\":[");
        for (size_t i = 0; i < arrival_count; i++)
            printf("%s[%lu,%lu,%lu]", i ? "," : "", arrivals[i].number, arrivals[i].sent, arrivals[i].at);
        printf("],\"cpu\":%.6f}\n", cpu);
    } else {
        printf("sent {\"bytes\":%lu,\"messages\":%lu,\"cpu\":%.6f}\n", bytes, sent, cpu);
    }
    fflush(stdout);
}

static void *watch_input(void *unused) {
    char ignored[256];
    while (read(STDIN_FILENO, ignored, sizeof ignored) > 0) {}
    pthread_mutex_lock(&lock);
    print_found();
    _exit(0);
    return unused;
}

static uint64_t number_at(const uint8_t *from) {
    uint64_t number = 0;
    for (int i = 0; i < 8; i++) number = number << 8 | from[i];
    return number;
}

static void put_number(uint8_t *to, uint64_t number) {
    for (int i = 7; i >= 0; i--, number >>= 8) to[i] = (uint8_t)number;
}

static void note_bytes(uint64_t at, uint64_t length) {
    if (bytes == 0) first = at;
    last = at;
    bytes += length;
    if (bin_count == 0 || bins[bin_count - 1].bin != at / BIN) {
        bins = grown(bins, bin_count, &bin_room, sizeof *bins);
        bins[bin_count++] = (struct bin){at / BIN, 0};
    }
    bins[bin_count - 1].bytes += length;
}

static void note_message(uint64_t at, const uint8_t *message) {
    uint64_t number = number_at(message);
    if (number >= job.count) return;
    distinct += !seen[number];
    seen[number] = 1;
    arrivals = grown(arrivals, arrival_count, &arrival_room, sizeof *arrivals);
    arrivals[arrival_count++] = (struct arrival){number, number_at(message + 8), at};
}

static bool is_done(void) {
    if (job.transfer) return bytes >= job.bytes;
    if (!job.messages) return false;
    return strcmp(job.want, "newest") == 0 ? seen[job.count - 1] : distinct >= job.count;
}

/* Returns a UDP port that is not in use. */
static uint16_t free_port(void) {
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t length = sizeof any;
    int probe = socket(AF_INET, SOCK_DGRAM, 0);
    if (probe < 0 || bind(probe, (struct sockaddr *)&any, length) || getsockname(probe, (struct sockaddr *)&any, &length))
        fail("cannot get a UDP port: %s", strerror(errno));
    close(probe);
    return ntohs(any.sin_port);
}

static int parse_addresses(char *list, uint16_t port, struct sockaddr_in *addresses) {
    int count = 0;
    for (char *one = strtok(list, ","); one && count < ADDRESSES; one = strtok(NULL, ",")) {
        addresses[count] = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
        if (inet_pton(AF_INET, one, &addresses[count++].sin_addr) != 1) fail("not an IPv4 address: %s", one);
    }
    return count;
}

static void set(struct socket *socket, int level, int name, const void *value, socklen_t length) {
    if (usrsctp_setsockopt(socket, level, name, value, length) < 0) fail("cannot set option %d: %s", name, strerror(errno));
}

static struct socket *open_socket(struct sockaddr_in *addresses, int count) {
    struct socket *socket = usrsctp_socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    if (socket == NULL) fail("cannot create a socket: %s", strerror(errno));
    int buffer = BUFFER;
    set(socket, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    set(socket, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    uint32_t on = 1;
    set(socket, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on);
    struct sctp_rtoinfo rto = {.srto_initial = 1000, .srto_min = 200};
    set(socket, IPPROTO_SCTP, SCTP_RTOINFO, &rto, sizeof rto);
    struct sctp_assocparams association = {.sasoc_asocmaxrxt = 100};
    set(socket, IPPROTO_SCTP, SCTP_ASSOCINFO, &association, sizeof association);
    if (usrsctp_bindx(socket, (struct sockaddr *)addresses, count, SCTP_BINDX_ADD_ADDR) < 0)
        fail("cannot bind: %s", strerror(errno));
    return socket;
}

static ssize_t receive(struct socket *socket, void *buffer, size_t room, int *flags) {
    struct sockaddr_in from;
    struct sctp_rcvinfo info;
    socklen_t from_length = sizeof from, info_length = sizeof info;
    unsigned int info_type = 0;
    *flags = 0;
    return usrsctp_recvv(
        socket, buffer, room, (struct sockaddr *)&from, &from_length, &info, &info_length, &info_type, flags);
}

static void serve(char *list) {
    uint16_t port = free_port();
    usrsctp_init(port, NULL, NULL);
    struct sockaddr_in addresses[ADDRESSES];
    char text[INET_ADDRSTRLEN];
    struct socket *listener = open_socket(addresses, parse_addresses(list, SCTP_PORT, addresses));
    if (usrsctp_listen(listener, 1) < 0) fail("cannot listen: %s", strerror(errno));
    inet_ntop(AF_INET, &addresses[0].sin_addr, text, sizeof text);
    printf("ready %s:%u\n", text, port);
    fflush(stdout);
    struct socket *socket = usrsctp_accept(listener, NULL, NULL);
    if (socket == NULL) fail("cannot accept: %s", strerror(errno));
    static uint8_t buffer[1 << 18];
    size_t held = 0;
    for (bool done = false; !done;) {
        int flags = 0;
        ssize_t length = receive(socket, buffer + held, sizeof buffer - held, &flags);
        pthread_mutex_lock(&lock);
        if (length <= 0) break;
        if (!(flags & MSG_NOTIFICATION)) {
            uint64_t at = now(CLOCK_MONOTONIC);
            note_bytes(at, (uint64_t)length);
            held += (size_t)length;
            if (job.messages && (flags & MSG_EOR) && held >= HEADER) note_message(at, buffer);
            if (!job.messages || (flags & MSG_EOR)) held = 0;
        }
        done = is_done();
        if (!done) pthread_mutex_unlock(&lock);
    }
    /* Once the caller has closed, no more messages will come. Any other job is incomplete, unless this side is told to
     * end meanwhile. */
    if (!job.messages && !is_done()) {
        pthread_mutex_unlock(&lock);
        sleep(1);
        fail("the association ended before the job was done");
    }
    print_found();
    usrsctp_close(socket);
    usleep(200000);
    _exit(0);
}

static void send_one(struct socket *socket, const uint8_t *message, uint64_t length, bool unordered, uint32_t lifetime) {
    struct sctp_sendv_spa how = {.sendv_flags = SCTP_SEND_SNDINFO_VALID};
    how.sendv_sndinfo.snd_flags = unordered ? SCTP_UNORDERED : 0;
    if (lifetime) {
        how.sendv_flags |= SCTP_SEND_PRINFO_VALID;
        how.sendv_prinfo.pr_policy = SCTP_PR_SCTP_TTL;
        how.sendv_prinfo.pr_value = lifetime;
    }
    if (usrsctp_sendv(socket, message, length, NULL, 0, &how, sizeof how, SCTP_SENDV_SPA, 0) < 0) {
        int error = errno;
        /* The server may have ended first. Then this side is told to end, too. */
        sleep(1);
        fail("cannot send: %s", strerror(error));
    }
    pthread_mutex_lock(&lock);
    bytes += length;
    sent++;
    pthread_mutex_unlock(&lock);
}

static void send_bytes(struct socket *socket) {
    uint8_t message[MESSAGE];
    memset(message, 0x77, sizeof message);
    for (uint64_t left = job.transfer ? job.bytes : UINT64_MAX; left > 0;) {
        uint64_t length = left < MESSAGE ? left : MESSAGE;
        send_one(socket, message, length, !job.transfer, 0);
        left -= length;
    }
}

static void send_messages(struct socket *socket) {
    bool unordered = strcmp(job.want, "each") == 0 || strcmp(job.want, "within") == 0;
    bool newest = strcmp(job.want, "newest") == 0;
    uint8_t *message = malloc(job.size);
    if (message == NULL) fail("out of memory");
    memset(message, 0x77, job.size);
    uint64_t begin = now(CLOCK_MONOTONIC);
    for (uint64_t number = 0; number < job.count; number++) {
        uint64_t due = begin + (uint64_t)((double)number * 1e9 / job.rate), time = due;
        if (now(CLOCK_MONOTONIC) < due) {
            struct timespec until = {(time_t)(due / 1000000000ull), (long)(due % 1000000000ull)};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
            time = now(CLOCK_MONOTONIC);
        }
        put_number(message, number);
        put_number(message + 8, time);
        uint32_t lifetime = strcmp(job.want, "within") == 0 ? job.within : 0;
        /* Each message lives until the next is due, and the last one for ever. */
        if (newest && number + 1 < job.count) lifetime = (uint32_t)(1000.0 / job.rate) + 1;
        send_one(socket, message, job.size, unordered, lifetime);
    }
}

static void call(char *list, char *word) {
    char *colon = strchr(word, ':');
    if (colon == NULL) fail("no port in %s", word);
    *colon = 0;
    usrsctp_init(free_port(), NULL, NULL);
    struct sockaddr_in addresses[ADDRESSES], to;
    struct socket *socket = open_socket(addresses, parse_addresses(list, 0, addresses));
    parse_addresses(word, SCTP_PORT, &to);
    struct sctp_udpencaps encapsulation = {.sue_address.ss_family = AF_INET, .sue_port = htons((uint16_t)atoi(colon + 1))};
    set(socket, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation, sizeof encapsulation);
    printf("started %lu\n", now(CLOCK_MONOTONIC));
    fflush(stdout);
    if (usrsctp_connect(socket, (struct sockaddr *)&to, sizeof to) < 0) fail("cannot connect: %s", strerror(errno));
    if (job.messages) send_messages(socket);
    else send_bytes(socket);
    usrsctp_shutdown(socket, SHUT_WR);
    uint8_t ignored[64];
    int flags = 0;
    while (receive(socket, ignored, sizeof ignored, &flags) > 0) {}
    pthread_mutex_lock(&lock);
    print_found();
    _exit(0);
}

int main(int count, char **words) {
    if (count < 10) fail("too few arguments");
    serving = strcmp(words[1], "serve") == 0;
    job.transfer = strcmp(words[2], "transfer") == 0;
    job.messages = strcmp(words[2], "messages") == 0;
    job.bytes = strtoull(words[3], NULL, 10);
    job.size = strtoull(words[4], NULL, 10);
    job.rate = atof(words[5]);
    job.count = strtoull(words[6], NULL, 10);
    job.want = words[7];
    job.within = (uint32_t)strtoul(words[8], NULL, 10);
    if (job.messages && (job.size < HEADER || job.size > MESSAGE * 8 || job.count == 0)) fail("messages of this size or number cannot be sent");
    seen = calloc(job.count + 1, 1);
    pthread_t watcher;
    if (seen == NULL || pthread_create(&watcher, NULL, watch_input, NULL)) fail("out of memory");
    if (serving) serve(words[9]);
    else call(words[9], words[10]);
}
