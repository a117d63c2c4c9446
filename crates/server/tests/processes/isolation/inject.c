/*
 * Makes system calls in a thread of another process: inject TID < calls > results
 *
 * Each line has a number and up to six arguments: numbers, s:TEXT for an address with that text,
 * x:HEX for one with those bytes, $ for the result of the call before. Each result has a line of
 * its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(int is_well, const char *what)
{
    if (!is_well) {
        perror(what);
        exit(1);
    }
}

static void await_stop(int thread)
{
    int status;
    check(waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status), "wait");
}

/* The address of a `syscall` instruction. */
static unsigned long instruction(int thread, int memory)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/maps", thread);
    FILE *maps = fopen(path, "r");
    check(maps != NULL, path);
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (!strstr(line, "[vdso]") || sscanf(line, "%lx-%lx", &start, &end) != 2)
            continue;
        for (unsigned long at = start; at + 1 < end; at++) {
            unsigned char code[2];
            check(pread(memory, code, 2, at) == 2, "read");
            if (code[0] == 0x0f && code[1] == 0x05)
                return at;
        }
    }
    fprintf(stderr, "no system call in the vdso\n");
    exit(1);
}

int main(int count, char **arguments)
{
    check(count == 2, "arguments");
    int thread = atoi(arguments[1]);
    check(ptrace(PTRACE_SEIZE, thread, 0, 0) == 0, "seize");
    check(ptrace(PTRACE_INTERRUPT, thread, 0, 0) == 0, "interrupt");
    await_stop(thread);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", thread);
    int memory = open(path, O_RDWR);
    check(memory >= 0, path);
    struct user_regs_struct before, now;
    check(ptrace(PTRACE_GETREGS, thread, 0, &before) == 0, "registers");
    unsigned long at = instruction(thread, memory), last = 0;
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        unsigned long values[7] = {0}, room = before.rsp - 16384;
        int number = 0;
        for (char *word = strtok(line, " \n"); word && number < 7;
                word = strtok(NULL, " \n"), number++) {
            char bytes[1024] = {0};
            size_t length = 0;
            if (word[0] == 's') {
                length = strlen(word + 2) + 1;
                memcpy(bytes, word + 2, length);
            } else if (word[0] == 'x') {
                for (char *hex = word + 2; sscanf(hex, "%2hhx", &bytes[length]) == 1; hex += 2)
                    length++;
            } else {
                values[number] = word[0] == '$' ? last : strtoul(word, NULL, 0);
                continue;
            }
            check(pwrite(memory, bytes, length, room) == (ssize_t)length, "write");
            values[number] = room;
            room += 1024;
        }
        now = before;
        now.orig_rax = -1;
        now.rip = at;
        now.rax = values[0], now.rdi = values[1], now.rsi = values[2], now.rdx = values[3];
        now.r10 = values[4], now.r8 = values[5], now.r9 = values[6];
        check(ptrace(PTRACE_SETREGS, thread, 0, &now) == 0, "registers");
        check(ptrace(PTRACE_SINGLESTEP, thread, 0, 0) == 0, "step");
        await_stop(thread);
        check(ptrace(PTRACE_GETREGS, thread, 0, &now) == 0, "registers");
        last = now.rax;
        printf("%ld\n", (long)last);
    }
    check(ptrace(PTRACE_SETREGS, thread, 0, &before) == 0, "registers");
    check(ptrace(PTRACE_DETACH, thread, 0, 0) == 0, "detach");
    return 0;
}
