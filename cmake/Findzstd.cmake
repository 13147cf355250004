# Finds zstd, whose package has CMake files on some systems only. Gives the target zstd::zstd.
find_path(zstd_INCLUDE_DIR zstd.h)
find_library(zstd_LIBRARY zstd)
mark_as_advanced(zstd_INCLUDE_DIR zstd_LIBRARY)

if(zstd_INCLUDE_DIR)
  foreach(part MAJOR MINOR RELEASE)
    file(STRINGS "${zstd_INCLUDE_DIR}/zstd.h" line REGEX "#define ZSTD_VERSION_${part} ")
    string(REGEX MATCH "[0-9]+" zstd_${part} "${line}")
  endforeach()
  set(zstd_VERSION "${zstd_MAJOR}.${zstd_MINOR}.${zstd_RELEASE}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  zstd
  REQUIRED_VARS zstd_LIBRARY zstd_INCLUDE_DIR
  VERSION_VAR zstd_VERSION)

if(zstd_FOUND AND NOT TARGET zstd::zstd)
  add_library(zstd::zstd INTERFACE IMPORTED)
  set_target_properties(zstd::zstd PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${zstd_INCLUDE_DIR}"
                                              INTERFACE_LINK_LIBRARIES "${zstd_LIBRARY}")
endif()
