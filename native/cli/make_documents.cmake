# Writes the manual pages and the completion scripts, which the program itself makes. Arguments: ESPALIER, OUT.
function(espalier_output file)
  execute_process(COMMAND "${ESPALIER}" ${ARGN} OUTPUT_FILE "${file}" RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    file(REMOVE "${file}")
    message(FATAL_ERROR "failed with ${result}: ${ESPALIER} ${ARGN}")
  endif()
endfunction()

# No page of a former command may stay.
file(REMOVE_RECURSE "${OUT}")
file(MAKE_DIRECTORY "${OUT}/man1" "${OUT}/completions")
espalier_output("${OUT}/commands" man --list)
file(STRINGS "${OUT}/commands" commands)
foreach(command IN LISTS commands)
  espalier_output("${OUT}/man1/espalier-${command}.1" man ${command})
endforeach()
espalier_output("${OUT}/completions/espalier" completion bash)
espalier_output("${OUT}/completions/_espalier" completion zsh)
espalier_output("${OUT}/completions/espalier.fish" completion fish)
# The last, because the build takes it for a sign that all others are there.
espalier_output("${OUT}/man1/espalier.1" man)
