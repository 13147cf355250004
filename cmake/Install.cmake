# Installs the libraries with their headers, and files that find_package() and pkg-config find them by.
include(CMakePackageConfigHelpers)

set(libraries espalier_codec espalier_format espalier_read espalier_report espalier_write espalier_foreign espalier_native)
install(
  TARGETS ${libraries}
  EXPORT espalier-targets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(
  TARGETS espalier_shared
  EXPORT espalier-targets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
if(TARGET espalier)
  install(TARGETS espalier RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  # Manual pages and completions, which the program makes when it is built.
  set(documents "${PROJECT_BINARY_DIR}/native/cli/documents")
  install(DIRECTORY "${documents}/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}" OPTIONAL)
  foreach(place IN ITEMS bash-completion/completions/espalier zsh/site-functions/_espalier
                         fish/vendor_completions.d/espalier.fish)
    get_filename_component(folder "${place}" DIRECTORY)
    get_filename_component(name "${place}" NAME)
    install(FILES "${documents}/completions/${name}" DESTINATION "${CMAKE_INSTALL_DATADIR}/${folder}" OPTIONAL)
  endforeach()
  # The viewer's page, if scripts/viewer has built it by the time of installing.
  install(
    DIRECTORY "${PROJECT_SOURCE_DIR}/web_demo/dist/"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/espalier/viewer"
    OPTIONAL)
endif()

set(package "${CMAKE_INSTALL_LIBDIR}/cmake/espalier")
install(
  EXPORT espalier-targets
  NAMESPACE espalier::
  DESTINATION "${package}")
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/espalier-config.cmake.in" "${PROJECT_BINARY_DIR}/espalier-config.cmake"
  INSTALL_DESTINATION "${package}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/espalier-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/espalier-config.cmake"
        "${PROJECT_BINARY_DIR}/espalier-config-version.cmake" "${CMAKE_CURRENT_LIST_DIR}/FindxxHash.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/Findzstd.cmake"
  DESTINATION "${package}")

# Static libraries name what they need for whoever links them.
get_target_property(xxhash_libraries xxHash::xxHash INTERFACE_LINK_LIBRARIES)
set(ESPALIER_PC_LIBS "")
if(xxhash_libraries)
  set(ESPALIER_PC_LIBS "-lxxhash")
endif()
# The prefix as seen from the file itself, so that an installed tree may be moved.
file(RELATIVE_PATH ESPALIER_PC_TO_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file("${CMAKE_CURRENT_LIST_DIR}/espalier.pc.in" "${PROJECT_BINARY_DIR}/espalier.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/espalier.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
