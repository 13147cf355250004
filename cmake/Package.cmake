# What cpack makes: an archive of the installed tree, and on Debian and its kin three packages. The preset `package`
# builds for them.
set(runtime "libespalier${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
set(CPACK_PACKAGE_NAME espalier)
set(CPACK_PACKAGE_VENDOR "The Espalier developers")
# No address: ask where the project is published.
set(CPACK_PACKAGE_CONTACT "The Espalier developers <espalier@espalier.invalid>")
set(CPACK_PACKAGE_DESCRIPTION
    "Espalier stores a nested training state (parameters, optimizer state, counters, metadata) as one tree over flat
tensor bytes in one file, and opens it in place, in part and without trusting it.")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_COMPONENTS_ALL Runtime Development Tools)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
                                                WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/page_of_packages.cmake" "${CMAKE_CURRENT_LIST_DIR}/debian_files.cmake")
option(ESPALIER_PACKAGES_WITHOUT_PAGE "Let cpack make packages without the page of espalier view" OFF)
set(CPACK_ESPALIER_WITHOUT_PAGE "${ESPALIER_PACKAGES_WITHOUT_PAGE}")
set(CPACK_ESPALIER_PAGE_SOURCES "${PROJECT_SOURCE_DIR}/scripts/page-sources")

set(CPACK_GENERATOR TGZ)
find_program(ESPALIER_SHLIBDEPS dpkg-shlibdeps)
if(ESPALIER_SHLIBDEPS)
  list(APPEND CPACK_GENERATOR DEB)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME "${runtime}")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "training checkpoints: the shared library")
# Programs that link the library then depend on its package, and the system learns of the library.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libespalier-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "training checkpoints: headers and libraries for C++ and C")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "${runtime} (= ${PROJECT_VERSION}), libexpected-dev, libxxhash-dev, libzstd-dev, zlib1g-dev")
set(CPACK_DEBIAN_TOOLS_PACKAGE_NAME espalier)
set(CPACK_DEBIAN_TOOLS_PACKAGE_SECTION utils)
set(CPACK_COMPONENT_TOOLS_DESCRIPTION "training checkpoints: the command line, its manual and the documents")
# Where debian_files.cmake finds each component's package.
set(CPACK_ESPALIER_PACKAGES "Runtime=${runtime}" "Development=libespalier-dev" "Tools=espalier")
include(CPack)
