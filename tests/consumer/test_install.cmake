# Installs a build into an empty folder and builds the project beside this file against it, once with
# find_package() and once with pkg-config. Arguments: BUILD, SOURCE (of the project), WORK, COMPILER.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed with ${result}: ${ARGV}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix")
run("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${WORK}/build" "-DCMAKE_PREFIX_PATH=${WORK}/prefix"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=${FLAGS}" -DCMAKE_BUILD_TYPE=Debug)
run("${CMAKE_COMMAND}" --build "${WORK}/build")
run("${WORK}/build/consumer" "${WORK}/state.espalier")
run("${WORK}/prefix/bin/espalier" verify "${WORK}/state.espalier")
run("${CMAKE_COMMAND}" -E chdir "${WORK}" "${WORK}/build/readme")
run("${WORK}/prefix/bin/espalier" show "${WORK}/run.espalier" optimizer/0/step)

foreach(document IN ITEMS man/man1/espalier.1 man/man1/espalier-ls.1 bash-completion/completions/espalier
                          zsh/site-functions/_espalier fish/vendor_completions.d/espalier.fish)
  if(NOT EXISTS "${WORK}/prefix/share/${document}")
    message(FATAL_ERROR "share/${document} was not installed")
  endif()
endforeach()

file(GLOB_RECURSE pc "${WORK}/prefix/*/espalier.pc")
get_filename_component(pc_folder "${pc}" DIRECTORY)
set(ENV{PKG_CONFIG_PATH} "${pc_folder}")
execute_process(COMMAND pkg-config --cflags --libs espalier
                OUTPUT_VARIABLE flags RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "pkg-config does not find espalier")
endif()
separate_arguments(flags UNIX_COMMAND "${flags}")
separate_arguments(extra UNIX_COMMAND "${FLAGS}")
run("${COMPILER}" -std=c++20 ${extra} "${SOURCE}/main.cpp" -o "${WORK}/with_pkg_config" ${flags})
run("${WORK}/with_pkg_config" "${WORK}/state.espalier")
