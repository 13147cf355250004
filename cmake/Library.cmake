# A library of ours: the warnings that every one is clean of, and where its headers are.
function(espalier_library name)
  add_library(${name} STATIC ${ARGN})
  string(REPLACE "espalier_" "" short ${name})
  add_library(espalier::${short} ALIAS ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${short} POSITION_INDEPENDENT_CODE ON)
  target_compile_features(${name} PUBLIC cxx_std_20)
  espalier_warnings(${name})
endfunction()
