/* Between bench.c, which stands on pawl.h alone, and bench_baseline.c, which stands on SQLite
 * alone. */
#ifndef PAWL_CLI_BENCH_H
#define PAWL_CLI_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The raw loop: the journal rows that are in the closed store `from` are inserted into a table of
 * the same shape with the same indexes in the new file `to`, `group` rows a transaction, every
 * commit synced. Only inserts and commits are in `*ret_seconds`. The file is removed afterwards.
 * false: `message` says why.
 */
bool cli_bench_baseline(const char *from, const char *to, double group, double *ret_seconds,
                        char *message, size_t message_size);

#endif
