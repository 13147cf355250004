/* A loop for zstd's Huffman decoder that takes two symbols with one look at the table, where both codes fit into its
 * index: of the exponents of weights nearly always. zstd has tables of pairs, too, but what builds and reads them takes
 * several times the code of this. Included by zstd's huf_decompress.c; see cmake/WideBits.cmake. */
#ifndef ESPALIER_WASM_HUFFMAN_PAIRS_H_
#define ESPALIER_WASM_HUFFMAN_PAIRS_H_

enum {
    kIndexBits = 11,      /* HUF_DECODER_FAST_TABLELOG */
    kLookups = 5,         /* between two looks at the input: 55 bits of the 57 that are there */
    kWorthPairs = 1 << 13 /* bytes of output for which a table of pairs is worth building */
};

/* Decodes most of four streams, and leaves the ends to the caller, who checks how far each has come. Never reads below
 * `ilimit` or writes at or beyond the end of a stream's part of the output, whatever the bits say. */
static void HUF_decompressPairs(HUF_DecompressFastArgs* args)
{
    /* Of an entry: bits that it takes (6), two symbols from bit 8 on, how many of them count from bit 24 on. */
    static U32 pairs[1 << kIndexBits];
    U16 const* const singles = (U16 const*)args->dt; /* bits in the lower byte, the symbol in the upper one */
    BYTE* const end[4] = { args->op[1], args->op[2], args->op[3], args->oend };
    U64 bits[4];
    BYTE const* ip[4];
    BYTE* op[4];

    if (args->oend - args->op[0] < kWorthPairs) return;
    for (U32 index = 0; index < 1 << kIndexBits; ++index) {
        U32 const first = singles[index];
        U32 const second = singles[(index << (first & 31)) & ((1 << kIndexBits) - 1)];
        U32 const both = (first & 63) + (second & 63);
        pairs[index] = both <= kIndexBits ? both | (first >> 8 << 8) | (second >> 8 << 16) | 2u << 24
                                          : (first & 63) | (first >> 8 << 8) | 1u << 24;
    }

    ZSTD_memcpy(bits, args->bits, sizeof(bits));
    ZSTD_memcpy(ip, args->ip, sizeof(ip));
    ZSTD_memcpy(op, args->op, sizeof(op));
    for (;;) {
        size_t rounds = (size_t)-1;
        for (int s = 0; s < 4; ++s) {
            /* A round takes less than 7 bytes, and gives at most 2 symbols by lookup. A lone symbol brings a byte of
             * nothing with it, which the next one overwrites: hence one more. */
            size_t const input = (size_t)(ip[s] - args->ilimit) / 7;
            size_t const output = (size_t)(end[s] - op[s]) / (2 * kLookups + 1);
            rounds = MIN(rounds, MIN(input, output));
        }
        if (rounds == 0) break;
        do {
#pragma clang loop unroll(full)
            for (int i = 0; i < kLookups; ++i) {
#pragma clang loop unroll(full)
                for (int s = 0; s < 4; ++s) {
                    U32 const pair = pairs[bits[s] >> (64 - kIndexBits)];
                    MEM_writeLE16(op[s], (U16)(pair >> 8));
                    op[s] += pair >> 24;
                    bits[s] <<= pair & 63;
                }
            }
#pragma clang loop unroll(full)
            for (int s = 0; s < 4; ++s) {
                /* The lowest bit that is set marks how much was taken. */
                int const taken = __builtin_ctzll(bits[s]);
                ip[s] -= taken >> 3;
                bits[s] = (MEM_read64(ip[s]) | 1) << (taken & 7);
            }
        } while (--rounds > 0);
    }
    ZSTD_memcpy(args->bits, bits, sizeof(bits));
    ZSTD_memcpy(args->ip, ip, sizeof(ip));
    ZSTD_memcpy(args->op, op, sizeof(op));
}

#endif
