/* Uses a volume through the C interface: `refusals`, `threads`, `write` until it is killed, or `verify LAST`. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "flashlab_volume.h"

enum { PAGE = 4096, PAGES = 200, THREADS = 4 };

#define CHECK(holds)                                                                                              \
    do {                                                                                                          \
        if (!(holds)) {                                                                                           \
            fprintf(stderr, "%s:%d: %s: errno %d, %s\n", __FILE__, __LINE__, #holds, errno,                      \
                    flashlab_volume_error());                                                                     \
            exit(1);                                                                                              \
        }                                                                                                         \
    } while (0)

static flashlab_volume *volume;

static void fill(unsigned char *page, unsigned number, unsigned round) {
    for (int at = 0; at < PAGE; at += 8) {
        memcpy(page + at, &number, 4);
        memcpy(page + at + 4, &round, 4);
    }
}

static int64_t place(unsigned number) {
    /* Far from each other, and not in order. */
    return (int64_t)(number * 37 % PAGES) * 16 * PAGE;
}

static void refusals(const char *path) {
    char buffer[PAGE];
    CHECK(flashlab_volume_open("/nonexistent/volume") == NULL && errno == ENOENT);
    CHECK(strstr(flashlab_volume_error(), "/nonexistent/volume") != NULL);
    CHECK(flashlab_volume_open(NULL) == NULL && errno == EFAULT);
    CHECK(flashlab_volume_open("/etc/passwd") == NULL && errno == EMEDIUMTYPE);
    CHECK(flashlab_volume_open(path) == NULL && errno == EBUSY);
    CHECK(flashlab_volume_fsync(NULL) == -1 && errno == EBADF);
    int64_t size = (int64_t)flashlab_volume_size(volume);
    CHECK(flashlab_volume_pread(volume, buffer, PAGE, size) == 0);
    CHECK(flashlab_volume_pread(volume, buffer, PAGE, size - 100) == 100);
    CHECK(flashlab_volume_pwrite(volume, buffer, PAGE, size - 100) == 100);
    CHECK(flashlab_volume_pwrite(volume, buffer, PAGE, size) == -1 && errno == ENOSPC);
    CHECK(flashlab_volume_pwrite(volume, buffer, 0, size) == 0);
    CHECK(flashlab_volume_pread(volume, buffer, PAGE, -1) == -1 && errno == EINVAL);
    CHECK(flashlab_volume_pread(volume, NULL, PAGE, 0) == -1 && errno == EFAULT);
    CHECK(flashlab_volume_discard(volume, 0, -1) == -1 && errno == EINVAL);
    CHECK(flashlab_volume_pwrite(volume, "across two pages", 16, PAGE - 8) == 16);
    CHECK(flashlab_volume_pread(volume, buffer, 16, PAGE - 8) == 16 && memcmp(buffer, "across two pages", 16) == 0);
    CHECK(flashlab_volume_discard(volume, PAGE, PAGE) == 0);
    CHECK(flashlab_volume_pread(volume, buffer, 16, PAGE - 8) == 16 && memcmp(buffer, "across t\0\0\0\0\0\0\0\0", 16) == 0);
    pid_t child = fork();
    if (child == 0) {
        _exit(flashlab_volume_fsync(volume) == -1 && errno == EBADF ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void *use_own_pages(void *argument) {
    unsigned own = (unsigned)(size_t)argument;
    unsigned char page[PAGE], read[PAGE];
    for (unsigned round = 1; round <= 20; round++) {
        for (unsigned number = own; number < PAGES; number += THREADS) {
            fill(page, number, round);
            CHECK(flashlab_volume_pwrite(volume, page, PAGE, place(number)) == PAGE);
        }
        CHECK(flashlab_volume_fsync(volume) == 0);
        for (unsigned number = own; number < PAGES; number += THREADS) {
            fill(page, number, round);
            CHECK(flashlab_volume_pread(volume, read, PAGE, place(number)) == PAGE);
            CHECK(memcmp(page, read, PAGE) == 0);
        }
    }
    return NULL;
}

static void threads(void) {
    pthread_t all[THREADS];
    for (size_t own = 0; own < THREADS; own++) {
        CHECK(pthread_create(&all[own], NULL, use_own_pages, (void *)own) == 0);
    }
    for (size_t own = 0; own < THREADS; own++) {
        CHECK(pthread_join(all[own], NULL) == 0);
    }
}

/* Round after round into all pages; a round that was flushed is printed. */
static void write_until_killed(void) {
    unsigned char page[PAGE];
    for (unsigned round = 1;; round++) {
        for (unsigned number = 0; number < PAGES; number++) {
            fill(page, number, round);
            CHECK(flashlab_volume_pwrite(volume, page, PAGE, place(number)) == PAGE);
        }
        CHECK(flashlab_volume_fsync(volume) == 0);
        printf("%u\n", round);
        fflush(stdout);
    }
}

/* The pages are of round `last` or later, and those of the last round come first: a prefix of what was written. */
static void verify(unsigned last) {
    unsigned char page[PAGE], read[PAGE];
    unsigned previous = 0;
    for (unsigned number = 0; number < PAGES; number++) {
        CHECK(flashlab_volume_pread(volume, read, PAGE, place(number)) == PAGE);
        unsigned round;
        memcpy(&round, read + 4, 4);
        CHECK(round >= last);
        CHECK(number == 0 || round == previous || round == previous - 1);
        fill(page, number, round);
        CHECK(memcmp(page, read, PAGE) == 0);
        previous = round;
    }
}

int main(int count, char **arguments) {
    assert(count >= 3);
    volume = flashlab_volume_open(arguments[1]);
    CHECK(volume != NULL);
    if (strcmp(arguments[2], "refusals") == 0) {
        refusals(arguments[1]);
    } else if (strcmp(arguments[2], "threads") == 0) {
        threads();
    } else if (strcmp(arguments[2], "write") == 0) {
        write_until_killed();
    } else {
        verify((unsigned)atoi(arguments[3]));
    }
    CHECK(flashlab_volume_close(volume) == 0);
    return 0;
}
