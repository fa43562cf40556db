/* Copies a folder after every operation that changes which files it has, so that a test can look at
 * every state that a crash would leave behind. Works for whatever calls libc: Python, the JVM, Rust.
 *
 *   cc -shared -fPIC -O2 -o crash_states.so crash_states.c -ldl
 *   CRASH_WATCH=/abs/warehouse CRASH_COPIES=/abs/copies LD_PRELOAD=$PWD/crash_states.so dqsql run ..
 *
 * The copies are numbered folders in CRASH_COPIES; operations.log there has a line for each.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int operations = 0;

static int watched(const char *path) {
    const char *root = getenv("CRASH_WATCH");
    return root && path && getenv("CRASH_COPIES") && strstr(path, root);
}

static void copy_state(const char *operation, const char *path) {
    const char *root = getenv("CRASH_WATCH"), *copies = getenv("CRASH_COPIES");
    char text[8192];
    int number = ++operations;
    snprintf(text, sizeof text, "%s/operations.log", copies);
    FILE *log = fopen(text, "a");
    if (log) {
        fprintf(log, "%d-%04d %s %s\n", (int)getpid(), number, operation, path);
        fclose(log);
    }
    /* A copy that fails, since a file went meanwhile, lacks that file: it was unlinked anyway. */
    snprintf(text, sizeof text, "LD_PRELOAD= cp -a '%s' '%s/%d-%04d' 2>/dev/null", root, copies,
             (int)getpid(), number);
    if (system(text)) return;
}

#define AFTER(name, parameters, arguments, path)              \
    int name parameters {                                     \
        static int (*real) parameters;                        \
        if (!real) real = dlsym(RTLD_NEXT, #name);            \
        if (!watched(path)) return real arguments;            \
        pthread_mutex_lock(&lock);                            \
        int result = real arguments;                          \
        copy_state(#name, path);                              \
        pthread_mutex_unlock(&lock);                          \
        return result;                                        \
    }

AFTER(rename, (const char *from, const char *to), (from, to), to)
AFTER(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), to)
AFTER(renameat2, (int a, const char *from, int b, const char *to, unsigned flags),
      (a, from, b, to, flags), to)
AFTER(link, (const char *from, const char *to), (from, to), to)
AFTER(linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags),
      to)
AFTER(unlink, (const char *path), (path), path)
AFTER(unlinkat, (int folder, const char *path, int flags), (folder, path, flags), path)
AFTER(remove, (const char *path), (path), path)
AFTER(rmdir, (const char *path), (path), path)
AFTER(mkdir, (const char *path, unsigned mode), (path, mode), path)
