# How Emscripten compiles the core: small, but for what works on every byte of a tensor.
if(NOT EMSCRIPTEN)
  return()
endif()
# A unit of several sources reads their headers once; the modules have the same size.
set(CMAKE_UNITY_BUILD ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)
set(CMAKE_C_FLAGS_RELEASE "-Oz -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELEASE "-Oz -DNDEBUG")
# Emscripten lets -Oz inline nothing by default, and one such copy of a function serves the fast files, too.
add_compile_options(-flto -finline-functions -mbulk-memory -mnontrapping-fptoint $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>
                    $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>)
# Code that runs on every byte of a tensor (separate from size-optimised code), and code that runs on every node or name.
# Browsers have had vectors since 2023. xxHash has no code for WebAssembly's, but some for SSE2, which Emscripten translates.
set(ESPALIER_WASM_FAST -O3 -fno-lto -msimd128 -msse2)
set(ESPALIER_WASM_QUICK -Os)
