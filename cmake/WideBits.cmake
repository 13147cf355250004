# Copies the source of zstd and lets its decoder take bits from registers of 64 bits. zstd takes as many as an
# address has, which are 32 in WebAssembly, though its registers are wider: half the speed. What depends on the
# size of addresses stays as it is. A version of zstd that is not spelt like this is refused, and not built wrong.
function(espalier_widen_bits from to)
  file(COPY "${from}/zstd.h" "${from}/zstd_errors.h" "${from}/common" "${from}/decompress" DESTINATION "${to}")
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
endfunction()

function(espalier_respell path old new)
  file(READ "${path}" text)
  string(REPLACE "${old}" "${new}" changed "${text}")
  if(changed STREQUAL text)
    message(FATAL_ERROR "${path} has no '${old}': cmake/WideBits.cmake knows zstd 1.5.4 only")
  endif()
  file(WRITE "${path}" "${changed}")
endfunction()
