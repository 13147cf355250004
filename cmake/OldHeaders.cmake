# The names that public headers had before 0.2: each says its new name, or what to use instead, once, and includes it. They go with the version
# after that.
set(ESPALIER_OLD_HEADERS "${PROJECT_BINARY_DIR}/old_headers")
set(moved
    base/error=error
    map/known_maps=key_map
    map/numbers=key_map
    native/checkpoint_dir=checkpoint_dir
    native/checkpoint_file=checkpoint_file
    native/file_sink=file_sink
    native/mapped_checkpoint=mapped_checkpoint
    native/mdspan=mdspan
    native/open_value=checkpoint_file
    native/save=save
    native/save_async=save_async
    native/save_npy=save_foreign
    native/save_safetensors=save_foreign
    native/sink=sink
    native/source=source
    native/temporary_files=file_sink
    progress=limits
    read/checkpoint=checkpoint
    read/opening_machine=checkpoint_file
    read/walker=walker
    tree/key_path=key_path
    tree/pattern=pattern
    tree/value=value)
foreach(pair IN LISTS moved)
  string(REPLACE "=" ";" names "${pair}")
  list(GET names 0 old)
  list(GET names 1 new)
  set(said "is espalier/${new}.h now; the next version has the new name alone")
  if(old STREQUAL "read/opening_machine")
    set(said "has no new name: a format of your own is a Value with produced tensors, opened with open_value() of espalier/${new}.h")
  endif()
  file(CONFIGURE OUTPUT "${ESPALIER_OLD_HEADERS}/espalier/${old}.h" CONTENT "#pragma once
#pragma message(\"espalier/@old@.h @said@\")
#include <espalier/@new@.h>
" @ONLY)
endforeach()
