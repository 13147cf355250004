// All of Espalier for programs that save and read checkpoints.
//
// Public headers, which this one includes, and what they are for:
//
//   espalier/native/checkpoint_file.h   open a file, read tensors by path, verify
//   espalier/native/save.h              save a state; contents.h: all of a file, to edit it
//   espalier/native/save_async.h        in the background
//   espalier/native/checkpoint_dir.h    a folder of checkpoints with rotation
//   espalier/native/save_safetensors.h  as a safetensors file; save_npy.h: one tensor for NumPy
//   espalier/native/source.h, sink.h    read from and write to something else than files
//   espalier/tree/value.h               build and edit a state
//   espalier/tree/key_path.h            key paths, and espalier/tree/pattern.h: patterns
//   espalier/read/checkpoint.h          the tree of a file, and espalier/read/walker.h: all of it
//   espalier/base/error.h               errors as values
//   espalier/version.h                  the version, for #if
//
// Public, and not included here because few programs need them:
//
//   espalier/native/file_sink.h         replace a file with any bytes, completely or not at all
//   espalier/native/temporary_files.h   remove what saves left behind when their process was ended
//   espalier/native/mdspan.h            tensors as std::mdspan, with C++23
//   espalier/native/mapped_checkpoint.h  turn a checkpoint into another framework's, by a key map
//   espalier/map/known_maps.h           the key maps that come with the library, and
//   espalier/map/numbers.h              numbers that they compute with
//   espalier/native/open_value.h        a state tree as an open checkpoint, without a file
//   espalier/read/opening_machine.h     open a format of your own
//   espalier.h                          the C interface
//
// Other headers are installed because these need them: they are details, which may change in any
// version.
#ifndef ESPALIER_ESPALIER_H_
#define ESPALIER_ESPALIER_H_

#include "espalier/base/error.h"
#include "espalier/native/checkpoint_dir.h"
#include "espalier/native/checkpoint_file.h"
#include "espalier/native/save.h"
#include "espalier/native/save_async.h"
#include "espalier/native/save_npy.h"
#include "espalier/native/save_safetensors.h"
#include "espalier/native/sink.h"
#include "espalier/native/source.h"
#include "espalier/read/checkpoint.h"
#include "espalier/read/walker.h"
#include "espalier/tree/key_path.h"
#include "espalier/tree/pattern.h"
#include "espalier/tree/value.h"
#include "espalier/version.h"

#endif  // ESPALIER_ESPALIER_H_
