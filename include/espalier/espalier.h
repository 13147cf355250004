// All of Espalier for programs that save and read checkpoints.
//
// What this header includes:
//
//   espalier/checkpoint_file.h    open a file, read tensors by path, verify; all of it, to edit it
//   espalier/save.h               save a state; save_options.h: how
//   espalier/save_async.h         in the background
//   espalier/checkpoint_dir.h     a folder of checkpoints with rotation
//   espalier/save_foreign.h       as a safetensors file, one tensor for NumPy; unrepresentable.h:
//                                 what such files cannot hold
//   espalier/file_path.h          names of files
//   espalier/source.h, sink.h     read from and write to something else than files
//   espalier/value.h              build and edit a state
//   espalier/key_path.h           key paths; pattern.h: patterns
//   espalier/checkpoint.h         the tree of a file; walker.h: all of it; notes.h: what its opener
//                                 noticed
//   espalier/dtype.h, kind.h, bigint.h, bytes.h    what these are made of
//   espalier/error.h              errors as values
//   espalier/limits.h             bounds for files of strangers, threads, memory, progress
//   espalier/version.h            the version, for #if
//
// Few programs need these, so they are not included here:
//
//   espalier/file_sink.h          replace a file with any bytes, completely or not at all; remove
//                                 what saves left behind when their process was ended
//   espalier/mdspan.h             tensors as std::mdspan, with C++23
//   espalier/key_map.h            key maps, and the numbers that they compute with
//   espalier/mapped_checkpoint.h  turn a checkpoint into another framework's, by a key map
//   espalier.h                    the C interface
//
// espalier/detail/ has what these headers are made of. It may change in any version.
#ifndef ESPALIER_ESPALIER_H_
#define ESPALIER_ESPALIER_H_

// One line in place of hundreds.
#if __cplusplus < 202002L && (!defined(_MSVC_LANG) || _MSVC_LANG < 202002L)
#error "Espalier needs C++20: compile with -std=c++20, or set cxx_std_20 in CMake"
#else

#include "espalier/checkpoint.h"
#include "espalier/checkpoint_dir.h"
#include "espalier/checkpoint_file.h"
#include "espalier/error.h"
#include "espalier/key_path.h"
#include "espalier/notes.h"
#include "espalier/pattern.h"
#include "espalier/save.h"
#include "espalier/save_async.h"
#include "espalier/save_foreign.h"
#include "espalier/sink.h"
#include "espalier/source.h"
#include "espalier/value.h"
#include "espalier/version.h"
#include "espalier/walker.h"

#endif  // C++20

#endif  // ESPALIER_ESPALIER_H_
