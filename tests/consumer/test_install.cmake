# Installs a build, moves it, and builds the project beside this file against it, with find_package() and with
# pkg-config. Arguments: BUILD, SOURCE (of the project), WORK, COMPILER, C_COMPILER, FLAGS, PYTHON, FORMS (those of the
# library that must be installed: Shared or "Shared,Static"), EXPORT_CXX (whether the shared one is for C++, too), CORE_BYTES
# (how large a program with espalier::core may be, or nothing), HEADERS (how test_headers.py tests them).
cmake_policy(VERSION 3.25)
string(REPLACE "," ";" FORMS "${FORMS}")
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed with ${result}: ${ARGV}")
  endif()
endfunction()
set(toolchain "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_FLAGS=${FLAGS}"
              -DCMAKE_BUILD_TYPE=Debug)

file(REMOVE_RECURSE "${WORK}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/first")
# An installed tree may be moved.
set(prefix "${WORK}/a prefix")
file(RENAME "${WORK}/first" "${prefix}")
get_filename_component(root "${SOURCE}/../.." ABSOLUTE)
run("${PYTHON}" "${SOURCE}/test_headers.py" "${HEADERS}" "${prefix}/include" "${root}" "${COMPILER}")

# Configures the project with components that must be refused with a sentence. Further arguments are for CMake.
function(refused name components sentence)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${SOURCE}" -B "${WORK}/${name}" "-DCMAKE_PREFIX_PATH=${prefix}" ${toolchain}
            "-DCOMPONENTS=${components}" ${ARGN}
    RESULT_VARIABLE result
    OUTPUT_QUIET
    ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  if(result EQUAL 0 OR NOT said MATCHES "${sentence}")
    message(FATAL_ERROR "${name}: ${result} ${said}")
  endif()
endfunction()

# Which library a program is linked with.
function(check_linked program expected)
  execute_process(COMMAND objdump -p "${program}" OUTPUT_VARIABLE linked)
  if(linked MATCHES "NEEDED +libespalier\\.so\\.0\\.1")
    set(found Shared)
  else()
    set(found Static)
  endif()
  if(NOT found STREQUAL expected)
    message(FATAL_ERROR "${program} links the library ${found}")
  endif()
endfunction()

foreach(form IN LISTS FORMS)
  set(build "${WORK}/${form}")
  set(components C CXX ${form})
  if(form STREQUAL "Static")
    list(APPEND components Core)
  elseif(NOT EXPORT_CXX)
    set(components C Shared)
  endif()
  string(REPLACE ";" "\\;" components "${components}")
  run("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${build}" "-DCMAKE_PREFIX_PATH=${prefix}" ${toolchain}
      "-DCOMPONENTS=${components}")
  run("${CMAKE_COMMAND}" --build "${build}")
  if(components MATCHES "CXX")
    run("${build}/consumer" "${WORK}/state.espalier")
    check_linked("${build}/consumer" ${form})
    run("${CMAKE_COMMAND}" -E chdir "${WORK}" "${build}/readme")
  else()
    # Programs in C++ say which component is missing.
    refused(shared_cxx "CXX;Shared" "exports the C interface alone; ask for Static")
    refused(shared_alone "Shared" "exports the C interface alone; ask for Static")
    execute_process(COMMAND "${CMAKE_COMMAND}" --build "${build}" --target consumer RESULT_VARIABLE result OUTPUT_VARIABLE said
                    ERROR_VARIABLE said)
    if(result EQUAL 0 OR NOT said MATCHES "is for programs in C alone: name CXX, too")
      message(FATAL_ERROR "C++ with the component C alone: ${result} ${said}")
    endif()
  endif()
endforeach()
if("Static" IN_LIST FORMS)
  run("${WORK}/Static/consumer" "${WORK}/state.espalier")
endif()
foreach(form IN LISTS FORMS)
  run("${WORK}/${form}/consumer_c" "${WORK}/state.espalier")
  check_linked("${WORK}/${form}/consumer_c" ${form})
endforeach()

# A project in C alone.
set(c_targets "espalier::c")
if("Static" IN_LIST FORMS)
  list(APPEND c_targets "espalier::core")
endif()
foreach(target IN LISTS c_targets)
  string(REPLACE "::" "_" name "${target}")
  set(components "")
  if(target MATCHES "core")
    set(components Core)
  endif()
  run("${CMAKE_COMMAND}" -S "${SOURCE}/only_c" -B "${WORK}/only_c/${name}" "-DCMAKE_PREFIX_PATH=${prefix}"
      "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_C_FLAGS=${FLAGS}" "-DTARGET=${target}" "-DCOMPONENTS=${components}")
  run("${CMAKE_COMMAND}" --build "${WORK}/only_c/${name}")
  run("${WORK}/only_c/${name}/only_c" "${WORK}/state.espalier")
endforeach()

# Espalier's own format alone.
if("Static" IN_LIST FORMS)
  foreach(program IN ITEMS all core)
    string(REPLACE "core" "own" formats ${program})
    run("${WORK}/Static/consumer_${program}" "${WORK}" ${formats})
    file(SIZE "${WORK}/Static/consumer_${program}" size_of_${program})
    message(STATUS "consumer_${program}: ${size_of_${program}} bytes")
  endforeach()
  run("${WORK}/Static/consumer_core_c" "${WORK}/state.espalier")
  if(CORE_BYTES AND size_of_core GREATER CORE_BYTES)
    message(FATAL_ERROR "a program with espalier::core has ${size_of_core} bytes, more than ${CORE_BYTES}; the linker's option \
--print-gc-sections tells what it leaves out, and -Map why the rest is there")
  endif()
  refused(both "C;CXX;Core" "ESPALIER_FORMATS" -DBOTH=ON)
else()
  refused(no_core "CXX;Core" "the static library of Espalier is not installed; build it with -DBUILD_SHARED_LIBS=OFF")
endif()

# Before C++20, one line says so.
execute_process(
  COMMAND "${COMPILER}" -std=c++17 -fsyntax-only "-I${prefix}/include" -include espalier/espalier.h -x c++ /dev/null
  RESULT_VARIABLE result
  ERROR_VARIABLE said)
string(REGEX MATCHALL "error:" errors "${said}")
list(LENGTH errors count)
if(result EQUAL 0 OR NOT count EQUAL 1 OR NOT said MATCHES "Espalier needs C\\+\\+20")
  message(FATAL_ERROR "C++17: ${count} errors: ${said}")
endif()

refused(unknown "Tools" "no component Tools; it has C, CXX, Shared, Static and Core")

if(EXISTS "${prefix}/bin/espalier")
  run("${prefix}/bin/espalier" verify "${WORK}/state.espalier")
  run("${prefix}/bin/espalier" show "${WORK}/run.espalier" optimizer/0/step)
  foreach(document IN ITEMS man/man1/espalier.1 man/man1/espalier-ls.1 bash-completion/completions/espalier
                            zsh/site-functions/_espalier fish/vendor_completions.d/espalier.fish
                            espalier/maps/llama-meta.json)
    if(NOT EXISTS "${prefix}/share/${document}")
      message(FATAL_ERROR "share/${document} was not installed")
    endif()
  endforeach()
  if(EXISTS "${root}/web_demo/dist/index.html" AND NOT EXISTS "${prefix}/share/espalier/viewer/index.html")
    message(FATAL_ERROR "the viewer's page was not installed")
  endif()
endif()
foreach(document IN ITEMS LICENSE README.md CHANGELOG.md docs/format.md)
  if(NOT EXISTS "${prefix}/share/doc/espalier/${document}")
    message(FATAL_ERROR "share/doc/espalier/${document} was not installed")
  endif()
endforeach()

file(GLOB_RECURSE pc "${prefix}/*/espalier.pc")
get_filename_component(pc_folder "${pc}" DIRECTORY)
get_filename_component(library_folder "${pc_folder}" DIRECTORY)
set(ENV{PKG_CONFIG_PATH} "${pc_folder}")
separate_arguments(extra UNIX_COMMAND "${FLAGS}")

# Compiles and runs a program with what pkg-config says.
function(run_with_pkg_config source package)
  execute_process(COMMAND pkg-config ${ARGN} --cflags --libs ${package} OUTPUT_VARIABLE flags RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "pkg-config does not find ${package}")
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(compiler "${C_COMPILER}")
  if(source MATCHES "\\.cpp$")
    set(compiler "${COMPILER}" -std=c++20)
  endif()
  run(${compiler} ${extra} "${SOURCE}/${source}" -o "${WORK}/with_pkg_config" ${flags})
  if(source STREQUAL "core.cpp")
    run("${WORK}/with_pkg_config" "${WORK}" own)
  else()
    run("${WORK}/with_pkg_config" "${WORK}/state.espalier")
  endif()
endfunction()

foreach(form IN LISTS FORMS)
  set(options "")
  set(ENV{LD_LIBRARY_PATH} "${library_folder}")
  if(form STREQUAL "Static")
    # Programs that need no shared library, while there is one.
    set(ENV{LD_LIBRARY_PATH} "")
    if(NOT EXPORT_CXX)
      run_with_pkg_config(main.cpp espalier)
    endif()
    run_with_pkg_config(core.cpp espalier-core)
    run_with_pkg_config(main.c espalier-core)
    # The linker takes a shared library if there is one.
    file(GLOB shared "${library_folder}/libespalier.so*")
    file(REMOVE ${shared})
    set(options --static)
  endif()
  run_with_pkg_config(main.cpp espalier ${options})
  run_with_pkg_config(main.c espalier ${options})
  run_with_pkg_config(main.c espalier-c ${options})
endforeach()
