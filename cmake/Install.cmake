# Installs the library with its headers, files that find_package() and pkg-config find it by, the program and its
# documents. The components are Runtime, Development and Tools.
include(CMakePackageConfigHelpers)

set(package "${CMAKE_INSTALL_LIBDIR}/cmake/espalier")
# Each form of the library has its own export, so that a program that uses the shared library needs nothing of what the
# static one is linked with.
foreach(form IN ITEMS shared static)
  if(TARGET espalier_${form})
    install(
      TARGETS espalier_${form}
      EXPORT espalier-${form}-targets
      LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
              COMPONENT Runtime
              NAMELINK_COMPONENT Development
      ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT Development)
    install(
      EXPORT espalier-${form}-targets
      NAMESPACE espalier::
      DESTINATION "${package}"
      COMPONENT Development)
  endif()
endforeach()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT Development)
install(FILES "${PROJECT_BINARY_DIR}/src/include/espalier/version.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/espalier"
        COMPONENT Development)
if(TARGET espalier_static)
  install(FILES $<TARGET_OBJECTS:espalier_own_formats> DESTINATION "${CMAKE_INSTALL_LIBDIR}/espalier" RENAME own_formats.o
          COMPONENT Development)
endif()
include(OldHeaders)
install(DIRECTORY "${ESPALIER_OLD_HEADERS}/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT Development)

set(ESPALIER_DEFAULT_FORM static)
if(BUILD_SHARED_LIBS)
  set(ESPALIER_DEFAULT_FORM shared)
endif()
set(ESPALIER_OWN_FORMATS "${CMAKE_INSTALL_LIBDIR}/espalier/own_formats.o")
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/espalier-config.cmake.in" "${PROJECT_BINARY_DIR}/espalier-config.cmake"
  INSTALL_DESTINATION "${package}"
  PATH_VARS ESPALIER_OWN_FORMATS)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/espalier-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/espalier-config.cmake"
        "${PROJECT_BINARY_DIR}/espalier-config-version.cmake" "${CMAKE_CURRENT_LIST_DIR}/FindxxHash.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/Findzstd.cmake"
  DESTINATION "${package}"
  COMPONENT Development)

# What a program that links the static library needs besides.
set(static_requires "libzstd, zlib")
get_target_property(xxhash_libraries xxHash::xxHash INTERFACE_LINK_LIBRARIES)
if(xxhash_libraries)
  string(APPEND static_requires ", libxxhash")
endif()
# The prefix as seen from the file itself, so that an installed tree may be moved.
file(RELATIVE_PATH ESPALIER_PC_TO_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")

# A file for pkg-config. Arguments: its name, what it is, and its further fields.
function(espalier_pc name description fields)
  set(ESPALIER_PC_NAME ${name})
  set(ESPALIER_PC_DESCRIPTION "${description}")
  set(ESPALIER_PC_FIELDS "${fields}")
  configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/espalier.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(
    FILES "${PROJECT_BINARY_DIR}/${name}.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
    COMPONENT Development)
endfunction()

# The linker takes a shared library if there is one, and the static one with --static if that is alone.
set(either "Libs: -L\${libdir} -lespalier\nRequires.private: ${static_requires}\nLibs.private: -lstdc++ -lm -pthread")
# By the names of files: the shared one has nothing for C++. pkgconf keeps no two paths with a space apart.
set(archive "-l:libespalier.a -lstdc++ -lm -pthread\nRequires: ${static_requires}")
if(ESPALIER_EXPORT_CXX)
  espalier_pc(espalier "${PROJECT_DESCRIPTION}" "${either}")
else()
  espalier_pc(espalier "${PROJECT_DESCRIPTION}" "Libs: -L\${libdir} ${archive}")
endif()
espalier_pc(espalier-c "Espalier for programs in C" "${either}")
if(TARGET espalier_static)
  espalier_pc(espalier-core "Espalier with its own format alone, in place of espalier"
              "Libs: -L\${libdir} -l:espalier/own_formats.o ${archive}")
endif()

set(texts "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/CHANGELOG.md")
install(FILES ${texts} DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/espalier" COMPONENT Tools)
file(GLOB guides CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/docs/*.md")
install(FILES ${guides} DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/espalier/docs" COMPONENT Tools)
# Key maps as files, to read and to change; the program has them built in.
file(GLOB maps CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/maps/*.json")
install(FILES ${maps} DESTINATION "${CMAKE_INSTALL_DATADIR}/espalier/maps" COMPONENT Tools)
if(TARGET espalier)
  install(TARGETS espalier RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT Tools)
  # Manual pages and completions, which the program makes when it is built.
  set(documents "${PROJECT_BINARY_DIR}/native/cli/documents")
  install(DIRECTORY "${documents}/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}" COMPONENT Tools OPTIONAL)
  foreach(place IN ITEMS bash-completion/completions/espalier zsh/site-functions/_espalier
                         fish/vendor_completions.d/espalier.fish)
    get_filename_component(folder "${place}" DIRECTORY)
    get_filename_component(name "${place}" NAME)
    install(FILES "${documents}/completions/${name}" DESTINATION "${CMAKE_INSTALL_DATADIR}/${folder}" COMPONENT Tools
                                                                                                      OPTIONAL)
  endforeach()
  # The viewer's page, if scripts/viewer has built it by the time of installing. page_of_packages.cmake wants it.
  install(
    DIRECTORY "${PROJECT_SOURCE_DIR}/web_demo/dist/"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/espalier/viewer"
    COMPONENT Tools OPTIONAL)
  install(
    CODE "if(NOT EXISTS \"${PROJECT_SOURCE_DIR}/web_demo/dist/index.html\")
            message(NOTICE \"Not installed: the page of `espalier view`. Run scripts/viewer --build, then install again.\")
          else()
            execute_process(COMMAND \"${PROJECT_SOURCE_DIR}/scripts/page-sources\" --check RESULT_VARIABLE is_old)
            if(is_old)
              message(NOTICE \"The page of `espalier view` is installed, but it is of other sources. Run scripts/viewer --build, \"
                             \"then install again.\")
            endif()
          endif()"
    COMPONENT Tools)
endif()
