/*
 * flashlab_volume: a volume of `flashlab repair create` for programs in C.
 *
 * Random writes become large sequential ones. Data is durable after flashlab_volume_fsync; after a crash the volume holds
 * the state after one of the writes, and not before the last fsync (docs/repair.md, "What is durable when").
 *
 * A volume has one opener: a second one, also another process, is refused with EBUSY. All functions but
 * flashlab_volume_close may be called by several threads at once. After fork() only the parent may use the volume: a
 * child's calls fail with EBADF.
 *
 * A function that fails sets errno; flashlab_volume_error() has the reason in words.
 */
#ifndef FLASHLAB_VOLUME_H
#define FLASHLAB_VOLUME_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct flashlab_volume flashlab_volume;

/* Opens the volume in a file or on a block device, and recovers it after a crash. NULL: it failed.
 * EMEDIUMTYPE: there is no volume; ENOTBLK: it carries files; EUCLEAN: it is damaged; EBUSY: it is in use; and the errors of open(2). */
flashlab_volume *flashlab_volume_open(const char *path);

/* The size of the volume in bytes; it does not change. */
uint64_t flashlab_volume_size(const flashlab_volume *volume);

/* As pread(2) and pwrite(2) on a block device: fewer bytes than asked for at the end of the volume. Beyond it pread
 * returns 0, and pwrite fails with ENOSPC. Space that was never written, or was discarded, reads as zeroes.
 * EIO: the device failed, or what it holds is not what was written. */
ssize_t flashlab_volume_pread(flashlab_volume *volume, void *buffer, size_t count, int64_t offset);
ssize_t flashlab_volume_pwrite(flashlab_volume *volume, const void *buffer, size_t count, int64_t offset);

/* Makes every write and discard durable that returned before. After an error the volume takes no more writes: what is
 * durable is not known until it is opened once more. */
int flashlab_volume_fsync(flashlab_volume *volume);

/* The range reads as zeroes from now on, and its space can be reused. */
int flashlab_volume_discard(flashlab_volume *volume, int64_t offset, int64_t length);

/* Makes everything durable and closes the volume, whatever it returns. No other call may be under way. */
int flashlab_volume_close(flashlab_volume *volume);

/* Why the last call of this thread failed; valid until its next call. */
const char *flashlab_volume_error(void);

#ifdef __cplusplus
}
#endif

#endif
