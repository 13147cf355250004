# Installs a build, moves it, and builds the project beside this file against it, with find_package() and with
# pkg-config. Arguments: BUILD, SOURCE (of the project), WORK, COMPILER, C_COMPILER, FLAGS, PYTHON, FORMS (those of the
# library that must be installed: Shared or "Shared,Static"), HEADERS (how test_headers.py tests them).
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

foreach(form IN LISTS FORMS)
  set(build "${WORK}/${form}")
  run("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${build}" "-DCMAKE_PREFIX_PATH=${prefix}" ${toolchain}
      "-DCOMPONENTS=C\;CXX\;${form}")
  run("${CMAKE_COMMAND}" --build "${build}")
  run("${build}/consumer" "${WORK}/state.espalier")
  run("${build}/consumer_c" "${WORK}/state.espalier")
  run("${CMAKE_COMMAND}" -E chdir "${WORK}" "${build}/readme")
  execute_process(COMMAND objdump -p "${build}/consumer" OUTPUT_VARIABLE linked)
  if(linked MATCHES "NEEDED +libespalier\\.so\\.0\\.1")
    set(found Shared)
  else()
    set(found Static)
  endif()
  if(NOT found STREQUAL form)
    message(FATAL_ERROR "component ${form} links the library ${found}")
  endif()
endforeach()

# A project in C alone.
run("${CMAKE_COMMAND}" -S "${SOURCE}/only_c" -B "${WORK}/only_c" "-DCMAKE_PREFIX_PATH=${prefix}"
    "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_C_FLAGS=${FLAGS}")
run("${CMAKE_COMMAND}" --build "${WORK}/only_c")
run("${WORK}/only_c/only_c" "${WORK}/state.espalier")

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

# A component that there is not fails with a sentence.
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${SOURCE}" -B "${WORK}/unknown" "-DCMAKE_PREFIX_PATH=${prefix}" ${toolchain}
          "-DCOMPONENTS=Core"
  RESULT_VARIABLE result
  OUTPUT_QUIET
  ERROR_VARIABLE said)
string(REGEX REPLACE "[ \n]+" " " said "${said}")
if(result EQUAL 0 OR NOT said MATCHES "no component Core; it has C, CXX, Shared and Static")
  message(FATAL_ERROR "an unknown component: ${result} ${said}")
endif()

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
foreach(form IN LISTS FORMS)
  set(options "")
  set(ENV{LD_LIBRARY_PATH} "${library_folder}")
  if(form STREQUAL "Static")
    # The linker takes a shared library if there is one.
    file(GLOB shared "${library_folder}/libespalier.so*")
    file(REMOVE ${shared})
    set(options --static)
    set(ENV{LD_LIBRARY_PATH} "")
  endif()
  execute_process(COMMAND pkg-config ${options} --cflags --libs espalier
                  OUTPUT_VARIABLE flags RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "pkg-config does not find espalier")
  endif()
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run("${COMPILER}" -std=c++20 ${extra} "${SOURCE}/main.cpp" -o "${WORK}/with_pkg_config" ${flags})
  run("${WORK}/with_pkg_config" "${WORK}/state.espalier")
endforeach()
