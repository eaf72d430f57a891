/* Both sides of a trial of frames over SRT in live mode, by libsrt.
 *
 * srt serve|call RATE COUNT LATENCY FILTER SIZE,... ADDRESS [WORD]
 *
 * LATENCY is SRTO_LATENCY in ms. FILTER is SRTO_PACKETFILTER, or - for none. A side prints the same lines as `lab serve`
 * and `lab call`, and ends when its standard input closes. */

#include <arpa/inet.h>
#include <pthread.h>
#include <srt/srt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What a live packet carries, and the head of each piece of a frame: its number, and the piece's index. */
#define PIECE 1316
#define HEAD 10
#define BODY (PIECE - HEAD)
#define HEADER 16
#define LONGEST (1 << 16)
#define SIZES 64
#define BIN 10000000ull
/* Frames older than the newest by this many are given up. */
#define KEPT 64

static double rate;
static uint64_t count;
static size_t sizes[SIZES], size_count;

/* The findings. The thread that prints them takes the lock and does not return. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool serving;
static uint64_t bytes, sent, first, last;
static struct bin { uint64_t bin, bytes; } *bins;
static size_t bin_count, bin_room;
static struct arrival { uint64_t number, sent, at; } *arrivals;
static size_t arrival_count, arrival_room;
static struct frame { uint64_t number, sent; size_t left; bool begun; } frames[KEPT];

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

static void *grown(void *memory, size_t used, size_t *room, size_t size) {
    if (used < *room) return memory;
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

static uint64_t number_at(const uint8_t *from, int length) {
    uint64_t number = 0;
    for (int i = 0; i < length; i++) number = number << 8 | from[i];
    return number;
}

static void put_number(uint8_t *to, uint64_t number, int length) {
    for (int i = length - 1; i >= 0; i--, number >>= 8) to[i] = (uint8_t)number;
}

/* The same as `job::frame_size`. */
static size_t frame_size(uint64_t number) {
    uint64_t mixed = (number + 1) * 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    return sizes[(mixed ^ mixed >> 31) % size_count];
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

/* Live mode delivers no packet twice, so a frame is whole once all its pieces were counted. */
static void note_piece(uint64_t at, const uint8_t *piece, size_t length) {
    uint64_t number = number_at(piece, 8), index = number_at(piece + 8, 2);
    if (number >= count) return;
    struct frame *frame = &frames[number % KEPT];
    if (!frame->begun || frame->number < number)
        *frame = (struct frame){number, 0, (frame_size(number) + BODY - 1) / BODY, true};
    if (frame->number != number || frame->left == 0) return;
    if (index == 0 && length >= HEAD + HEADER) frame->sent = number_at(piece + HEAD + 8, 8);
    if (--frame->left > 0) return;
    arrivals = grown(arrivals, arrival_count, &arrival_room, sizeof *arrivals);
    arrivals[arrival_count++] = (struct arrival){number, frame->sent, at};
}

static void set(SRTSOCKET socket, SRT_SOCKOPT name, const void *value, int length) {
    if (srt_setsockflag(socket, name, value, length) == SRT_ERROR) fail("cannot set option %d: %s", name, srt_getlasterror_str());
}

static SRTSOCKET open_socket(int latency, const char *filter) {
    SRTSOCKET socket = srt_create_socket();
    if (socket == SRT_INVALID_SOCK) fail("cannot create a socket: %s", srt_getlasterror_str());
    int live = SRTT_LIVE;
    set(socket, SRTO_TRANSTYPE, &live, sizeof live);
    set(socket, SRTO_LATENCY, &latency, sizeof latency);
    if (strcmp(filter, "-") != 0) set(socket, SRTO_PACKETFILTER, filter, (int)strlen(filter));
    return socket;
}

static struct sockaddr_in parse_address(const char *text, uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, text, &address.sin_addr) != 1) fail("not an IPv4 address: %s", text);
    return address;
}

static void serve(SRTSOCKET listener, const char *at) {
    struct sockaddr_in address = parse_address(at, 0);
    int length = sizeof address;
    if (srt_bind(listener, (struct sockaddr *)&address, length) == SRT_ERROR) fail("cannot bind: %s", srt_getlasterror_str());
    if (srt_getsockname(listener, (struct sockaddr *)&address, &length) == SRT_ERROR || srt_listen(listener, 1) == SRT_ERROR)
        fail("cannot listen: %s", srt_getlasterror_str());
    printf("ready %s:%u\n", at, ntohs(address.sin_port));
    fflush(stdout);
    SRTSOCKET socket = srt_accept(listener, NULL, NULL);
    if (socket == SRT_INVALID_SOCK) fail("cannot accept: %s", srt_getlasterror_str());
    uint8_t piece[PIECE];
    for (;;) {
        int received = srt_recvmsg(socket, (char *)piece, sizeof piece);
        pthread_mutex_lock(&lock);
        /* The caller has closed. */
        if (received == SRT_ERROR) break;
        uint64_t arrived = now(CLOCK_MONOTONIC);
        note_bytes(arrived, (uint64_t)received);
        if (received > HEAD) note_piece(arrived, piece, (size_t)received);
        pthread_mutex_unlock(&lock);
    }
    print_found();
    _exit(0);
}

static void send_frame(SRTSOCKET socket, const uint8_t *frame, size_t size, uint64_t number) {
    uint8_t piece[PIECE];
    for (size_t at = 0, index = 0; at < size; at += BODY, index++) {
        size_t length = size - at < BODY ? size - at : BODY;
        put_number(piece, number, 8);
        put_number(piece + 8, index, 2);
        memcpy(piece + HEAD, frame + at, length);
        if (srt_sendmsg(socket, (char *)piece, (int)(HEAD + length), -1, 1) == SRT_ERROR) {
            const char *error = srt_getlasterror_str();
            /* The server may have ended first. Then this side is told to end, too. */
            sleep(1);
            fail("cannot send: %s", error);
        }
    }
    pthread_mutex_lock(&lock);
    bytes += size;
    sent++;
    pthread_mutex_unlock(&lock);
}

static void call(SRTSOCKET socket, const char *from, char *word) {
    char *colon = strchr(word, ':');
    if (colon == NULL) fail("no port in %s", word);
    *colon = 0;
    struct sockaddr_in near = parse_address(from, 0), to = parse_address(word, (uint16_t)atoi(colon + 1));
    if (srt_bind(socket, (struct sockaddr *)&near, sizeof near) == SRT_ERROR) fail("cannot bind: %s", srt_getlasterror_str());
    printf("started %lu\n", now(CLOCK_MONOTONIC));
    fflush(stdout);
    if (srt_connect(socket, (struct sockaddr *)&to, sizeof to) == SRT_ERROR) fail("cannot connect: %s", srt_getlasterror_str());
    static uint8_t frame[LONGEST];
    memset(frame, 0x77, sizeof frame);
    uint64_t begin = now(CLOCK_MONOTONIC);
    for (uint64_t number = 0; number < count; number++) {
        uint64_t due = begin + (uint64_t)((double)number * 1e9 / rate), time = due;
        if (now(CLOCK_MONOTONIC) < due) {
            struct timespec until = {(time_t)(due / 1000000000ull), (long)(due % 1000000000ull)};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
            time = now(CLOCK_MONOTONIC);
        }
        put_number(frame, number, 8);
        put_number(frame + 8, time, 8);
        send_frame(socket, frame, frame_size(number), number);
    }
    /* Closing discards what is still on its way. */
    sleep(1);
    srt_close(socket);
    pthread_mutex_lock(&lock);
    print_found();
    _exit(0);
}

int main(int argument_count, char **words) {
    if (argument_count < 8) fail("too few arguments");
    serving = strcmp(words[1], "serve") == 0;
    rate = atof(words[2]);
    count = strtoull(words[3], NULL, 10);
    for (char *one = strtok(words[6], ","); one && size_count < SIZES; one = strtok(NULL, ",")) {
        sizes[size_count] = strtoull(one, NULL, 10);
        if (sizes[size_count] < HEADER || sizes[size_count] > LONGEST) fail("frames of %s bytes cannot be sent", one);
        size_count++;
    }
    if (size_count == 0 || count == 0 || rate <= 0) fail("frames need a size, a rate and a number");
    srt_startup();
    srt_setloglevel(0);
    pthread_t watcher;
    if (pthread_create(&watcher, NULL, watch_input, NULL)) fail("no thread");
    SRTSOCKET socket = open_socket(atoi(words[4]), words[5]);
    if (serving) serve(socket, words[7]);
    else if (argument_count > 8) call(socket, words[7], words[8]);
    else fail("no word of the server");
}
