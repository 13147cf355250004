# Every third-party library: the system's package if there is one, otherwise fetched from its public
# repository (which needs the internet).

include(FetchContent)
set(FETCHCONTENT_TRY_FIND_PACKAGE_MODE OPT_IN)
set(FLATBUFFERS_BUILD_TESTS OFF)
set(FLATBUFFERS_INSTALL OFF)
set(EXPECTED_BUILD_TESTS OFF)
set(EXPECTED_BUILD_PACKAGE OFF)
set(RAPIDJSON_BUILD_DOC OFF)
set(RAPIDJSON_BUILD_EXAMPLES OFF)
set(RAPIDJSON_BUILD_TESTS OFF)
set(DOCTEST_WITH_TESTS OFF)

# A dependency that find_package() knows as `name` (or as the further arguments say).
function(espalier_dependency name repository tag)
  FetchContent_Declare(
    ${name}
    GIT_REPOSITORY https://github.com/${repository}.git
    GIT_TAG ${tag}
    GIT_SHALLOW ON
    SYSTEM
    FIND_PACKAGE_ARGS ${ARGN})
  FetchContent_MakeAvailable(${name})
endfunction()

# The folder with the source of a library, for WebAssembly: that of the system's own package, or of its repository.
# Arguments: NAME for the cache, a FILE that it has, its package in Debian, its repository, and a tag of that.
function(espalier_source name file package repository tag)
  string(TOUPPER "ESPALIER_${name}_SOURCE" folder)
  set(${folder} "${PROJECT_SOURCE_DIR}/build/${name}-source" CACHE PATH "Where the source of ${name} is")
  if(NOT EXISTS "${${folder}}/${file}")
    execute_process(COMMAND "${PROJECT_SOURCE_DIR}/cmake/fetch_source.sh" ${package} "${${folder}}"
                    RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
      FetchContent_Declare(
        ${name}_source
        GIT_REPOSITORY https://github.com/${repository}.git
        GIT_TAG ${tag}
        GIT_SHALLOW ON
        SOURCE_SUBDIR none)
      FetchContent_MakeAvailable(${name}_source)
      set(${folder} "${${name}_source_SOURCE_DIR}" CACHE PATH "" FORCE)
    endif()
  endif()
endfunction()

if(EMSCRIPTEN)
  # All of the core's dependencies but zstd and zlib are headers. Only these are shown to the compiler, because the host's
  # include directory holds a C library that is not Emscripten's.
  set(ESPALIER_STAGED_HEADERS "${PROJECT_BINARY_DIR}/staged_headers")
  set(ESPALIER_HOST_INCLUDE /usr/include CACHE PATH "Where the header-only dependencies are")
  foreach(name flatbuffers tl rapidjson xxhash.h xxh3.h)
    if(NOT EXISTS "${ESPALIER_HOST_INCLUDE}/${name}")
      message(FATAL_ERROR "${ESPALIER_HOST_INCLUDE}/${name} is missing")
    endif()
    file(COPY "${ESPALIER_HOST_INCLUDE}/${name}" DESTINATION "${ESPALIER_STAGED_HEADERS}")
  endforeach()
  find_program(ESPALIER_FLATC flatc REQUIRED)
  foreach(target xxHash::xxHash tl::expected espalier_flatbuffers espalier_rapidjson)
    add_library(${target} INTERFACE IMPORTED)
    target_include_directories(${target} INTERFACE "${ESPALIER_STAGED_HEADERS}")
  endforeach()
  # zstd and zlib are compiled in: their decoders, and the encoder of zstd for writer.wasm.
  espalier_source(zstd lib/zstd.h libzstd facebook/zstd v1.5.4)
  espalier_source(zlib inflate.c zlib madler/zlib v1.2.13)
  enable_language(C)
  include(WideBits)
  espalier_widen_bits("${ESPALIER_ZSTD_SOURCE}/lib" "${PROJECT_BINARY_DIR}/zstd")
  foreach(name common/entropy_common common/error_private common/fse_decompress common/zstd_common
               common/xxhash decompress/huf_decompress decompress/zstd_ddict decompress/zstd_decompress
               decompress/zstd_decompress_block)
    list(APPEND zstd_decoder "${PROJECT_BINARY_DIR}/zstd/${name}.c")
  endforeach()
  add_library(espalier_zstd STATIC ${zstd_decoder})
  target_include_directories(espalier_zstd SYSTEM PUBLIC "${PROJECT_BINARY_DIR}/zstd")
  # No words for errors, no formats of before version 1, no file descriptors: a third of the size.
  target_compile_definitions(
    espalier_zstd PRIVATE ZSTD_STRIP_ERROR_STRINGS ZSTD_LEGACY_SUPPORT=0 ZSTD_NO_INTRINSICS
                          ZSTD_FORCE_DECOMPRESS_SEQUENCES_SHORT HUF_FORCE_DECOMPRESS_X1 DEBUGLEVEL=0
                          ESPALIER_32_BITS=1)
  target_compile_options(espalier_zstd PRIVATE -fno-lto)
  # Tensors are mostly literals, which Huffman codes hold.
  set_source_files_properties("${PROJECT_BINARY_DIR}/zstd/decompress/huf_decompress.c"
                              PROPERTIES COMPILE_OPTIONS -Os)
  # The encoder finds the same matches as on the machines that most files are written on only if it has their vectors: without,
  # it searches short chunks in another way.
  foreach(name fse_compress hist huf_compress zstd_compress zstd_compress_literals zstd_compress_sequences
               zstd_compress_superblock zstd_double_fast zstd_fast zstd_lazy zstd_ldm zstd_opt)
    list(APPEND zstd_encoder "${PROJECT_BINARY_DIR}/zstd/compress/${name}.c")
  endforeach()
  add_library(espalier_zstd_encoder STATIC ${zstd_encoder})
  target_compile_definitions(espalier_zstd_encoder PRIVATE ZSTD_STRIP_ERROR_STRINGS DEBUGLEVEL=0 ESPALIER_32_BITS=0)
  target_compile_options(espalier_zstd_encoder PRIVATE -fno-lto -Os -msimd128 -msse2 -w)
  target_link_libraries(espalier_zstd PUBLIC espalier_zstd_encoder)
  add_library(zstd::zstd ALIAS espalier_zstd)
  set(staged_zlib "${PROJECT_BINARY_DIR}/zlib")
  file(GLOB zlib_headers "${ESPALIER_ZLIB_SOURCE}/*.h")
  foreach(name adler32 crc32 inffast inflate inftrees zutil)
    list(APPEND zlib_decoder "${staged_zlib}/${name}.c")
    file(COPY "${ESPALIER_ZLIB_SOURCE}/${name}.c" ${zlib_headers} DESTINATION "${staged_zlib}")
  endforeach()
  add_library(espalier_zlib STATIC ${zlib_decoder})
  target_include_directories(espalier_zlib SYSTEM PUBLIC "${staged_zlib}")
  # The CRC-32 of a byte at a time, whose tables are a sixteenth. Arrays of zarr may have headers of gzip.
  target_compile_definitions(espalier_zlib PRIVATE Z_TESTW=0)
  target_compile_options(espalier_zlib PRIVATE -fno-lto -w)
  set_source_files_properties("${staged_zlib}/inffast.c" PROPERTIES COMPILE_OPTIONS -O2)
  # Their sources have the same names for different things.
  set_target_properties(espalier_zstd espalier_zstd_encoder espalier_zlib PROPERTIES UNITY_BUILD OFF)
  add_library(ZLIB::ZLIB ALIAS espalier_zlib)
  return()
endif()

find_package(Threads REQUIRED)
find_package(xxHash QUIET)
if(NOT TARGET xxHash::xxHash)
  FetchContent_Declare(
    xxhash_source
    GIT_REPOSITORY https://github.com/Cyan4973/xxHash.git
    GIT_TAG v0.8.2
    GIT_SHALLOW ON)
  FetchContent_GetProperties(xxhash_source)
  if(NOT xxhash_source_POPULATED)
    FetchContent_Populate(xxhash_source)
  endif()
  add_library(xxHash::xxHash INTERFACE IMPORTED)
  target_include_directories(xxHash::xxHash INTERFACE "${xxhash_source_SOURCE_DIR}")
endif()

find_package(zstd MODULE QUIET)
if(NOT TARGET zstd::zstd)
  FetchContent_Declare(
    zstd_source
    GIT_REPOSITORY https://github.com/facebook/zstd.git
    GIT_TAG v1.5.7
    GIT_SHALLOW ON
    SOURCE_SUBDIR build/cmake
    SYSTEM)
  set(ZSTD_BUILD_PROGRAMS OFF)
  set(ZSTD_BUILD_SHARED OFF)
  set(ZSTD_BUILD_TESTS OFF)
  FetchContent_MakeAvailable(zstd_source)
  add_library(zstd::zstd ALIAS libzstd_static)
endif()

find_package(ZLIB QUIET)
if(NOT TARGET ZLIB::ZLIB)
  FetchContent_Declare(
    zlib_source
    GIT_REPOSITORY https://github.com/madler/zlib.git
    GIT_TAG v1.3.1
    GIT_SHALLOW ON
    SYSTEM)
  set(ZLIB_BUILD_EXAMPLES OFF)
  FetchContent_MakeAvailable(zlib_source)
  target_include_directories(zlibstatic SYSTEM INTERFACE "${zlib_source_SOURCE_DIR}" "${zlib_source_BINARY_DIR}")
  add_library(ZLIB::ZLIB ALIAS zlibstatic)
endif()

espalier_dependency(flatbuffers google/flatbuffers v23.5.26 NAMES FlatBuffers CONFIG)
if(NOT TARGET flatbuffers::flatc)
  add_executable(flatbuffers::flatc ALIAS flatc)
endif()
# Only headers of FlatBuffers are used, so nothing of it has to be linked.
add_library(espalier_flatbuffers INTERFACE IMPORTED)
foreach(target flatbuffers::flatbuffers flatbuffers::flatbuffers_shared flatbuffers)
  if(TARGET ${target})
    target_include_directories(
      espalier_flatbuffers SYSTEM
      INTERFACE $<TARGET_PROPERTY:${target},INTERFACE_INCLUDE_DIRECTORIES>)
    break()
  endif()
endforeach()
set(ESPALIER_FLATC flatbuffers::flatc)

espalier_dependency(tl-expected TartanLlama/expected v1.1.0)

find_package(RapidJSON QUIET)
add_library(espalier_rapidjson INTERFACE IMPORTED)
if(RapidJSON_FOUND)
  target_include_directories(espalier_rapidjson SYSTEM INTERFACE ${RapidJSON_INCLUDE_DIRS}
                                                                 ${RAPIDJSON_INCLUDE_DIRS})
else()
  FetchContent_Declare(
    rapidjson
    GIT_REPOSITORY https://github.com/Tencent/rapidjson.git
    GIT_TAG v1.1.0)
  FetchContent_GetProperties(rapidjson)
  if(NOT rapidjson_POPULATED)
    FetchContent_Populate(rapidjson)
  endif()
  target_include_directories(espalier_rapidjson SYSTEM INTERFACE "${rapidjson_SOURCE_DIR}/include")
endif()

if(ESPALIER_BUILD_CLI)
  # Never fetched: a network server library must get the system's security updates.
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(libevent QUIET IMPORTED_TARGET libevent_extra>=2.1.12 libevent_core>=2.1.12)
  endif()
  if(NOT TARGET PkgConfig::libevent)
    message(FATAL_ERROR "The command line needs libevent 2.1.12 or later, found by pkg-config (Debian: libevent-dev and "
                        "pkg-config). Install it, or leave the command line out: -DESPALIER_BUILD_CLI=OFF")
  endif()
  add_library(espalier_libevent INTERFACE IMPORTED)
  if(ESPALIER_STANDALONE)
    # Where there are no static ones, the program needs the shared ones of the machine that built it.
    foreach(part IN ITEMS extra core)
      find_library(ESPALIER_LIBEVENT_${part} NAMES libevent_${part}.a event_${part} HINTS ${libevent_LIBRARY_DIRS} ${libevent_LIBDIR})
      target_link_libraries(espalier_libevent INTERFACE "${ESPALIER_LIBEVENT_${part}}")
    endforeach()
    target_include_directories(espalier_libevent SYSTEM INTERFACE ${libevent_INCLUDE_DIRS})
  else()
    target_link_libraries(espalier_libevent INTERFACE PkgConfig::libevent)
  endif()
endif()
if(ESPALIER_BUILD_CLI AND ESPALIER_URLS)
  # Never fetched, for the same reason. Older versions do not take URLs apart as we need it.
  find_package(CURL 7.80 QUIET)
  if(NOT TARGET CURL::libcurl)
    message(STATUS "No libcurl 7.80 or later (Debian: libcurl4-openssl-dev): the command line will not read URLs")
  endif()
endif()
if(ESPALIER_BUILD_CLI OR ESPALIER_BUILD_BENCHMARKS)
  espalier_dependency(CLI11 CLIUtils/CLI11 v2.3.2)
  espalier_dependency(fmt fmtlib/fmt 9.1.0)
  add_library(espalier_fmt INTERFACE IMPORTED)
  target_link_libraries(espalier_fmt INTERFACE $<IF:$<BOOL:${ESPALIER_STANDALONE}>,fmt::fmt-header-only,fmt::fmt>)
endif()
if(ESPALIER_BUILD_TESTS)
  espalier_dependency(doctest doctest/doctest v2.4.11)
endif()
