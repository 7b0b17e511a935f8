/* A flash device that shares no code with flashlab: an NBD server over a Unix socket, on the wall clock.
 *
 * flash stick|drive SOCKET JITTER_US SEED [virtual]
 *
 * stick: log blocks with one data block each (Kim et al., "A space-efficient flash translation layer for CompactFlash
 *        systems", 2002), 64 MiB, one chip. Pages of zeros are programmed in a quarter of the time (Birk's and the uFLIP
 *        authors' observation that the cost of writes depends on their content).
 * drive: a page map with superblocks and greedy collection (Birrell et al., "A Design for High-Performance Flash Disks",
 *        2007; Agrawal et al., USENIX ATC 2008), 256 MiB, four dies, behind a volatile buffer of 4 MiB. A write is
 *        answered when the buffer has it. A flush waits for all that the buffer holds.
 *
 * One request is served after the other. Each waits for the transport in addition: 20 us, and a uniform 0 to JITTER_US.
 * The protocol is the fixed newstyle handshake with NBD_OPT_GO and simple replies (github.com/NetworkBlockDevice/nbd,
 * doc/proto.md). One connection; the server ends with it.
 *
 * virtual: no clock and no NBD. A request is its time of arrival, its type as in NBD, offset, size, and the data of a write; the
 * answer is the time at which it is done. All numbers have 64 bits, in network order.
 */
#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define US 1000ull
#define MS 1000000ull
#define KIB 1024ull
#define MIB (1024ull * KIB)
/* A sleep ends late by about this much; the rest of a wait is spun. */
#define SPIN (120 * US)
#define NOWHERE UINT32_MAX

static uint8_t *data;
static uint64_t capacity, page, transport_jitter, state;

static bool is_virtual;
static uint64_t virtual_time;

static uint64_t now(void) {
    if (is_virtual) return virtual_time;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void wait_until(uint64_t due) {
    uint64_t at = now();
    if (due > at + SPIN) {
        uint64_t left = due - at - SPIN;
        struct timespec t = {(time_t)(left / 1000000000ull), (long)(left % 1000000000ull)};
        nanosleep(&t, NULL);
    }
    while (now() < due) {}
}

/* xorshift64*, Marsaglia and Vigna. */
static uint64_t random_below(uint64_t bound) {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return bound ? (state * 2685821657736338717ull >> 16) % bound : 0;
}

static bool is_zero(uint64_t number) {
    const uint8_t *at = data + number * page;
    return at[0] == 0 && memcmp(at, at + 1, page - 1) == 0;
}

/* --- the stick --- */

enum { STICK_PAGES = 64, LOGS = 6 };
static const uint64_t STICK_READ = 110 * US, STICK_PROGRAM = 320 * US, STICK_ERASE = 1800 * US, STICK_COMMAND = 60 * US;
struct log { uint64_t owner, written; bool in_order; };
static struct log logs[LOGS]; /* the least recently used one first */
static int log_count;
static uint64_t filled[64 * MIB / (STICK_PAGES * 4 * KIB)];

static uint64_t stick_program(uint64_t number) { return is_zero(number) ? STICK_PROGRAM / 4 : STICK_PROGRAM; }

static uint64_t stick_merge(struct log log) {
    uint64_t first = log.in_order ? log.written : 0, time = (log.in_order ? 1 : 2) * STICK_ERASE;
    for (uint64_t i = first; i < STICK_PAGES; i++) time += STICK_READ + stick_program(log.owner * STICK_PAGES + i);
    return time;
}

static uint64_t stick_write(uint64_t number) {
    uint64_t block = number / STICK_PAGES, offset = number % STICK_PAGES, time = stick_program(number);
    int i = 0;
    while (i < log_count && logs[i].owner != block) i++;
    if (i == log_count && filled[block] <= offset) {
        filled[block] = offset + 1;
        return time;
    }
    if (i < log_count) {
        struct log log = logs[i];
        memmove(&logs[i], &logs[i + 1], (size_t)(--log_count - i) * sizeof *logs);
        if (log.written < STICK_PAGES) {
            log.in_order = log.in_order && log.written == offset;
            log.written++;
            logs[log_count++] = log;
            return time;
        }
        time += stick_merge(log);
    } else if (log_count == LOGS) {
        struct log oldest = logs[0];
        memmove(&logs[0], &logs[1], (size_t)(--log_count) * sizeof *logs);
        time += stick_merge(oldest);
    }
    filled[block] = STICK_PAGES;
    logs[log_count++] = (struct log){block, 1, offset == 0};
    return time;
}

/* When the request is done, of one that begins now. */
static uint64_t stick(bool write, uint64_t offset, uint64_t size) {
    uint64_t time = STICK_COMMAND + size * 40; /* 25 MB/s */
    for (uint64_t number = offset / page; number * page < offset + size; number++) {
        bool whole = offset <= number * page && (number + 1) * page <= offset + size;
        if (!write || !whole) time += STICK_READ;
        if (write) time += stick_write(number);
    }
    return now() + time;
}

/* --- the drive --- */

enum { DIES = 4, ROWS = 64, DRIVE_PAGES = DIES * ROWS, BLOCKS = 146, BUFFERED = 4 * 1024 / 8 };
static const uint64_t DRIVE_READ = 70 * US, DRIVE_PROGRAM = 600 * US, DRIVE_ERASE = 2500 * US, DRIVE_COMMAND = 15 * US;
static uint32_t place[256 * MIB / (8 * KIB)], owner[BLOCKS * DRIVE_PAGES], valid[BLOCKS], free_blocks[BLOCKS];
static uint32_t free_count, open_block, next_page;
static uint64_t busy[DIES];
/* When the pages of the buffer, the oldest first, are programmed. */
static uint64_t programmed[BUFFERED];
static uint32_t of_page[BUFFERED];
static uint64_t head, held;

static uint64_t work(uint32_t physical, uint64_t time, uint64_t at) {
    uint64_t *die = &busy[physical % DIES];
    *die = (*die > at ? *die : at) + time;
    return *die;
}

static uint64_t append(uint32_t logical, uint64_t at) {
    uint32_t physical = open_block * DRIVE_PAGES + next_page++, old = place[logical];
    place[logical] = physical;
    if (old != NOWHERE) valid[old / DRIVE_PAGES]--, owner[old] = NOWHERE;
    owner[physical] = logical;
    valid[open_block]++;
    return work(physical, DRIVE_PROGRAM, at);
}

static void collect_until_free(uint64_t at) {
    while (next_page == DRIVE_PAGES) {
        open_block = free_blocks[--free_count], next_page = 0;
        if (free_count > 0) continue;
        uint32_t victim = open_block == 0 ? 1 : 0;
        for (uint32_t block = 0; block < BLOCKS; block++)
            if (block != open_block && valid[block] < valid[victim]) victim = block;
        for (uint32_t i = victim * DRIVE_PAGES; i < (victim + 1) * DRIVE_PAGES; i++)
            if (owner[i] != NOWHERE) append(owner[i], work(i, DRIVE_READ, at));
        for (uint32_t die = 0; die < DIES; die++) work(die, DRIVE_ERASE, at);
        free_blocks[free_count++] = victim;
    }
}

/* Pages that are programmed leave the buffer. */
static void leave(uint64_t at) {
    while (held > 0 && programmed[head % BUFFERED] <= at) head++, held--;
}

static bool is_buffered(uint32_t logical) {
    for (uint64_t i = 0; i < held; i++)
        if (of_page[(head + i) % BUFFERED] == logical) return true;
    return false;
}

static uint64_t drive_read(uint32_t logical, uint64_t at) {
    return place[logical] == NOWHERE || is_buffered(logical) ? at : work(place[logical], DRIVE_READ, at);
}

static uint64_t drive(bool write, uint64_t offset, uint64_t size) {
    uint64_t at = now() + DRIVE_COMMAND + size * 4, done = at; /* 250 MB/s */
    leave(at);
    for (uint64_t number = offset / page; number * page < offset + size; number++) {
        uint32_t logical = (uint32_t)number;
        if (!write) {
            uint64_t read = drive_read(logical, at);
            done = read > done ? read : done;
            continue;
        }
        bool whole = offset <= number * page && (number + 1) * page <= offset + size;
        uint64_t ready = whole ? at : drive_read(logical, at);
        if (held == BUFFERED) {
            uint64_t room = programmed[head % BUFFERED];
            at = room > at ? room : at;
            leave(at);
            if (held == BUFFERED) head++, held--;
        }
        ready = ready > at ? ready : at;
        collect_until_free(ready);
        uint64_t on_flash = append(logical, ready), last = held ? programmed[(head + held - 1) % BUFFERED] : 0;
        programmed[(head + held) % BUFFERED] = on_flash > last ? on_flash : last;
        of_page[(head + held++) % BUFFERED] = logical;
        done = ready > done ? ready : done;
    }
    return done;
}

static uint64_t drive_flush(void) {
    uint64_t done = now(), last = held ? programmed[(head + held - 1) % BUFFERED] : 0;
    return last > done ? last : done;
}

/* When a request that begins now is done; the type is NBD's. */
static uint64_t when_done(uint64_t type, uint64_t offset, uint64_t size, bool is_drive) {
    uint64_t due = now();
    if (type <= 1) due = is_drive ? drive(type == 1, offset, size) : stick(type == 1, offset, size);
    if (type == 3 && is_drive) due = drive_flush();
    return due + 20 * US + random_below(transport_jitter + 1);
}

/* --- the protocol --- */

static void transfer(int fd, void *buffer, size_t size, bool out) {
    for (uint8_t *at = buffer; size > 0;) {
        ssize_t moved = out ? write(fd, at, size) : read(fd, at, size);
        if (moved <= 0) exit(0);
        at += moved, size -= (size_t)moved;
    }
}

static uint64_t get(int fd, size_t bytes) {
    uint64_t value = 0;
    transfer(fd, &value, bytes, false);
    return be64toh(value) >> (64 - 8 * bytes);
}

static void put(int fd, uint64_t value, size_t bytes) {
    value = htobe64(value << (64 - 8 * bytes));
    transfer(fd, &value, bytes, true);
}

static void reply(int fd, uint32_t option, uint32_t type, uint32_t length) {
    put(fd, 0x3e889045565a9ull, 8), put(fd, option, 4), put(fd, type, 4), put(fd, length, 4);
}

static void handshake(int fd) {
    put(fd, 0x4e42444d41474943ull, 8), put(fd, 0x49484156454f5054ull, 8), put(fd, 3, 2); /* fixed newstyle, no zeroes */
    get(fd, 4);
    for (;;) {
        get(fd, 8);
        uint32_t option = (uint32_t)get(fd, 4), length = (uint32_t)get(fd, 4);
        uint8_t skipped[4096];
        if (length > sizeof skipped) exit(1);
        transfer(fd, skipped, length, false);
        if (option == 7 || option == 6) { /* NBD_OPT_GO, NBD_OPT_INFO */
            reply(fd, option, 3, 12);     /* NBD_REP_INFO: NBD_INFO_EXPORT */
            put(fd, 0, 2), put(fd, capacity, 8), put(fd, 5, 2); /* has flags, sends flush */
            reply(fd, option, 1, 0);
            if (option == 7) return;
        } else if (option == 1) { /* NBD_OPT_EXPORT_NAME */
            put(fd, capacity, 8), put(fd, 5, 2);
            return;
        } else if (option == 2) { /* NBD_OPT_ABORT */
            reply(fd, option, 1, 0);
            exit(0);
        } else {
            reply(fd, option, 0x80000001u, 0); /* NBD_REP_ERR_UNSUP */
        }
    }
}

static void serve(int fd, bool is_drive) {
    for (;;) {
        if (get(fd, 4) != 0x25609513) exit(1);
        get(fd, 2);
        uint64_t type = get(fd, 2), handle = get(fd, 8), offset = get(fd, 8), size = get(fd, 4), error = 0;
        uint64_t due = now();
        bool fits = offset <= capacity && size <= capacity - offset;
        if (type == 2) exit(0);
        if (type == 1 && !fits) exit(1);
        if (type == 1) transfer(fd, data + offset, size, false);
        if ((type <= 1 && fits) || type == 3) due = when_done(type, offset, size, is_drive);
        else error = 22;
        wait_until(due);
        put(fd, 0x67446698, 4), put(fd, error, 4), put(fd, handle, 8);
        if (type == 0 && fits) transfer(fd, data + offset, size, true);
    }
}

static void serve_virtually(int fd, bool is_drive) {
    for (;;) {
        uint64_t arrival = get(fd, 8), type = get(fd, 8), offset = get(fd, 8), size = get(fd, 8);
        if (type == 1) transfer(fd, data + offset, size, false);
        virtual_time = arrival > virtual_time ? arrival : virtual_time;
        put(fd, virtual_time = when_done(type, offset, size, is_drive), 8);
    }
}

int main(int count, char **arguments) {
    is_virtual = count == 6 && strcmp(arguments[5], "virtual") == 0;
    if (count != 5 && !is_virtual) return fprintf(stderr, "usage: flash stick|drive SOCKET JITTER_US SEED [virtual]\n"), 2;
    bool is_drive = strcmp(arguments[1], "drive") == 0;
    capacity = (is_drive ? 256 : 64) * MIB, page = (is_drive ? 8 : 4) * KIB;
    transport_jitter = strtoull(arguments[3], NULL, 10) * US;
    state = strtoull(arguments[4], NULL, 10) * 0x9e3779b97f4a7c15ull + 1;
    data = calloc(capacity, 1);
    memset(place, 0xff, sizeof place), memset(owner, 0xff, sizeof owner);
    for (uint32_t block = BLOCKS - 1; block > 0; block--) free_blocks[free_count++] = block;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(arguments[2]) >= sizeof address.sun_path) return fprintf(stderr, "the path of the socket is too long\n"), 2;
    strcpy(address.sun_path, arguments[2]);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1)) return perror("flash"), 1;
    int fd = accept(listener, NULL, NULL);
    if (is_virtual) serve_virtually(fd, is_drive);
    handshake(fd);
    serve(fd, is_drive);
}
