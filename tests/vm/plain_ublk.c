/* The comparison for tests/vm/ublk_speed.sh: a block device in memory through ublk, and nothing else. No clock, no counting,
 * no model: what a server of ublk with one copy can do.
 *
 *   plain_ublk MEBIBYTES QUEUES     makes /dev/ublkbN, prints its path, and serves until it is killed */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/ublk_cmd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Headers of before Linux 6.4 do not have these. */
#ifndef UBLK_U_IO_FETCH_REQ
#define UBLK_U_CMD_ADD_DEV _IOWR('u', 0x04, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_START_DEV _IOWR('u', 0x06, struct ublksrv_ctrl_cmd)
#define UBLK_U_CMD_SET_PARAMS _IOWR('u', 0x08, struct ublksrv_ctrl_cmd)
#define UBLK_U_IO_FETCH_REQ _IOWR('u', 0x20, struct ublksrv_io_cmd)
#define UBLK_U_IO_COMMIT_AND_FETCH_REQ _IOWR('u', 0x21, struct ublksrv_io_cmd)
#endif
#ifndef UBLK_F_CMD_IOCTL_ENCODE
#define UBLK_F_CMD_IOCTL_ENCODE (1UL << 6)
#endif

#define DEPTH 128
#define LARGEST (1 << 20)

struct ring {
    int fd;
    unsigned entries, sqe_size;
    unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask, pending;
    struct io_uring_cqe *cqes;
    char *sqes;
};

static char *data;
static size_t size;
static int channel;
static pthread_barrier_t all_fetch;

static void must(int good, const char *what) {
    if (good) return;
    perror(what);
    exit(1);
}

static void ring_make(struct ring *ring, unsigned entries, unsigned flags) {
    struct io_uring_params p = {.flags = flags};
    ring->fd = syscall(__NR_io_uring_setup, entries, &p);
    must(ring->fd >= 0, "io_uring_setup");
    size_t sq_bytes = p.sq_off.array + p.sq_entries * sizeof(unsigned);
    size_t cq_bytes = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
    size_t bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
    char *both = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQ_RING);
    ring->sqe_size = flags & IORING_SETUP_SQE128 ? 128 : 64;
    ring->sqes = mmap(NULL, p.sq_entries * ring->sqe_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd,
                      IORING_OFF_SQES);
    must(both != MAP_FAILED && ring->sqes != MAP_FAILED, "mmap of a ring");
    ring->entries = p.sq_entries;
    ring->sq_tail = (unsigned *)(both + p.sq_off.tail);
    ring->sq_mask = (unsigned *)(both + p.sq_off.ring_mask);
    ring->sq_array = (unsigned *)(both + p.sq_off.array);
    ring->cq_head = (unsigned *)(both + p.cq_off.head);
    ring->cq_tail = (unsigned *)(both + p.cq_off.tail);
    ring->cq_mask = (unsigned *)(both + p.cq_off.ring_mask);
    ring->cqes = (struct io_uring_cqe *)(both + p.cq_off.cqes);
    ring->pending = 0;
}

static struct io_uring_sqe *ring_next(struct ring *ring, int fd, unsigned operation) {
    unsigned tail = *ring->sq_tail, index = tail & *ring->sq_mask;
    struct io_uring_sqe *sqe = (struct io_uring_sqe *)(ring->sqes + (size_t)index * ring->sqe_size);
    memset(sqe, 0, ring->sqe_size);
    sqe->opcode = IORING_OP_URING_CMD;
    sqe->fd = fd;
    sqe->cmd_op = operation;
    ring->sq_array[index] = index;
    ring->pending++;
    return sqe;
}

/* The entry is filled. */
static void ring_push(struct ring *ring) { __atomic_store_n(ring->sq_tail, *ring->sq_tail + 1, __ATOMIC_RELEASE); }

static void ring_enter(struct ring *ring, unsigned wait) {
    int done = syscall(__NR_io_uring_enter, ring->fd, ring->pending, wait, wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
    if (done > 0) ring->pending -= done;
}

static void control(struct ring *ring, int fd, unsigned operation, unsigned device, void *buffer, unsigned length,
                    uint64_t number) {
    struct io_uring_sqe *sqe = ring_next(ring, fd, operation);
    struct ublksrv_ctrl_cmd *command = (struct ublksrv_ctrl_cmd *)sqe->cmd;
    command->dev_id = device;
    command->queue_id = -1;
    command->addr = (uintptr_t)buffer;
    command->len = length;
    command->data[0] = number;
    ring_push(ring);
    ring_enter(ring, 1);
    struct io_uring_cqe *cqe = &ring->cqes[*ring->cq_head & *ring->cq_mask];
    int result = cqe->res;
    __atomic_store_n(ring->cq_head, *ring->cq_head + 1, __ATOMIC_RELEASE);
    if (result < 0) fprintf(stderr, "command %#x: %s\n", operation, strerror(-result)), exit(1);
}

static void fetch(struct ring *ring, unsigned operation, unsigned queue, unsigned tag, int result, char *buffer) {
    struct io_uring_sqe *sqe = ring_next(ring, channel, operation);
    struct ublksrv_io_cmd *command = (struct ublksrv_io_cmd *)sqe->cmd;
    command->q_id = queue;
    command->tag = tag;
    command->result = result;
    command->addr = (uintptr_t)buffer;
    sqe->user_data = tag;
    ring_push(ring);
}

static void *serve(void *argument) {
    unsigned queue = (uintptr_t)argument;
    struct ring ring;
    ring_make(&ring, DEPTH, IORING_SETUP_SINGLE_ISSUER);
    size_t apart = (UBLK_MAX_QUEUE_DEPTH * sizeof(struct ublksrv_io_desc) + 4095) / 4096 * 4096;
    const struct ublksrv_io_desc *descriptors = mmap(NULL, DEPTH * sizeof *descriptors, PROT_READ,
                                                     MAP_SHARED | MAP_POPULATE, channel, queue * apart);
    char *buffers = aligned_alloc(4096, (size_t)DEPTH * LARGEST);
    must(descriptors != MAP_FAILED && buffers, "memory of a queue");
    for (unsigned tag = 0; tag < DEPTH; tag++)
        fetch(&ring, UBLK_U_IO_FETCH_REQ, queue, tag, 0, buffers + (size_t)tag * LARGEST);
    ring_enter(&ring, 0);
    pthread_barrier_wait(&all_fetch);
    for (;;) {
        unsigned head = *ring.cq_head;
        while (head != __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE)) {
            struct io_uring_cqe *cqe = &ring.cqes[head++ & *ring.cq_mask];
            if (cqe->res != UBLK_IO_RES_OK) return NULL;
            unsigned tag = cqe->user_data;
            const struct ublksrv_io_desc *request = &descriptors[tag];
            size_t at = request->start_sector << 9, length = (size_t)request->nr_sectors << 9;
            char *buffer = buffers + (size_t)tag * LARGEST;
            unsigned operation = ublksrv_get_op(request);
            if (operation == UBLK_IO_OP_READ) memcpy(buffer, data + at, length);
            if (operation == UBLK_IO_OP_WRITE) memcpy(data + at, buffer, length);
            fetch(&ring, UBLK_U_IO_COMMIT_AND_FETCH_REQ, queue, tag, length, buffer);
        }
        __atomic_store_n(ring.cq_head, head, __ATOMIC_RELEASE);
        ring_enter(&ring, 1);
    }
}

int main(int count, char **arguments) {
    if (count != 3) return fprintf(stderr, "plain_ublk MEBIBYTES QUEUES\n"), 2;
    size = strtoul(arguments[1], NULL, 10) << 20;
    unsigned queues = strtoul(arguments[2], NULL, 10);
    data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int fd = open("/dev/ublk-control", O_RDWR);
    must(data != MAP_FAILED && fd >= 0, "/dev/ublk-control");
    struct ring ring;
    ring_make(&ring, 4, IORING_SETUP_SQE128);
    struct ublksrv_ctrl_dev_info info = {.nr_hw_queues = queues, .queue_depth = DEPTH, .max_io_buf_bytes = LARGEST,
                                         .dev_id = -1, .flags = UBLK_F_CMD_IOCTL_ENCODE};
    control(&ring, fd, UBLK_U_CMD_ADD_DEV, -1, &info, sizeof info, 0);
    struct ublk_params parameters = {.len = sizeof parameters, .types = UBLK_PARAM_TYPE_BASIC};
    parameters.basic.logical_bs_shift = 9;
    parameters.basic.physical_bs_shift = parameters.basic.io_opt_shift = 12;
    parameters.basic.io_min_shift = 9;
    parameters.basic.max_sectors = LARGEST >> 9;
    parameters.basic.dev_sectors = size >> 9;
    control(&ring, fd, UBLK_U_CMD_SET_PARAMS, info.dev_id, &parameters, sizeof parameters, 0);
    char path[64];
    snprintf(path, sizeof path, "/dev/ublkc%u", info.dev_id);
    for (int tries = 0; (channel = open(path, O_RDWR)) < 0 && tries < 500; tries++) usleep(10000);
    must(channel >= 0, path);
    pthread_barrier_init(&all_fetch, NULL, queues + 1);
    for (uintptr_t queue = 0; queue < queues; queue++) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, serve, (void *)queue) == 0, "pthread_create");
    }
    pthread_barrier_wait(&all_fetch);
    control(&ring, fd, UBLK_U_CMD_START_DEV, info.dev_id, NULL, 0, getpid());
    printf("/dev/ublkb%u\n", info.dev_id);
    fflush(stdout);
    for (;;) pause();
}
