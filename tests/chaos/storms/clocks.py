"""A process whose wall clock is wrong, as after a bad NTP answer; its monotonic clock is right, as in reality.

A few lines of C in front of the C library, for one process: nothing in Python is replaced. Without a C compiler
there is no such fault.
"""

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long *offset;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void open_offset(void) {
    int file = open(getenv("CLOCK_OFFSET_FILE") ? getenv("CLOCK_OFFSET_FILE") : "", O_RDONLY);
    if (file < 0) return;
    void *found = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) offset = found;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *now) {
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(id, now);
    if (!failed && offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
    return failed;
}

time_t time(time_t *where) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict when, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    when->tv_sec = now.tv_sec;
    when->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"""


class WrongClock:
    """The environment under which a process has this clock; `jump` moves it while the process runs."""

    def __init__(self, folder: Path) -> None:
        self._offset = folder / "clock-offset"
        self._library = folder / "wrong-clock.so"
        self.jump(0)
        source = folder / "wrong-clock.c"
        source.write_text(_SOURCE, "utf-8")
        command = [_compiler() or "cc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(source), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CLOCK_OFFSET_FILE": str(self._offset)}

    def jump(self, seconds: int) -> None:
        """From now on it differs by so much."""
        with self._offset.open("r+b" if self._offset.exists() else "wb") as file:
            file.write(struct.pack("=q", seconds))


def _compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")


def can_be_wrong() -> bool:
    return _compiler() is not None
