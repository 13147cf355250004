# Finds xxHash, which on many systems has no CMake package of its own.
#
# Target xxHash::xxHash: the headers, and on x86 the library with run-time dispatch to the widest vector
# instructions if it has it (then ESPALIER_XXH_DISPATCH is defined). Elsewhere the headers are enough.

find_path(xxHash_INCLUDE_DIR xxhash.h)
find_path(xxHash_DISPATCH_INCLUDE_DIR xxh_x86dispatch.h)
find_library(xxHash_LIBRARY xxhash)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(xxHash REQUIRED_VARS xxHash_INCLUDE_DIR)
mark_as_advanced(xxHash_INCLUDE_DIR xxHash_DISPATCH_INCLUDE_DIR xxHash_LIBRARY)

if(xxHash_FOUND AND NOT TARGET xxHash::xxHash)
  add_library(xxHash::xxHash INTERFACE IMPORTED)
  if(NOT EMSCRIPTEN)
    # Debian's headers stand in /usr/include, which CMake leaves out by itself.
    target_include_directories(xxHash::xxHash INTERFACE "${xxHash_INCLUDE_DIR}")
  endif()
  if(xxHash_LIBRARY
     AND xxHash_DISPATCH_INCLUDE_DIR
     AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    # A project in C has no compiler for C++.
    get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
    list(FIND languages CXX has_cxx)
    set(CMAKE_REQUIRED_INCLUDES "${xxHash_INCLUDE_DIR}")
    set(CMAKE_REQUIRED_LIBRARIES "${xxHash_LIBRARY}")
    set(program "#include <xxhash.h>
                 #include <xxh_x86dispatch.h>
                 int main(void) { return (int)XXH3_64bits(\"\", 0); }")
    if(has_cxx GREATER -1)
      include(CheckCXXSourceCompiles)
      check_cxx_source_compiles("${program}" xxHash_HAS_DISPATCH)
    else()
      include(CheckCSourceCompiles)
      check_c_source_compiles("${program}" xxHash_HAS_DISPATCH)
    endif()
    unset(CMAKE_REQUIRED_INCLUDES)
    unset(CMAKE_REQUIRED_LIBRARIES)
    if(xxHash_HAS_DISPATCH)
      target_link_libraries(xxHash::xxHash INTERFACE "${xxHash_LIBRARY}")
      target_compile_definitions(xxHash::xxHash INTERFACE ESPALIER_XXH_DISPATCH=1)
    endif()
  endif()
endif()
