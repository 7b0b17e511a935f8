/* The comparison for `cargo bench -p flashlab --bench live`: a file in memory, served by libfuse and nothing else. With
 * DELAY_NS in the environment each read and write takes so long in the server: it sleeps until 60 us before, and spins. */
#define FUSE_USE_VERSION 31
#include <fuse.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

static char *data;
static off_t size = 1L << 30;
static long delay;

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void wait_until(long due) {
    static __thread int precise;
    if (!precise) precise = !prctl(PR_SET_TIMERSLACK, 1UL);
    long wake = due - 60000;
    struct timespec time = {wake / 1000000000L, wake % 1000000000L};
    if (wake > now()) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
    while (now() < due) continue;
}

static int plain_getattr(const char *path, struct stat *attributes, struct fuse_file_info *file) {
    (void)file;
    memset(attributes, 0, sizeof *attributes);
    if (strcmp(path, "/") == 0) {
        attributes->st_mode = S_IFDIR | 0755;
        attributes->st_nlink = 2;
        return 0;
    }
    if (strcmp(path, "/disk") != 0) return -ENOENT;
    attributes->st_mode = S_IFREG | 0600;
    attributes->st_nlink = 1;
    attributes->st_size = size;
    return 0;
}

static int plain_open(const char *path, struct fuse_file_info *file) {
    (void)path;
    file->direct_io = 1;
    return 0;
}

static int plain_read(const char *path, char *buffer, size_t length, off_t offset, struct fuse_file_info *file) {
    (void)path, (void)file;
    long due = delay ? now() + delay : 0;
    if (offset >= size) return 0;
    if ((off_t)length > size - offset) length = size - offset;
    memcpy(buffer, data + offset, length);
    if (delay) wait_until(due);
    return length;
}

static int plain_write(const char *path, const char *buffer, size_t length, off_t offset,
                       struct fuse_file_info *file) {
    (void)path, (void)file;
    long due = delay ? now() + delay : 0;
    if (offset >= size) return -ENOSPC;
    if ((off_t)length > size - offset) length = size - offset;
    memcpy(data + offset, buffer, length);
    if (delay) wait_until(due);
    return length;
}

static int plain_fsync(const char *path, int data_only, struct fuse_file_info *file) {
    (void)path, (void)data_only, (void)file;
    return 0;
}

static void *plain_init(struct fuse_conn_info *connection, struct fuse_config *config) {
    connection->max_background = 1024;
    connection->congestion_threshold = 1024;
    config->attr_timeout = config->entry_timeout = 3600;
    return NULL;
}

static const struct fuse_operations operations = {
    .init = plain_init,
    .getattr = plain_getattr,
    .open = plain_open,
    .read = plain_read,
    .write = plain_write,
    .fsync = plain_fsync,
};

int main(int argc, char **argv) {
    const char *asked = getenv("DELAY_NS");
    delay = asked ? atol(asked) : 0;
    data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return data == MAP_FAILED ? 1 : fuse_main(argc, argv, &operations, NULL);
}
