# How all code of the library is compiled.
function(espalier_library_properties name)
  # Shared libraries may link ours; WebAssembly modules are linked whole, and would find globals by a detour.
  if(EMSCRIPTEN)
    set(espalier_pic OFF)
  else()
    set(espalier_pic ON)
  endif()
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ${espalier_pic})
  target_compile_features(${name} PUBLIC cxx_std_20)
  if(NOT EMSCRIPTEN AND NOT MSVC)
    # A program that is linked with --gc-sections then has the functions that it calls, and not the files that they are in.
    target_compile_options(${name} PRIVATE -ffunction-sections -fdata-sections)
  endif()
  espalier_warnings(${name})
endfunction()

# A library of ours.
function(espalier_library name)
  add_library(${name} STATIC ${ARGN})
  string(REPLACE "espalier_" "" short ${name})
  add_library(espalier::${short} ALIAS ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${short})
  espalier_library_properties(${name})
endfunction()
