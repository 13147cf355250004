# Copies the source of zstd and lets it take bits from registers of 64 bits, and put them there. zstd takes as many as an
# address has, which are 32 in WebAssembly, though its registers are wider: half the speed. And an encoder that writes words of
# 32 bits needs less room behind its output, so it makes a frame where that of another machine gives up, and the files differ. What
# else depends on the size of addresses stays as it is in the decoder. A version of zstd that is not spelt like this is refused,
# and not built wrong.
function(espalier_widen_bits from to)
  file(COPY "${from}/zstd.h" "${from}/zstd_errors.h" "${from}/common" "${from}/compress" "${from}/decompress" DESTINATION
       "${to}")
  espalier_respell("${to}/common/mem.h" #
                   "MEM_64bits(void) { return sizeof(size_t)==8; }" "MEM_64bits(void) { return 1; }")
  espalier_respell("${to}/common/mem.h" "MEM_STATIC size_t MEM_readLEST(" "MEM_STATIC U64 MEM_readLEST(")
  espalier_respell("${to}/common/mem.h" "(const void* memPtr)
{
    if (MEM_32bits())
        return (size_t)MEM_readLE32(memPtr);
    else
        return (size_t)MEM_readLE64(memPtr);"
                   "(const void* memPtr)
{
    return MEM_readLE64(memPtr);")
  espalier_respell("${to}/common/bitstream.h" "size_t   bitContainer;" "U64 bitContainer;")
  espalier_respell("${to}/common/bitstream.h" "(size_t bitContainer, U32 const" "(U64 bitContainer, U32 const")
  espalier_respell("${to}/common/bitstream.h" "+= (size_t)(((const BYTE*)" "+= (U64)(((const BYTE*)")
  # Four streams are decoded together, by a loop of our own in place of the one for 64-bit machines.
  file(COPY "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../wasm/huffman_pairs.inc" DESTINATION "${to}/decompress")
  espalier_respell("${to}/decompress/huf_decompress.c" "static size_t HUF_decompress4X1_usingDTable_internal(void* dst"
                   "#include \"huffman_pairs.inc\"
static size_t HUF_decompress4X1_usingDTable_internal(void* dst")
  espalier_respell("${to}/decompress/huf_decompress.c" "loopFn = HUF_decompress4X1_usingDTable_internal_fast_c_loop;"
                   "loopFn = HUF_decompressPairs;")
  espalier_respell("${to}/decompress/huf_decompress.c" "(!MEM_isLittleEndian() || MEM_32bits())" "(!MEM_isLittleEndian())")
  espalier_respell("${to}/decompress/huf_decompress.c" "size_t HUF_initFastDStream" "U64 HUF_initFastDStream")
  espalier_respell("${to}/decompress/huf_decompress.c" "size_t const value = MEM_readLEST" "U64 const value = MEM_readLEST")
  espalier_respell("${to}/decompress/huf_decompress.c" "bit->limitPtr = bit->start + sizeof(size_t);"
                   "bit->limitPtr = bit->start + sizeof(bit->bitContainer);")
  # The encoder is that of a machine of 64 bits.
  espalier_respell("${to}/common/mem.h" "MEM_32bits(void) { return sizeof(size_t)==4; }"
                   "MEM_32bits(void) { return ESPALIER_32_BITS; }")
  espalier_respell("${to}/common/mem.h" "MEM_writeLEST(void* memPtr, size_t val)" "MEM_writeLEST(void* memPtr, U64 val)")
  espalier_respell("${to}/common/bitstream.h" "    size_t bitContainer;" "    U64 bitContainer;")
  espalier_respell("${to}/common/bitstream.h" "size_t value, unsigned nbBits" "U64 value, unsigned nbBits")
  espalier_respell("${to}/common/bitstream.h" "size_t BIT_getLowerBits" "U64 BIT_getLowerBits")
  espalier_respell("${to}/common/fse.h" "+ sizeof(size_t) /* bitContainer */" "+ 8 /* bitContainer */")
  espalier_respell("${to}/common/huf.h" "typedef size_t HUF_CElt;" "typedef U64 HUF_CElt;")
  espalier_respell("${to}/common/huf.h" "(HUF_CTABLE_SIZE_ST(maxSymbolValue) * sizeof(size_t))"
                   "(HUF_CTABLE_SIZE_ST(maxSymbolValue) * sizeof(HUF_CElt))")
  set(huf "${to}/compress/huf_compress.c")
  espalier_respell("${huf}" "#define HUF_BITS_IN_CONTAINER (sizeof(size_t) * 8)" "#define HUF_BITS_IN_CONTAINER 64")
  espalier_respell("${huf}" "    size_t bitContainer[2]" "    U64 bitContainer[2]")
  espalier_respell("${huf}" "    size_t bitPos[2]" "    U64 bitPos[2]")
  espalier_respell("${huf}" "size_t const bitContainer = " "U64 const bitContainer = ")
  espalier_respell("${huf}" "static size_t HUF_getNbBitsFast(" "static U64 HUF_getNbBitsFast(")
  espalier_respell("${huf}" "static size_t HUF_getValue" "static U64 HUF_getValue")
  espalier_respell("${huf}" "elt & ~(size_t)0xFF" "elt & ~(U64)0xFF")
  espalier_respell("${huf}" "HUF_setValue(HUF_CElt* elt, size_t value)" "HUF_setValue(HUF_CElt* elt, U64 value)")
endfunction()

function(espalier_respell path old new)
  file(READ "${path}" text)
  string(REPLACE "${old}" "${new}" changed "${text}")
  if(changed STREQUAL text)
    message(FATAL_ERROR "${path} has no '${old}': cmake/WideBits.cmake knows zstd 1.5.4 only")
  endif()
  file(WRITE "${path}" "${changed}")
endfunction()
