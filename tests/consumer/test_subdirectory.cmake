# Takes the last commit out of the repository into a folder, and builds the project beside this file with it by
# add_subdirectory(). Arguments: REPOSITORY, WORK, GENERATOR, COMPILER, LAUNCHER (of the compiler, or nothing).
cmake_policy(VERSION 3.25)
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed with ${result}: ${ARGV}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
file(MAKE_DIRECTORY "${WORK}/source")
run(git -C "${REPOSITORY}" archive --output "${WORK}/source.tar" HEAD)
file(ARCHIVE_EXTRACT INPUT "${WORK}/source.tar" DESTINATION "${WORK}/source")
set(ENV{CCACHE_BASEDIR} "${WORK}/source")
set(ENV{CCACHE_NOHASHDIR} 1)
set(configure
    "${CMAKE_COMMAND}" -S "${WORK}/source/tests/consumer" -G "${GENERATOR}" "-DESPALIER_SOURCE=${WORK}/source"
    "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" -DCMAKE_BUILD_TYPE=Debug
    -DCMAKE_UNITY_BUILD=ON)
run(${configure} -B "${WORK}/build")
run("${CMAKE_COMMAND}" --build "${WORK}/build")
run("${WORK}/build/consumer" "${WORK}/state.espalier")
run("${WORK}/build/consumer_all" "${WORK}" all)
run("${WORK}/build/consumer_core" "${WORK}" own)

execute_process(COMMAND ${configure} -B "${WORK}/both" -DBOTH=ON RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE said)
if(result EQUAL 0 OR NOT said MATCHES "ESPALIER_FORMATS")
  message(FATAL_ERROR "espalier::espalier and espalier::core at once: ${result} ${said}")
endif()
