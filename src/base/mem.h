/*
 * The five memory functions that every compiler may call on its own.
 *
 * `base` and `core` compile for a freestanding target (wasm32 without a C library), where
 * <string.h> does not exist; there the host supplies these symbols. Nothing else of the C library
 * may be used in these two rooms.
 */
#ifndef PW_BASE_MEM_H
#define PW_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if __STDC_HOSTED__
#include <string.h>
#else
void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);
size_t strlen(const char *text);
#endif

#endif
