/* Preloaded into user-mode Linux. Its buffer for the extended registers of a process (NT_X86_XSTATE)
 * ends before those of AMX, which processors since 2023 have, and the host's kernel takes the
 * registers only as a whole: the first process of the guest ends with "fatal_sigsegv". Here the rest
 * is added as the process has it. */
#define _GNU_SOURCE
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char all[1 << 16];

long ptrace(enum __ptrace_request request, ...)
{
    va_list rest;
    va_start(rest, request);
    pid_t pid = va_arg(rest, pid_t);
    void *addr = va_arg(rest, void *);
    void *data = va_arg(rest, void *);
    va_end(rest);

    struct iovec whole = { all, sizeof all };
    if (request == PTRACE_SETREGSET && (unsigned long)addr == NT_X86_XSTATE) {
        struct iovec *part = data;
        if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, addr, &whole) < 0)
            return -1;
        if (part->iov_len < whole.iov_len) {
            memcpy(all, part->iov_base, part->iov_len);
            data = &whole;
        }
    }
    /* The system call stores a word where the function of libc returns it. */
    long word = 0;
    int peeks = request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER;
    long done = syscall(SYS_ptrace, request, pid, addr, peeks ? &word : data);
    return peeks && done == 0 ? word : done;
}
